"""FixedLenSequence, Sparse and Ragged features of Examples."""

from __future__ import annotations

from .build import (
    Case,
    example,
    fixed,
    float_bits,
    floats,
    ints,
    ragged,
    sparse,
    steps_of,
    strings,
    varlen,
)


def both(cases: list[Case], records: int) -> list[Case]:
    """The cases, and those of whole files that are taken once more for each record by itself."""
    single = [
        Case(f"{case.name}/{n}", case.file, case.spec, [n], single=True)
        for case in cases
        if case.records is None and not case.name.startswith("refused/")
        for n in range(records)
    ]
    return [*cases, *single]


# ---- FixedLenSequence ----


def steps_records() -> list[bytes]:
    """Lists of a multiple of six values, empty ones and missing ones."""
    records = []
    for row, count in enumerate((2, 0, 3, 1)):
        features = {
            "ints": ints(*range(row, row + 6 * count)),
            "floats": floats(*(value / 8 for value in range(6 * count))),
            "strings": strings(*(b"%d" % value for value in range(6 * count))),
        }
        if row == 3:
            del features["strings"]
        records.append(example(features))
    return records


def steps_cases() -> list[Case]:
    """Shapes that six divides by, and padding."""
    scalars = {
        "ints": steps_of("int64", []),
        "floats": steps_of("float32", []),
        "strings": steps_of("string", []),
    }
    shaped = {
        "ints": steps_of("int64", [2]),
        "floats": steps_of("float32", [2, 3]),
        "strings": steps_of("string", [1, 3]),
    }
    padded = {
        "ints": steps_of("int64", [3], -1),
        "floats": steps_of("float32", [], float_bits(0.5)),
        "strings": steps_of("string", [2], [b"pad".hex()]),
        "never": steps_of("int64", [2], 7),
    }
    file = "steps.tfrecord"
    cases = [
        Case("steps/scalars", file, scalars),
        Case("steps/shaped", file, shaped),
        Case("steps/padded", file, padded),
        Case(
            "steps/with_others", file, {"ints": steps_of("int64", [6]), "floats": varlen("float32")}
        ),
        Case("steps/no_steps", file, shaped, [1]),
        Case("steps/no_examples", file, padded, []),
        Case("refused/steps_left_over", file, {"ints": steps_of("int64", [4])}, [0, 2]),
        Case("refused/steps_of_another_kind", file, {"ints": steps_of("float32", [])}, [0]),
        Case(
            "refused/steps_not_allowed_to_miss", file, {"ints": steps_of("int64", [], None, False)}
        ),
    ]
    return both(cases, 4)


# ---- Sparse ----


def sparse_records() -> list[bytes]:
    """Values with indices in no order, some of them equal; nothing; empty lists."""
    whole = {
        "v": floats(0.5, 1.5, 2.5, 3.5),
        "s": strings(b"a", b"", b"ccc", b"d"),
        "n": ints(-1, 2**40, 3, 0),
        "i": ints(7, 0, 7, 3),
        "j": ints(1, 4, 0, 4),
        "k": ints(0, 0, 0, 1),
    }
    empty = {"v": floats(), "s": strings(), "n": ints(), "i": ints(), "j": ints(), "k": ints()}
    one = {
        "v": floats(9),
        "s": strings(b"\xff"),
        "n": ints(5),
        "i": ints(2),
        "j": ints(3),
        "k": ints(1),
    }
    return [example(features) for features in (whole, {}, one, empty, whole)]


def sparse_cases() -> list[Case]:
    """One to three dimensions, sorted or left as they are."""
    columns = {
        "floats": sparse("float32", "i", "v", 8),
        "strings": sparse("string", "i", "s", 8),
        "ints": sparse("int64", "i", "n", 8),
    }
    matrices = {
        "floats": sparse("float32", ["i", "j"], "v", [8, 5]),
        "strings": sparse("string", ["j", "i"], "s", [5, 8]),
        "cubes": sparse("int64", ["k", "j", "i"], "n", [2, 5, 8]),
        "one_key": sparse("float32", ["k"], "v", [2]),
    }
    as_stored = {
        "x": sparse("float32", "i", "v", 8, True),
        "y": sparse("string", ["i", "j"], "s", [8, 5], True),
    }
    shared = {"x": sparse("int64", "i", "n", 8), "i": varlen("int64"), "n": varlen("int64")}
    file = "sparse.tfrecord"
    cases = [
        Case("sparse/columns", file, columns),
        Case("sparse/matrices", file, matrices),
        Case("sparse/as_stored", file, as_stored),
        Case("sparse/shared_keys", file, shared),
        Case("sparse/index_is_value", file, {"x": sparse("int64", "i", "i", 8)}),
        Case("sparse/nothing_there", file, {"x": sparse("int64", "a", "b", 3)}),
        Case("sparse/no_values", file, columns, [1, 3]),
        Case("sparse/no_examples", file, matrices, []),
        Case("refused/sparse_counts", file, {"x": sparse("float32", "nothing", "v", 8)}, [0]),
        Case("refused/sparse_kind", file, {"x": sparse("float32", "i", "n", 8)}, [1, 0]),
        Case("refused/sparse_index_kind", file, {"x": sparse("int64", "v", "n", 8)}, [1, 0]),
        Case("refused/sparse_dense_key", file, {**columns, "i": fixed("int64", [4])}, [0]),
    ]
    return both(cases, 5)


