"""Differences from TensorFlow and protobuf: one test for each row of the table in the docs.

The rule: legal protobuf is read as protobuf reads it, illegal bytes are refused.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

import torchrec_io as tio
from tests.support import wire
from tests.support.messages import Example
from tests.support.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    packed_floats,
    packed_ints,
    tag,
    unpacked_floats,
    unpacked_ints,
    varint,
)
from torchrec_io.errors import DecodeError

DTYPES = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}


def read(record: bytes, dtype: Any = "int64", key: str = "x") -> list[Any]:
    """The values of a feature, by way of a VarLenFeature and then of a FixedLenFeature."""
    batch = tio.parse_examples([record], {key: tio.VarLenFeature(dtype)})
    values: list[Any] = batch[key].tolist()[0]
    fixed = {key: tio.FixedLenFeature([len(values)], dtype)}
    if values:
        assert tio.parse_examples([record], fixed)[key].tolist() == [values]
    return values


def read_as_protobuf(record: bytes, dtype: str = "int64") -> list[Any]:
    """The values of "x", which protobuf must read alike."""
    feature = Example.FromString(record).features.feature["x"]
    kind = feature.WhichOneof("kind")
    assert kind is not None
    assert DTYPES[kind] == dtype
    values = read(record, dtype)
    assert values == list(getattr(feature, kind).value)
    return values


def refuses(record: bytes, dtype: Any = "int64", **features: Any) -> None:
    """Checks that no feature of the record can be had."""
    with pytest.raises(DecodeError):
        tio.parse_examples([record], features or {"x": tio.VarLenFeature(dtype)})
    with pytest.raises(DecodeError):
        tio.parse_examples([record], features or {"x": tio.FixedLenFeature([1], dtype)})


def feature_of_list(number: int, values: bytes) -> bytes:
    """An Example of one feature "x" with one list."""
    return example(entry("x", delimited(number, values)))


# ---- dropped in silence by TensorFlow, or refused; read by us ----


def test_packed_and_unpacked_values_are_joined() -> None:
    ints = packed_ints([1, 2]) + unpacked_ints([3, -4]) + packed_ints([5])
    assert read_as_protobuf(feature_of_list(3, ints)) == [1, 2, 3, -4, 5]
    floats = unpacked_floats([1.5]) + packed_floats([2.5]) + unpacked_floats([3.5])
    assert read_as_protobuf(feature_of_list(2, floats), "float32") == [1.5, 2.5, 3.5]


def test_the_last_of_several_kinds_counts() -> None:
    lists = {
        "string": bytes_feature(b"a", b"b"),
        "float32": float_feature(1.5),
        "int64": int_feature(7),
    }
    values = {"string": [b"a", b"b"], "float32": [1.5], "int64": [7]}
    for last, feature in lists.items():
        for first in lists.values():
            if first is not feature:
                record = example(entry("x", first + feature))
                assert read_as_protobuf(record, last) == values[last]
                record = example(entry("x", feature + first + feature))
                assert read_as_protobuf(record, last) == values[last]


UNKNOWN = {
    "varint": tag(7, wire.VARINT) + varint(2**64 - 1),
    "delimited": delimited(7, b"\xff\xff\xff"),
    "group": tag(7, wire.GROUP) + delimited(1, b"x") + tag(7, wire.END_GROUP),
}
LEVELS = ["example", "features", "entry", "feature", "list"]


@pytest.mark.parametrize("unknown", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("level", LEVELS)
def test_unknown_fields_are_skipped_at_every_level(level: str, unknown: bytes) -> None:
    around = {name: unknown if name == level else b"" for name in LEVELS}
    values = around["list"] + packed_ints([1]) + around["list"] + packed_ints([2]) + around["list"]
    feature = around["feature"] + delimited(3, values) + around["feature"]
    fields = [delimited(1, b"x"), delimited(2, feature)]
    inside = around["entry"].join([b"", *fields, b""])
    features = around["features"] + delimited(1, inside) + around["features"]
    record = around["example"] + delimited(1, features) + around["example"]
    assert read(record) == [1, 2]
    if level != "entry":  # Protobuf's Python classes give up the whole entry
        assert read_as_protobuf(record) == [1, 2]


def test_groups_may_be_a_hundred_deep_and_no_more() -> None:
    def nested(depth: int) -> bytes:
        return tag(7, wire.GROUP) * depth + tag(7, wire.END_GROUP) * depth

    record = example(entry("x", int_feature(1)))
    assert read(nested(99) + record) == [1]
    refuses(nested(101) + record)
    refuses(tag(7, wire.GROUP) * 100_000 + record)


def test_an_entry_without_a_key_has_the_empty_key() -> None:
    record = example(delimited(1, delimited(2, int_feature(5))))
    assert read(record, key="") == [5]
    assert read(record, key="x") == []
    assert list(Example.FromString(record).features.feature) == [""]


def test_an_entry_without_a_value_has_a_feature_without_a_kind() -> None:
    record = example(delimited(1, delimited(1, b"x")))
    assert read(record) == []
    with pytest.raises(DecodeError, match="required"):
        tio.parse_examples([record], {"x": tio.FixedLenFeature([], "int64")})
    schema = {"x": tio.FixedLenFeature([], "int64", 3)}
    assert tio.parse_examples([record], schema)["x"].tolist() == [3]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_overlong_tags_and_lengths_are_read(size: int) -> None:
    values = delimited(1, varint(1) + varint(2), size, size)
    feature = delimited(3, values, size, size)
    inside = delimited(1, b"x", size, size) + delimited(2, feature, size, size)
    record = delimited(1, delimited(1, inside, size, size), size, size)
    assert read_as_protobuf(record) == [1, 2]


# ---- merged ----


def test_two_lists_of_one_kind_are_merged() -> None:
    assert read_as_protobuf(example(entry("x", int_feature(1, 2) + int_feature(3)))) == [1, 2, 3]
    record = example(entry("x", bytes_feature(b"a") + bytes_feature() + bytes_feature(b"b")))
    assert read_as_protobuf(record, "string") == [b"a", b"b"]


# ---- the last of a key ----


def test_also_if_the_last_has_no_kind() -> None:
    record = example(entry("x", int_feature(1)), entry("x", b""))
    assert read(record) == []
    schema = {"x": tio.FixedLenFeature([], "int64", 5)}
    assert tio.parse_examples([record], schema)["x"].tolist() == [5]
    assert tio.parse_example(record, schema)["x"].tolist() == 5


@pytest.mark.parametrize(
    "feature",
    [
        delimited(3, delimited(1, b"\x80")),  # a varint that is cut
        delimited(3, delimited(1, b"\x80" * 10 + b"\x01")),  # and one that is too long
        delimited(3, delimited(1, b"\xff")[:-1]),
        delimited(2, delimited(1, b"\x00" * 5)),
        delimited(1, b"\x0a\x05abc"),
        b"\x1a\x7f",
    ],
)
def test_earlier_entries_of_a_key_must_be_legal_all_the_same(feature: bytes) -> None:
    refuses(example(entry("x", feature), entry("x", int_feature(1))))


# ---- taken by TensorFlow, refused by us ----


@pytest.mark.parametrize("level", ["features", "entry", "key", "feature", "list", "chunk"])
@pytest.mark.parametrize("excess", [1, 5, 2**31, 2**32 - 1, 2**34])
def test_lengths_past_their_message_are_refused(level: str, excess: int) -> None:
    def field(name: str, number: int, payload: bytes) -> bytes:
        length = len(payload) + (excess if name == level else 0)
        return tag(number, wire.DELIMITED) + varint(length) + payload

    chunk = field("chunk", 1, b"\x01")
    feature = field("feature", 2, field("list", 3, chunk))
    inside = field("key", 1, b"x") + feature
    refuses(field("features", 1, field("entry", 1, inside)))


@pytest.mark.parametrize("spare", [1, 2, 3])
def test_spare_bytes_in_packed_floats_are_refused(spare: int) -> None:
    refuses(feature_of_list(2, delimited(1, struct.pack("<f", 1.0) + bytes(spare))), "float32")
    refuses(feature_of_list(2, delimited(1, bytes(spare))), "float32")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("zero", [b"\x00\x00", b"\x02\x00", b"\x05" + bytes(4), b"\x80\x00\x00"])
def test_field_number_zero_is_refused(level: str, zero: bytes) -> None:
    around = {name: zero if name == level else b"" for name in LEVELS}
    feature = around["feature"] + delimited(3, around["list"] + packed_ints([1]))
    inside = around["entry"] + delimited(1, b"x") + delimited(2, feature)
    record = around["example"] + delimited(1, around["features"] + delimited(1, inside))
    refuses(record)


def test_varints_may_have_ten_bytes_and_no_more() -> None:
    for spelled, value in ((varint(1, 10), 1), (varint(-1), -1), (b"\xff" * 9 + b"\x01", -1)):
        assert read_as_protobuf(feature_of_list(3, delimited(1, spelled))) == [value]
        assert read_as_protobuf(feature_of_list(3, tag(1, wire.VARINT) + spelled)) == [value]
    for spelled in (varint(1, 11), b"\xff" * 10 + b"\x01", b"\x80" * 12 + b"\x00"):
        refuses(feature_of_list(3, delimited(1, spelled)))
        refuses(feature_of_list(3, delimited(1, b"\x01" + spelled)))
        refuses(feature_of_list(3, tag(1, wire.VARINT) + spelled))
        refuses(tag(7, wire.VARINT) + spelled + example(entry("x", int_feature(1))))


def test_tags_and_lengths_may_have_five_bytes_and_no_more() -> None:
    refuses(delimited(1, entry("x", int_feature(1)), tag_size=6))
    refuses(delimited(1, entry("x", int_feature(1)), length_size=6))
    refuses(feature_of_list(3, delimited(1, b"\x01", length_size=6)))


@pytest.mark.parametrize("wire_type", [6, 7, wire.END_GROUP])
@pytest.mark.parametrize("number", [1, 7])
def test_illegal_wire_types_are_refused(number: int, wire_type: int) -> None:
    odd = tag(number, wire_type)
    record = example(entry("x", int_feature(1)))
    refuses(odd + record)
    refuses(record + odd)
    refuses(example(odd, entry("x", int_feature(1))))
    refuses(feature_of_list(3, packed_ints([1]) + odd))


def test_groups_must_end_as_they_began() -> None:
    record = example(entry("x", int_feature(1)))
    for odd in (
        tag(7, wire.GROUP),
        tag(7, wire.GROUP) + tag(8, wire.END_GROUP),
        tag(7, wire.GROUP) + tag(8, wire.GROUP) + tag(7, wire.END_GROUP) + tag(8, wire.END_GROUP),
    ):
        refuses(odd + record)
        refuses(record + odd)


# ---- as TensorFlow, where protobuf refuses ----


def test_keys_and_text_need_not_be_utf_8() -> None:
    record = example(entry(b"\xff", int_feature(9)), entry("x", bytes_feature(b"\xff\xfe")))
    with pytest.raises(Exception, match=r"UTF-8|parsing"):
        Example.FromString(record)
    assert read(record, "string") == [b"\xff\xfe"]


def test_but_their_framing_is_checked() -> None:
    refuses(example(entry("x", int_feature(1)), delimited(1, b"\x0a\x06unread\x12\x05\x00")))
    refuses(example(entry("x", int_feature(1)), b"\x0a\x09\x0a\x06unread"))


# ---- empty ----

EMPTY = {
    "string": {"empty": delimited(1, b"")},
    "float32": {"empty": delimited(2, b""), "empty chunk": delimited(2, packed_floats([]))},
    "int64": {"empty": delimited(3, b""), "empty chunk": delimited(3, packed_ints([]))},
}


@pytest.mark.parametrize(
    ("dtype", "feature"),
    [(dtype, feature) for dtype, features in EMPTY.items() for feature in features.values()],
)
def test_an_empty_list_is_there_with_no_values(dtype: Any, feature: bytes) -> None:
    record = example(entry("x", feature))
    default = b"d" if dtype == "string" else 4
    assert read(record, dtype) == []
    schema = {"x": tio.FixedLenFeature([2, 0], dtype)}
    assert tuple(tio.parse_examples([record], schema)["x"].shape) == (1, 2, 0)
    with pytest.raises(DecodeError, match=r"holds 0 .* values, the schema wants 1"):
        tio.parse_examples([record], {"x": tio.FixedLenFeature([1], dtype, default)})
