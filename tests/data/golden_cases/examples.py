"""Examples that are all there, or not; unusual values, keys and sizes."""

from __future__ import annotations

import random

import tensorflow as tf

from .build import (
    INT64_MAX,
    INT64_MIN,
    Case,
    example,
    fixed,
    float_bits,
    floats,
    floats_from_bits,
    ints,
    strings,
    varlen,
)


def regular_records() -> list[bytes]:
    """Scalars, vectors and 2x3 matrices of every kind, all there."""
    records = []
    for row in range(5):
        features = {
            "int": ints(row),
            "float": floats(row / 3),
            "string": strings(f"row {row}".encode()),
            "ints": ints(row, -row, 10**row),
            "floats": floats(row + 0.5, -row, 10.0**-row),
            "strings": strings(b"a" * row, b"-", f"{row}".encode()),
            "int_matrix": ints(*range(row, row + 6)),
            "float_matrix": floats(*(value / 8 for value in range(row, row + 6))),
            "string_matrix": strings(*(b"%d" % value for value in range(row, row + 6))),
        }
        records.append(example(features))
    return records


def regular_cases() -> list[Case]:
    """Dense shapes, and the same data as VarLen."""
    everything = {
        "int": fixed("int64", []),
        "float": fixed("float32", []),
        "string": fixed("string", []),
        "ints": fixed("int64", [3]),
        "floats": fixed("float32", [3]),
        "strings": fixed("string", [3]),
        "int_matrix": fixed("int64", [2, 3]),
        "float_matrix": fixed("float32", [2, 3]),
        "string_matrix": fixed("string", [2, 3]),
    }
    other_shapes = {
        "int": fixed("int64", [1, 1]),
        "float": fixed("float32", [1]),
        "string_matrix": fixed("string", [6]),
        "int_matrix": fixed("int64", [3, 2]),
        "float_matrix": fixed("float32", [1, 2, 1, 3]),
    }
    as_varlen = {name: varlen(spec["dtype"]) for name, spec in everything.items()}
    mixed = {"int": fixed("int64", []), "strings": varlen("string"), "no such": varlen("int64")}
    file = "regular.tfrecord"
    return [
        Case("regular/fixed", file, everything),
        Case("regular/other_shapes", file, other_shapes),
        Case("regular/varlen", file, as_varlen),
        Case("regular/mixed", file, mixed),
        Case("regular/one_example", file, everything, [3]),
        Case("regular/chosen_order", file, mixed, [4, 0, 0, 2]),
        Case("regular/no_examples", file, everything, []),
        Case("regular/no_examples_varlen", file, as_varlen, []),
    ]


def missing_records() -> list[bytes]:
    """Features that are there, have no kind, or are missing, one kind or all at once."""
    whole = {
        "int": ints(1),
        "float": floats(1.5),
        "string": strings(b"one"),
        "ints": ints(1, 2, 3, 4),
        "floats": floats(1, 2, 3, 4),
        "strings": strings(b"1", b"2", b"3", b"4"),
    }
    no_kind = {name: tf.train.Feature() for name in whole}
    kinds = ("int", "float", "string")
    without_one_kind = [
        {name: feature for name, feature in whole.items() if not name.startswith(kind)}
        for kind in kinds
    ]
    return [example(features) for features in (whole, *without_one_kind, no_kind, {})] + [b""]