# ---- Ragged ----


def ragged_records() -> list[bytes]:
    """Six values in rows of rows, told in every way; nothing; one value."""
    whole = {
        "n": ints(10, 11, 12, 13, 14, 15),
        "f": floats(0, 1, 2, 3, 4, 5),
        "s": strings(b"a", b"", b"ccc", b"d", b"e", b"f"),
        # Rows of 2, 0, 3 and 1 values, and rows of 3 and 1 of these.
        "splits": ints(0, 2, 2, 5, 6),
        "lengths": ints(2, 0, 3, 1),
        "starts": ints(0, 2, 2, 5),
        "limits": ints(2, 2, 5, 6),
        "ids": ints(0, 0, 2, 2, 2, 3),
        "outer_splits": ints(0, 3, 4),
        "outer_lengths": ints(3, 1),
        "outer_ids": ints(0, 0, 0, 1),
    }
    one = {
        "n": ints(7),
        "f": floats(-0.5),
        "s": strings(b"\x00"),
        "splits": ints(0, 1),
        "lengths": ints(1),
        "starts": ints(0),
        "limits": ints(1),
        "ids": ints(0),
        "outer_splits": ints(0, 0, 1),
        "outer_lengths": ints(0, 1),
        "outer_ids": ints(1),
    }
    zero = {name: ints(0) for name in ("splits", "outer_splits")}
    return [example(features) for features in (whole, zero, one, whole)]


PARTITIONS = {
    "splits": "RowSplits",
    "lengths": "RowLengths",
    "starts": "RowStarts",
    "limits": "RowLimits",
    "ids": "ValueRowIds",
}


def ragged_cases() -> list[Case]:
    """Each partition, and some nested."""
    plain = {
        "n": ragged("int64"),
        "f": ragged("float32", row_splits_dtype="int64"),
        "text": ragged("string", key="s"),
        "never": ragged("int64"),
    }
    each = {
        name: {
            "n": ragged("int64", (kind, name)),
            "text": ragged("string", (kind, name), key="s", validate=True),
            "f": ragged("float32", (kind, name)),
        }
        for name, kind in PARTITIONS.items()
    }
    nested = {
        "a": ragged("int64", ("RowSplits", "outer_splits"), ("RowLengths", "lengths"), key="n"),
        "b": ragged("string", ("RowLengths", "outer_lengths"), ("ValueRowIds", "ids"), key="s"),
        "c": ragged("float32", ("ValueRowIds", "outer_ids"), ("RowLimits", "limits"), key="f"),
        "outer_splits": ragged("int64"),
    }
    uniform = {
        "a": ragged("int64", ("UniformRowLength", 1), key="n"),
        "b": ragged("string", ("RowSplits", "outer_splits"), ("UniformRowLength", 1), key="outer"),
        "c": ragged("float32", ("UniformRowLength", 1), ("RowLengths", "lengths"), key="f"),
        "d": ragged("int64", ("UniformRowLength", 1), ("UniformRowLength", 1), key="n"),
    }
    pairs = {
        "a": ragged("int64", ("UniformRowLength", 2), key="n", row_splits_dtype="int64"),
        "b": ragged("string", ("UniformRowLength", 2), ("UniformRowLength", 3), key="s"),
        "c": ragged("float32", ("UniformRowLength", 2), ("RowLengths", "lengths"), key="f"),
    }
    file = "ragged.tfrecord"
    pairs_of_whole = Case("ragged/pairs", file, pairs, [0, 3])
    cases = [
        Case("ragged/plain", file, plain),
        *(Case(f"ragged/{name}", file, spec) for name, spec in each.items()),
        *(Case(f"ragged/{name}_of_few", file, spec, [2, 0]) for name, spec in each.items()),
        Case("ragged/nested", file, nested),
        Case("ragged/uniform", file, {k: v for k, v in uniform.items() if k != "b"}),
        Case("ragged/uniform_of_nothing", file, {"b": uniform["b"]}, [1]),
        pairs_of_whole,
        Case("ragged/pairs/0", file, pairs, [0], single=True),
        Case("ragged/no_examples", file, {**pairs, "never": plain["never"]}, []),
        Case("ragged/with_others", file, {"n": varlen("int64"), "x": ragged("string", key="s")}),
        Case("refused/ragged_kind", file, {"n": ragged("string")}, [0]),
        Case(
            "refused/ragged_partition_kind", file, {"n": ragged("int64", ("RowSplits", "f"))}, [0]
        ),
        Case(
            "refused/ragged_partition_short",
            file,
            {"n": ragged("int64", ("RowLengths", "outer_lengths"), validate=True)},
            [0],
        ),
        Case("refused/ragged_ids", file, {"n": ragged("int64", ("ValueRowIds", "outer_ids"))}, [0]),
        Case("refused/ragged_uniform", file, {"n": ragged("int64", ("UniformRowLength", 4))}, [0]),
        Case(
            "refused/ragged_dense_key",
            file,
            {"n": fixed("int64", [6]), "x": ragged("int64", key="n")},
            [0],
        ),
    ]
    return both(cases, 4)
