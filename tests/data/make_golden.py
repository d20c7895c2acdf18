"""Write TFRecord files with TensorFlow, and what TensorFlow itself parses from them.

The committed files in ``golden/`` were written by TensorFlow 2.21.0. Run this script with the
Python of an environment that has ``tensorflow-cpu``; it gives the same bytes every time. The form
of ``golden.json`` is described in ``README.md`` beside this script, that of specs and results in
``tests/interop/tf_json.py``.

Every case is one on which TensorFlow and protobuf agree: ``check_protobuf_agrees`` makes sure of
it. The exceptions are the cases named ``refused/...``.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import tensorflow as tf

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "interop"))

from tf_json import Json, parse_examples, read_records, write_records  # noqa: E402  # found there

OUT = HERE / "golden"

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Case:
    """One spec, to be applied to one batch of the Examples of a file."""

    name: str
    file: str
    spec: Json
    # Which records of the file make the batch; None is all of them.
    records: list[int] | None = None


# --- Specs ----------------------------------------------------------------------------------------


def fixed(dtype: str, shape: list[int], default: Json = None) -> Json:
    """The spec of a FixedLenFeature."""
    return {"type": "FixedLen", "dtype": dtype, "shape": shape, "default": default}


def varlen(dtype: str) -> Json:
    """The spec of a VarLenFeature."""
    return {"type": "VarLen", "dtype": dtype}


def float_bits(value: float) -> str:
    """A float in the form that specs and results use."""
    return struct.pack(">f", value).hex()


# --- Examples made by protobuf --------------------------------------------------------------------


def ints(*values: int) -> tf.train.Feature:
    """A feature of int64 kind."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(*values: float) -> tf.train.Feature:
    """A feature of float kind."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def floats_from_bits(*values: int) -> tf.train.Feature:
    """A feature of float kind with these IEEE bits, which a Python float might not keep."""
    return tf.train.Feature.FromString(field(2, field(1, struct.pack(f"<{len(values)}I", *values))))


def strings(*values: bytes) -> tf.train.Feature:
    """A feature of bytes kind."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(features: dict[str, tf.train.Feature]) -> bytes:
    """A serialized Example, with its features in the order of their names."""
    message = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = message.SerializeToString(deterministic=True)
    return serialized


# --- Examples made by hand ------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """A protobuf varint; negative values are two's complement of 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """The tag of a protobuf field."""
    return varint(number << 3 | wire_type)


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return tag(number, 2) + varint(len(payload)) + payload


def packed_ints(*values: int) -> bytes:
    """A Feature of packed int64 values."""
    return field(3, field(1, b"".join(varint(value) for value in values)))


def unpacked_ints(*values: int) -> bytes:
    """A Feature of int64 values, each with its own tag."""
    return field(3, b"".join(tag(1, 0) + varint(value) for value in values))


def packed_floats(*values: float) -> bytes:
    """A Feature of packed floats."""
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def unpacked_floats(*values: float) -> bytes:
    """A Feature of floats, each with its own tag."""
    return field(2, b"".join(tag(1, 5) + struct.pack("<f", value) for value in values))


def byte_strings(*values: bytes) -> bytes:
    """A Feature of bytes values."""
    return field(1, b"".join(field(1, value) for value in values))


def entry(key: bytes, feature: bytes) -> bytes:
    """One entry of a Features message."""
    return field(1, field(1, key) + field(2, feature))


def hand_example(*entries: bytes) -> bytes:
    """An Example from encoded entries."""
    return field(1, b"".join(entries))


# --- Plain records --------------------------------------------------------------------------------


def plain_records() -> list[bytes]:
    """Records of many lengths, Examples or not: framing does not care."""
    return [
        b"first record",
        b"\x00",
        bytes(range(256)),
        b"",
        example({"label": ints(7), "name": strings(b"seven")}),
        b"long record " * 250,
        "Prüfung ✓".encode(),
    ]


def write_framing_files(files: dict[str, Json]) -> None:
    """Files that test framing and compression."""
    records = plain_records()
    for suffix, compression in (("", ""), (".gz", "GZIP"), (".zlib", "ZLIB")):
        write_file(files, f"plain.tfrecord{suffix}", records, compression)
        write_file(files, f"empty.tfrecord{suffix}", [], compression)
    write_file(files, "zero_length.tfrecord", [b"before", b"", b"", b"after", b""])