def missing_cases() -> list[Case]:
    """Defaults of every kind and form."""
    nan_bits, minus_zero = "ffc12345", "80000000"
    scalar_defaults = {
        "int": fixed("int64", [], -1),
        "float": fixed("float32", [], float_bits(0.1)),
        "string": fixed("string", [], b"none".hex()),
    }
    odd_defaults = {
        "int": fixed("int64", [], INT64_MIN),
        "float": fixed("float32", [], nan_bits),
        "string": fixed("string", [], b"\x00\xff".hex()),
    }
    vector_defaults = {
        "ints": fixed("int64", [4], [INT64_MAX, 0, -1, INT64_MIN]),
        "floats": fixed("float32", [4], [minus_zero, nan_bits, "00000001", "ff800000"]),
        "strings": fixed("string", [4], [b"".hex(), b"\x00".hex(), b"\xff".hex(), b"d".hex()]),
    }
    matrix_defaults = {
        "ints": fixed("int64", [2, 2], [[1, 2], [3, 4]]),
        "floats": fixed("float32", [2, 2], [float_bits(value) for value in (1, 2, 3, 4)]),
        "strings": fixed("string", [1, 4], [["61"], ["62"], ["63"], ["64"]]),
    }
    # A default may have any shape with the right number of values.
    one_value_defaults = {
        "int": fixed("int64", [1], 5),
        "float": fixed("float32", [], [float_bits(5)]),
        "string": fixed("string", [1, 1], [b"five".hex()]),
    }
    as_varlen = {
        "int": varlen("int64"),
        "float": varlen("float32"),
        "string": varlen("string"),
        "ints": varlen("int64"),
        "floats": varlen("float32"),
        "strings": varlen("string"),
    }
    never_there = {
        "x": fixed("int64", [], 3),
        "y": fixed("float32", [2], [float_bits(1), float_bits(2)]),
        "z": fixed("string", [2, 1], [[""], ["00"]]),
        "v": varlen("int64"),
    }
    file = "missing.tfrecord"
    return [
        Case("missing/scalar_defaults", file, scalar_defaults),
        Case("missing/odd_defaults", file, odd_defaults),
        Case("missing/vector_defaults", file, vector_defaults),
        Case("missing/matrix_defaults", file, matrix_defaults),
        Case("missing/one_value_defaults", file, one_value_defaults),
        Case("missing/varlen", file, as_varlen),
        Case("missing/never_there", file, never_there),
        Case("missing/only_empty_examples", file, never_there, [5, 6]),
    ]


def varlen_records() -> list[bytes]:
    """Lists of different lengths, some empty, some missing."""
    records = []
    for row, length in enumerate((2, 0, 5, 1, 0, 3)):
        features = {
            "ints": ints(*range(row, row + length)),
            "floats": floats(*(row + value / 4 for value in range(length))),
            "strings": strings(*(b"x" * value for value in range(length))),
            "empty_ints": ints(),
            "empty_floats": floats(),
            "empty_strings": strings(),
            "id": ints(row),
        }
        if row == 4:
            del features["ints"], features["floats"], features["strings"]
        records.append(example(features))
    return records


def varlen_cases() -> list[Case]:
    """VarLen of every kind, and empty lists read as VarLen and as FixedLen."""
    lists = {
        "ints": varlen("int64"),
        "floats": varlen("float32"),
        "strings": varlen("string"),
    }
    empty_varlen = {
        "empty_ints": varlen("int64"),
        "empty_floats": varlen("float32"),
        "empty_strings": varlen("string"),
    }
    empty_fixed = {
        "empty_ints": fixed("int64", [0]),
        "empty_floats": fixed("float32", [2, 0]),
        "empty_strings": fixed("string", [0, 3]),
        "id": fixed("int64", []),
    }
    file = "varlen.tfrecord"
    return [
        Case("varlen/lists", file, lists),
        Case("varlen/with_fixed", file, {"id": fixed("int64", []), **lists}),
        Case("varlen/empty_lists", file, empty_varlen),
        Case("varlen/empty_lists_fixed", file, empty_fixed),
        Case("varlen/no_values_in_batch", file, lists, [1, 4]),
        Case("varlen/zero_size_only", file, {"empty_ints": fixed("int64", [0])}),
    ]


# Bounds of the varint lengths 1..9; all negative numbers take 10 bytes.
VARINT_BOUNDS = [
    bound for length in range(1, 10) for bound in (2 ** (7 * (length - 1)), 2 ** (7 * length) - 1)
]
ODD_INTS = [0, *VARINT_BOUNDS, -1, -2, -128, -(2**31), -(2**31) - 1, INT64_MIN, INT64_MIN + 1]

