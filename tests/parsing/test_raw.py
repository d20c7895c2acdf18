"""Raw arrays that are big-endian, cut or padded, and serialized tensors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    int_feature,
    tag,
    varint,
)
from tests.support.written_tensors import WRITTEN
from torchrec_io.errors import DecodeError


def raw_example(data: bytes, *shape: int) -> bytes:
    return example(entry("x", bytes_feature(data)), entry("shape", int_feature(*shape)))


# ---- RawFeature ----


def test_cut_in_the_middle_of_an_element() -> None:
    # The example of the TensorFlow semantics: 01 23, big-endian int32, 8 bytes.
    for shape, values in ((None, [0x01230000, 0]), ([2, 1], [[0x01230000], [0]])):
        feature = tio.RawFeature("int32", shape, little_endian=False, fixed_length=8)
        sample = tio.parse_example(raw_example(b"\x01\x23"), {"x": feature})
        assert sample["x"].tolist() == values


def test_a_fixed_length_still_needs_one_value() -> None:
    feature = {"x": tio.RawFeature("uint8", fixed_length=2)}
    for record in (example(entry("x", bytes_feature(b"a", b"b"))), example(), b""):
        with pytest.raises(DecodeError) as caught:
            tio.parse_examples([raw_example(b"ab"), record], feature)
        assert (caught.value.record, caught.value.feature) == (1, "x")


def test_a_bool_that_is_cut_off_is_not_checked() -> None:
    feature = {"x": tio.RawFeature("bool", fixed_length=2)}
    assert tio.parse_example(raw_example(b"\1\0\2"), feature)["x"].tolist() == [True, False]
    with pytest.raises(DecodeError, match="neither 0 nor 1"):
        tio.parse_example(raw_example(b"\1\2"), feature)


def tensor_example(message: bytes | str) -> bytes:
    data = bytes.fromhex(message) if isinstance(message, str) else message
    return example(entry("x", bytes_feature(data)))


# ---- tensors that are refused ----


def shape_field(*sizes: int) -> bytes:
    return delimited(2, b"".join(delimited(2, tag(1, 0) + varint(size)) for size in sizes))


def refused(dtype: Any, bad: bytes, match: str, shape: Any = None) -> None:
    """Checks that the second of three is refused."""
    good_shape = [2] if shape is None else shape
    feature = tio.SerializedTensorFeature(dtype, shape)
    code = bytes.fromhex(WRITTEN[dtype][0])[:2]
    good = tensor_example(code + shape_field(*good_shape))  # no values: zeros
    assert len(tio.parse_examples([good] * 2, {"x": feature})["x"]) == 2
    with pytest.raises(DecodeError, match=match) as caught:
        tio.parse_examples([good, tensor_example(bad), good], {"x": feature})
    assert (caught.value.record, caught.value.feature) == (1, "x")


def test_another_dtype_is_refused() -> None:
    dtypes = list(WRITTEN)
    for dtype, other in zip(dtypes, [*dtypes[1:], dtypes[0]], strict=True):
        for shape in (None, [2]):
            refused(dtype, bytes.fromhex(WRITTEN[other][1]), "dtype", shape)


@pytest.mark.parametrize("dtype", ["int32", "string", "complex128"])
def test_another_shape_is_refused(dtype: str) -> None:
    scalar, cube, filled = map(bytes.fromhex, WRITTEN[dtype])
    refused(dtype, scalar, r"has the shape \[\], the schema wants \[2\]", [2])
    refused(dtype, cube, r"has the shape \[1, 2, 2\], the schema wants \[2, 2\]", [2, 2])
    refused(dtype, filled, r"has the shape \[2, 2\], the schema wants \[4\]", [4])


HOSTILE = {
    "negative": shape_field(-1),
    "least": shape_field(-(2**63)),
    "negative and empty": shape_field(0, -1),
    "wraps around": shape_field(2**32, 2**32),
    "wraps around to 1": shape_field(2**63 + 1 - 2**64, 2**63 - 1),
    "larger than memory": shape_field(2**62),
    "empty of no tensor": shape_field(0, 2**62, 4),
    "empty that wraps around": shape_field(2**63 - 1, 2**63 - 1, 0),
    "very large": shape_field(2**40),
    "too many dimensions": shape_field(*[1] * 65),
    "far too many dimensions": shape_field(*[1] * 50_000),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_hostile_shapes_are_refused(hostile: bytes) -> None:
    # At once: nothing is allocated by a size that was only claimed.
    for dtype, shape in itertools.product(["int32", "string"], [None, [2]]):
        code = bytes.fromhex(WRITTEN[dtype][0])[:2]
        refused(dtype, code + hostile, "dimension|shape", shape)
        for content in (delimited(4, bytes(8)), delimited(8, b"a")):
            refused(dtype, code + hostile + content, "[Tt]ensor", shape)