# --- Example files and their cases ----------------------------------------------------------------


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


def wire_records() -> dict[str, bytes]:
    """Encodings that protobuf's own writer does not use, but reads, and TensorFlow too."""
    int_entry = entry(b"i", packed_ints(1, -2))
    float_entry = entry(b"f", packed_floats(1.5, -0.0))
    string_entry = entry(b"s", byte_strings(b"ab", b""))
    all_entries = int_entry + float_entry + string_entry
    return {
        "packed": hand_example(int_entry, float_entry, string_entry),
        "other_order": hand_example(string_entry, int_entry, float_entry),
        "unpacked": hand_example(
            entry(b"i", unpacked_ints(INT64_MIN, 300)),
            entry(b"f", unpacked_floats(-0.0, float("inf"))),
            string_entry,
        ),
        "value_before_key": hand_example(
            field(1, field(2, packed_ints(5, 6)) + field(1, b"i")),
            field(1, field(2, unpacked_floats(5, 6)) + field(1, b"f")),
            field(1, field(2, byte_strings(b"5", b"6")) + field(1, b"s")),
        ),
        "duplicate_keys": hand_example(
            int_entry, string_entry, float_entry, entry(b"i", packed_ints(7, 8)), string_entry
        ),
        "duplicate_keys_of_other_kind": hand_example(
            entry(b"i", byte_strings(b"x")),
            entry(b"f", packed_ints(1)),
            entry(b"s", packed_floats(1)),
            all_entries,
        ),
        "duplicate_keys_across_parts": (
            hand_example(all_entries)
            + hand_example(entry(b"i", packed_ints(9, 10)), entry(b"s", byte_strings(b"9", b"10")))
        ),
        "split_features": (
            hand_example(int_entry) + hand_example() + hand_example(float_entry, string_entry)
        ),
        "unknown_top_level_fields": (
            tag(2, 0)
            + varint(2**63)
            + tag(3, 1)
            + bytes(8)
            + hand_example(int_entry, float_entry)
            + field(4, b"skip me")
            + tag(1, 0)  # field 1, but with a wire type that is not its own
            + varint(1)
            + hand_example(string_entry)
            + tag(2**29 - 1, 5)
            + bytes(4)
            + field(1000, b"")
        ),
        "overlong_value_varints": hand_example(
            entry(b"i", field(3, field(1, b"\x81\x80\x00" + b"\x80" * 9 + b"\x00"))),
            float_entry,
            string_entry,
        ),
        # The tags 0a and 12 of the entry and the lengths of its two parts take a byte or two more.
        "overlong_entry": hand_example(
            field(1, b"\x8a\x00\x81\x00i" + b"\x92\x00\x87\x80\x00" + packed_ints(3, 1000)),
            float_entry,
            string_entry,
        ),
    }


def wire_empty_records() -> dict[str, bytes]:
    """The ways to write an empty list, a feature of no kind and no features at all."""
    empty_lists = (entry(b"f", field(2, b"")), entry(b"s", field(1, b"")))
    return {
        "empty_lists": hand_example(entry(b"i", field(3, b"")), *empty_lists),
        "empty_packed_chunks": hand_example(
            entry(b"i", packed_ints()), entry(b"f", packed_floats()), empty_lists[1]
        ),
        "no_kind": hand_example(entry(b"i", b""), entry(b"f", b""), entry(b"s", b"")),
        "empty_features": hand_example(),
        "empty_parts": hand_example() * 3,
        "only_unknown_fields": field(7, b"abc"),
        "empty_example": b"",
    }


def wire_cases() -> list[Case]:
    """Each odd encoding by itself, then all of them in one batch."""
    as_fixed = {
        "i": fixed("int64", [2]),
        "f": fixed("float32", [2]),
        "s": fixed("string", [2]),
    }
    as_varlen = {name: varlen(spec["dtype"]) for name, spec in as_fixed.items()}
    file, empty_file = "wire.tfrecord", "wire_empty.tfrecord"
    return [
        *(Case(f"wire/{name}", file, as_fixed, [n]) for n, name in enumerate(wire_records())),
        Case("wire/batch", file, as_fixed),
        Case("wire/batch_varlen", file, as_varlen),
        *(
            Case(f"wire_empty/{name}", empty_file, as_varlen, [n])
            for n, name in enumerate(wire_empty_records())
        ),
        Case("wire_empty/batch", empty_file, as_varlen),
    ]


