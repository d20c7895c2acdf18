"""Where the bytes of an Example stop being legal, and what is read at the edges.

Legal protobuf is read as protobuf reads it: ``test_parse_wire.py`` draws it. Illegal bytes are
refused.
"""

from __future__ import annotations

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


def read(record: bytes, dtype: Any = "int64", key: str = "x") -> list[Any]:
    """The values of a feature, by way of a VarLenFeature and then of a FixedLenFeature."""
    batch = tio.parse_examples([record], {key: tio.VarLenFeature(dtype)})
    values: list[Any] = batch[key].tolist()[0]
    fixed = {key: tio.FixedLenFeature([len(values)], dtype)}
    if values:
        assert tio.parse_examples([record], fixed)[key].tolist() == [values]
    return values


def refuses(record: bytes, dtype: Any = "int64", **features: Any) -> None:
    """Checks that no feature of the record can be had."""
    with pytest.raises(DecodeError):
        tio.parse_examples([record], features or {"x": tio.VarLenFeature(dtype)})
    with pytest.raises(DecodeError):
        tio.parse_examples([record], features or {"x": tio.FixedLenFeature([1], dtype)})


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


# ---- taken by TensorFlow, refused by us ----


def ints(chunk: bytes) -> bytes:
    return example(entry("x", delimited(3, chunk)))


INTS = ints(packed_ints([1]))


@pytest.mark.parametrize(
    "record",
    [
        *(INTS.replace(INTS[:2], tag(1, wire.DELIMITED) + varint(len(INTS) - 2 + excess))
          for excess in (1, 2**31, 2**34)),
        example(entry("x", tag(3, wire.DELIMITED) + b"\x7f" + packed_ints([1]))),
        ints(tag(1, wire.DELIMITED) + b"\x02\x01"),
        example(entry("x", delimited(2, delimited(1, bytes(5))))),
        b"\x00\x00" + INTS,
        ints(b"\x02\x00" + packed_ints([1])),
        ints(delimited(1, varint(1, 11))),
        ints(tag(1, wire.VARINT) + b"\xff" * 10 + b"\x01"),
        delimited(1, entry("x", int_feature(1)), tag_size=6),
        delimited(1, entry("x", int_feature(1)), length_size=6),
        # An earlier entry of the key must be legal all the same.
        example(entry("x", delimited(3, delimited(1, b"\x80"))), entry("x", int_feature(1))),
    ],
)  # fmt: skip
def test_illegal_bytes_are_refused(record: bytes) -> None:
    refuses(record, "float32" if b"\x12\x07" in record else "int64")


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