ODD_FLOAT_BITS = [
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000),  # 0, -0, 1, -1
    *(0x7F800000, 0xFF800000),  # infinities
    *(0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFD2345A),  # quiet NaNs
    *(0x7F800001, 0xFFA00000),  # signalling NaNs
    *(0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF),  # denormal
    *(0x00800000, 0x7F7FFFFF, 0xFF7FFFFF),  # smallest normal, largest
]

ODD_STRINGS = [
    b"",
    b"\x00",
    b"a\x00b\x00",
    b"\xff\xfe\x80",
    b"\xc3\x28",  # not UTF-8: the second byte does not continue the first
    b"\xed\xa0\x80",  # not UTF-8: a surrogate
    "Grüße 你好 🙂".encode(),
    bytes(range(256)),
    b"\n\r\t\"'\\",
    b"",
]


def values_records() -> list[bytes]:
    """Unusual values of every kind, and the same the other way round."""
    return [
        example(
            {
                "ints": ints(*ODD_INTS[::step]),
                "floats": floats_from_bits(*ODD_FLOAT_BITS[::step]),
                "strings": strings(*ODD_STRINGS[::step]),
            }
        )
        for step in (1, -1)
    ]


def values_cases() -> list[Case]:
    """The unusual values as FixedLen and as VarLen."""
    as_fixed = {
        "ints": fixed("int64", [len(ODD_INTS)]),
        "floats": fixed("float32", [len(ODD_FLOAT_BITS)]),
        "strings": fixed("string", [len(ODD_STRINGS)]),
    }
    as_varlen = {name: varlen(spec["dtype"]) for name, spec in as_fixed.items()}
    return [
        Case("values/fixed", "values.tfrecord", as_fixed),
        Case("values/varlen", "values.tfrecord", as_varlen),
    ]


ODD_KEYS = [
    "",
    "a",
    "A",
    "aa",
    "a\x00",
    "\x00",
    " ",
    "ä",
    "a\u0308",
    "名前",
    "🔑",
    "a/b:c",
    "k" * 200,
]


def keys_records() -> list[bytes]:
    """Unusual feature names; in the second record half of them are missing."""
    numbered = {key: ints(number) for number, key in enumerate(ODD_KEYS)}
    half = {key: numbered[key] for key in ODD_KEYS[::2]}
    return [example(numbered), example(half)]


def keys_cases() -> list[Case]:
    """All of the unusual names, and a few only."""
    everything = {key: fixed("int64", [], -1) for key in ODD_KEYS}
    few = {key: varlen("int64") for key in ("名前", "a", "")}
    return [
        Case("keys/all", "keys.tfrecord", everything),
        Case("keys/few", "keys.tfrecord", few),
    ]


MANY_FEATURES = 150


def many_records() -> list[bytes]:
    """Many features in one Example, and many values in one feature."""
    source = random.Random(1)
    records = []
    for row, count in enumerate((1000, 7)):
        features = {f"feature {n:03d}": ints(1000 * row + n) for n in range(MANY_FEATURES)}
        # Random bit lengths give varints of all lengths.
        values = [source.getrandbits(source.randrange(1, 64)) for _ in range(count)]
        features["ints"] = ints(*(value if n % 3 else -value for n, value in enumerate(values)))
        features["floats"] = floats_from_bits(*(source.getrandbits(32) for _ in range(count)))
        features["strings"] = strings(*(source.randbytes(n % 8) for n in range(count)))
        records.append(example(features))
    return records


def many_cases() -> list[Case]:
    """All of the many features, or some of them."""
    names = [f"feature {n:03d}" for n in range(MANY_FEATURES)]
    lists = {"ints": varlen("int64"), "floats": varlen("float32"), "strings": varlen("string")}
    # Out of order, so that the order of the spec and that of the file differ.
    few = {name: fixed("int64", []) for name in (names[149], names[0], names[77])}
    file = "many.tfrecord"
    return [
        Case("many/features", file, {name: fixed("int64", []) for name in names}),
        Case("many/few_features", file, {**few, "not there": fixed("int64", [], 0)}),
        Case("many/values", file, lists),
        Case("many/fixed_values", file, {"ints": fixed("int64", [10, 4, 25])}, [0]),
    ]
