"""Where the bytes of an Example stop being legal, and what is read at the edges.

Legal protobuf is read as protobuf reads it: ``test_parse_wire.py`` draws it. Illegal bytes are
refused.
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
    int_feature,
    packed_floats,
    packed_ints,
    tag,
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


def test_groups_may_be_a_hundred_deep_and_no_more() -> None:
    def nested(depth: int) -> bytes:
        return tag(7, wire.GROUP) * depth + tag(7, wire.END_GROUP) * depth

    record = example(entry("x", int_feature(1)))
    assert read(nested(99) + record) == [1]
    refuses(nested(101) + record)
    refuses(tag(7, wire.GROUP) * 100_000 + record)


def test_an_entry_without_a_value_has_a_feature_without_a_kind() -> None:
    record = example(delimited(1, delimited(1, b"x")))
    assert read(record) == []
    with pytest.raises(DecodeError, match="required"):
        tio.parse_examples([record], {"x": tio.FixedLenFeature([], "int64")})
    schema = {"x": tio.FixedLenFeature([], "int64", 3)}
    assert tio.parse_examples([record], schema)["x"].tolist() == [3]


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
def test_lengths_past_their_message_are_refused(level: str) -> None:
    for excess in (1, 5, 2**31, 2**32 - 1, 2**34):

        def field(name: str, number: int, payload: bytes, excess: int = excess) -> bytes:
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


@pytest.mark.parametrize("zero", [b"\x00\x00", b"\x02\x00", b"\x05" + bytes(4), b"\x80\x00\x00"])
def test_field_number_zero_is_refused(zero: bytes) -> None:
    levels = ["example", "features", "entry", "feature", "list"]
    for level in levels:
        around = {name: zero if name == level else b"" for name in levels}
        feature = around["feature"] + delimited(3, around["list"] + packed_ints([1]))
        inside = around["entry"] + delimited(1, b"x") + delimited(2, feature)
        refuses(around["example"] + delimited(1, around["features"] + delimited(1, inside)))


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


def test_illegal_wire_types_are_refused() -> None:
    record = example(entry("x", int_feature(1)))
    for odd in (tag(number, kind) for number in (1, 7) for kind in (6, 7, wire.END_GROUP)):
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