def refused_records() -> dict[str, bytes]:
    """Examples, of which TensorFlow refuses all but the first with a fitting spec."""
    good = {"i": ints(1, 2), "f": floats(1.5), "s": strings(b"x")}
    floats_cut_short = field(2, tag(1, 2) + varint(8) + bytes(4))
    return {
        "good": example(good),
        "nothing": example({}),
        "i_too_long": example({**good, "i": ints(1, 2, 3)}),
        "i_too_short": example({**good, "i": ints(1)}),
        "i_empty": example({**good, "i": ints()}),
        "i_no_kind": example({**good, "i": tf.train.Feature()}),
        "i_is_float": example({**good, "i": floats(1, 2)}),
        "i_is_empty_string": example({**good, "i": strings()}),
        "cut_key": example(good)[:5],
        "cut_varint": hand_example(entry(b"i", field(3, field(1, b"\x01\x82")))),
        "cut_floats": hand_example(entry(b"f", floats_cut_short)),
        "varint_of_11_bytes": hand_example(entry(b"i", field(3, field(1, b"\x80" * 10 + b"\x01")))),
        "kind_without_such_number": hand_example(entry(b"i", field(4, b"\x08\x01"))),
        "not_protobuf": b"\x0a\x0cHello world!",
    }


def refused_cases() -> list[Case]:
    """Wrong counts, wrong kinds, missing features, bad defaults and damaged Examples."""
    number = {name: n for n, name in enumerate(refused_records())}
    pair = {"i": fixed("int64", [2])}
    pair_or_default = {"i": fixed("int64", [2], [0, 0])}
    list_of_ints = {"i": varlen("int64")}

    def case(name: str, spec: Json, *records: str) -> Case:
        return Case(f"refused/{name}", "refused.tfrecord", spec, [number[r] for r in records])

    return [
        case("too_many_values", pair, "good", "i_too_long"),
        case("too_few_values", pair, "good", "i_too_short"),
        case("too_few_values_with_default", pair_or_default, "i_too_short"),
        case("vector_as_scalar", {"i": fixed("int64", [])}, "good"),
        case("scalar_as_matrix", {"f": fixed("float32", [2, 2])}, "good"),
        case("strings_as_pair", {"s": fixed("string", [2])}, "good"),
        case("value_for_zero_size", {"f": fixed("float32", [0])}, "good"),
        case("empty_list", pair, "good", "i_empty"),
        case("empty_list_with_default", pair_or_default, "i_empty"),
        case("int_as_float", {"i": fixed("float32", [2])}, "good"),
        case("int_as_string", {"i": fixed("string", [2])}, "good"),
        case("float_as_int", {"f": fixed("int64", [])}, "good"),
        case("string_as_int", {"s": fixed("int64", [])}, "good"),
        case("string_as_float", {"s": fixed("float32", [])}, "good"),
        case("kind_changes_in_batch", pair, "good", "good", "i_is_float"),
        case("wrong_kind_with_default", pair_or_default, "i_is_float"),
        case("wrong_kind_varlen", list_of_ints, "good", "i_is_float"),
        case("wrong_kind_but_empty_varlen", list_of_ints, "i_is_empty_string"),
        case("string_as_float_varlen", {"s": varlen("float32")}, "good"),
        case("float_as_string_varlen", {"f": varlen("string")}, "good"),
        case("missing_int", pair, "good", "nothing"),
        case("missing_float", {"f": fixed("float32", [])}, "good", "nothing"),
        case("missing_string", {"s": fixed("string", [])}, "good", "nothing"),
        case("missing_no_kind", pair, "i_no_kind"),
        case("missing_zero_size", {"x": fixed("int64", [0])}, "good"),
        case("default_too_short", {"i": fixed("int64", [2], [0])}, "good"),
        case("default_not_broadcast", {"i": fixed("int64", [2], 0)}, "nothing"),
        case("default_for_zero_size", {"x": fixed("int64", [0], [])}, "nothing"),
        case("cut_key", list_of_ints, "good", "cut_key"),
        case("cut_varint", list_of_ints, "cut_varint"),
        case("cut_varint_fixed", pair, "cut_varint"),
        case("cut_floats", {"f": varlen("float32")}, "cut_floats"),
        case("cut_floats_fixed", {"f": fixed("float32", [2])}, "cut_floats"),
        case("varint_of_11_bytes", list_of_ints, "varint_of_11_bytes"),
        case("kind_without_such_number", list_of_ints, "kind_without_such_number"),
        case("not_protobuf", list_of_ints, "good", "not_protobuf"),
    ]


# --- Writing it all down --------------------------------------------------------------------------


def write_file(
    files: dict[str, Json], name: str, records: Sequence[bytes], compression: str = ""
) -> None:
    """Write one TFRecord file and note what is in it."""
    path = str(OUT / name)
    write_records(path, records, compression)
    read, error = read_records(path, compression)
    if error is not None or read != list(records):
        raise AssertionError(f"{name}: TensorFlow does not read back what it wrote")
    files[name] = {"compression": compression, "records": [record.hex() for record in records]}


def check_protobuf_agrees(case: Case, records: Sequence[bytes], answer: Json) -> None:
    """TensorFlow must give the same answer to what protobuf makes of the records."""
    messages = [tf.train.Example.FromString(record) for record in records]
    rewritten = [message.SerializeToString(deterministic=True) for message in messages]
    if json.dumps(parse_examples(rewritten, case.spec)) != json.dumps(answer):
        raise AssertionError(f"{case.name}: TensorFlow and protobuf read this differently")


def answer_case(case: Case, files: dict[str, Json]) -> Json:
    """The JSON entry of a case, with TensorFlow's answer."""
    stored = [bytes.fromhex(record) for record in files[case.file]["records"]]
    records = stored if case.records is None else [stored[n] for n in case.records]
    answer = parse_examples(records, case.spec)
    if ("error" in answer) != case.name.startswith("refused/"):
        raise AssertionError(f"{case.name}: {answer}")
    if "error" not in answer:
        check_protobuf_agrees(case, records, answer)
    return {
        "name": case.name,
        "file": case.file,
        "records": case.records,
        "spec": case.spec,
        "result": answer,
    }


def json_lines(items: Sequence[str]) -> str:
    """The items of a JSON array or object, one a line."""
    return ",\n".join("  " + item for item in items)


def write_json(files: dict[str, Json], cases: list[Json]) -> None:
    """Write ``golden.json`` with one line for each file and case, to keep changes readable."""
    file_lines = json_lines([f"{json.dumps(name)}: {json.dumps(files[name])}" for name in files])
    case_lines = json_lines([json.dumps(case) for case in cases])
    text = (
        f'{{\n"tensorflow": {json.dumps(tf.__version__)},\n'
        f'"files": {{\n{file_lines}\n}},\n"cases": [\n{case_lines}\n]\n}}\n'
    )
    json.loads(text)
    (OUT / "golden.json").write_text(text)


def main() -> None:
    """Write all files and ``golden.json``."""
    # With one thread an error always names the first bad Example of a batch.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    OUT.mkdir(exist_ok=True)
    files: dict[str, Json] = {}
    write_framing_files(files)
    write_file(files, "regular.tfrecord", regular_records())
    write_file(files, "missing.tfrecord", missing_records())
    write_file(files, "varlen.tfrecord", varlen_records())
    write_file(files, "values.tfrecord", values_records())
    write_file(files, "keys.tfrecord", keys_records())
    write_file(files, "many.tfrecord", many_records())
    write_file(files, "wire.tfrecord", list(wire_records().values()))
    write_file(files, "wire_empty.tfrecord", list(wire_empty_records().values()))
    write_file(files, "refused.tfrecord", list(refused_records().values()))
    cases = [
        *regular_cases(),
        *missing_cases(),
        *varlen_cases(),
        *values_cases(),
        *keys_cases(),
        *many_cases(),
        *wire_cases(),
        *refused_cases(),
    ]
    write_json(files, [answer_case(case, files) for case in cases])
    print(f"{len(files)} files, {len(cases)} cases")


if __name__ == "__main__":
    main()
