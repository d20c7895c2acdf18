"""Raw arrays that are big-endian, cut or padded, and serialized tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.wire import (
    bytes_feature,
    delimited,
    entry,
    example,
    int_feature,
    packed_ints,
    tag,
    varint,
)
from tests.support.written_tensors import WRITTEN
from torchrec_io.errors import DecodeError, SchemaError

# Element, and the halves that are swapped: a complex number has two.
ITEMS = {
    **{name: np.dtype(name).itemsize for name in ("int64", "int32", "int16", "int8", "bool")},
    **{name: np.dtype(name).itemsize for name in ("uint64", "uint32", "uint16", "uint8")},
    **{name: np.dtype(name).itemsize for name in ("float64", "float32", "float16")},
    "bfloat16": 2,
    "complex64": 8,
    "complex128": 16,
}
RANDOM = np.random.default_rng(5)


def raw_example(data: bytes, *shape: int) -> bytes:
    return example(entry("x", bytes_feature(data)), entry("shape", int_feature(*shape)))


def any_bytes(dtype: str, size: int) -> bytes:
    top = 2 if dtype == "bool" else 256
    return RANDOM.integers(0, top, size, np.uint8).tobytes()


def swapped(data: bytes, dtype: str) -> bytes:
    """Each element turned around, by hand; of complex numbers each half."""
    size = ITEMS[dtype] // (2 if dtype.startswith("complex") else 1)
    return b"".join(data[at : at + size][::-1] for at in range(0, len(data), size))


def bytes_of(tensor: torch.Tensor) -> bytes:
    data: bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return data


# ---- RawFeature ----


@pytest.mark.parametrize("dtype", ITEMS)
@pytest.mark.parametrize("little_endian", [False, True])
def test_values_are_cut_or_filled_up(dtype: Any, little_endian: bool) -> None:
    room = 3 * ITEMS[dtype]
    sizes = [0, 1, room - 1, room, room + 1, 5 * room]
    stored = [any_bytes(dtype, size) for size in sizes]
    # In bytes, before they are swapped: as TensorFlow does.
    resized = [data[:room] + bytes(max(0, room - len(data))) for data in stored]
    expected = b"".join(data if little_endian else swapped(data, dtype) for data in resized)
    records = [raw_example(data) for data in stored]
    for shape in (None, [3], [1, 3, 1]):
        feature = tio.RawFeature(dtype, shape, little_endian=little_endian, fixed_length=room)
        column = tio.parse_examples(records, {"x": feature})["x"]
        assert tuple(column.shape) == (len(records), *(shape or [3]))
        assert bytes_of(column) == expected
    assert tuple(tio.parse_examples([], {"x": feature})["x"].shape) == (0, 1, 3, 1)


def test_cut_in_the_middle_of_an_element() -> None:
    # The example of the TensorFlow semantics: 01 23, big-endian int32, 8 bytes.
    feature = tio.RawFeature("int32", little_endian=False, fixed_length=8)
    assert tio.parse_example(raw_example(b"\x01\x23"), {"x": feature})["x"].tolist() == [
        0x01230000,
        0,
    ]


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


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": "int32", "fixed_length": 6},
        {"dtype": "int32", "fixed_length": 0},
        {"dtype": "int32", "fixed_length": -4},
        {"dtype": "int32", "fixed_length": 4.0},
        {"dtype": "complex128", "fixed_length": 8},
        {"dtype": "int32", "fixed_length": 8, "shape": [3]},
        {"dtype": "int32", "fixed_length": 8, "shape_key": "shape"},
        {"dtype": "int32"},
        {"dtype": "string", "shape": [2]},
    ],
)
def test_raw_features_that_contradict_themselves(arguments: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        tio.RawFeature(**arguments)


# ---- SerializedTensorFeature ----


def tensor_example(message: bytes | str) -> bytes:
    data = bytes.fromhex(message) if isinstance(message, str) else message
    return example(entry("x", bytes_feature(data)))


@given(st.lists(st.lists(st.binary(max_size=9), min_size=2, max_size=2), max_size=5))
def test_strings_of_any_size(rows: list[list[bytes]]) -> None:
    head = bytes.fromhex("0807120412020802")
    records = [tensor_example(head + b"".join(delimited(8, s) for s in row)) for row in rows]
    column = tio.parse_examples(records, {"x": tio.SerializedTensorFeature("string", [2])})["x"]
    assert column.tolist() == rows
    listed = tio.parse_examples(records, {"x": tio.SerializedTensorFeature("string")})["x"]
    assert [array.tolist() for array in listed] == rows


# ---- tensors that are refused ----

INT32, INT64, STRING = b"\x08\x03", b"\x08\x09", b"\x08\x07"


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


@pytest.mark.parametrize("shape", [None, [2]])
@pytest.mark.parametrize("dtype", WRITTEN)
def test_another_dtype_is_refused(dtype: str, shape: Any) -> None:
    for other, (_, cube, _) in WRITTEN.items():
        if other != dtype:
            refused(dtype, bytes.fromhex(cube), "dtype", shape)


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


@pytest.mark.parametrize("shape", [None, [2]])
@pytest.mark.parametrize("dtype", ["int32", "string"])
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_hostile_shapes_are_refused(hostile: bytes, dtype: str, shape: Any) -> None:
    # At once: nothing is allocated by a size that was only claimed.
    code = bytes.fromhex(WRITTEN[dtype][0])[:2]
    refused(dtype, code + hostile, "dimension|shape", shape)
    for content in (delimited(4, bytes(8)), delimited(8, b"a")):
        refused(dtype, code + hostile + content, "[Tt]ensor", shape)


@pytest.mark.parametrize("shape", [None, [2]])
@pytest.mark.parametrize(
    "message",
    [
        INT32 + shape_field(2) + delimited(4, bytes(7)),
        INT32 + shape_field(2) + delimited(4, bytes(9)),
        INT32 + shape_field(2) + delimited(4, bytes(12)),
        INT32 + shape_field(2) + delimited(7, packed_ints([1, 2, 3])[2:]),
        INT32 + shape_field(2)[:-1],
        INT32 + shape_field(2) + b"\x22\x05ab",
        b"\xff" * 20,
        b"\x08",
        b"",
        b"\x08\x00" + shape_field(2),
        b"\x08\x63" + shape_field(2),
        b"no tensor at all",
    ],
)
def test_damaged_tensors_are_refused(message: bytes, shape: Any) -> None:
    refused("int32", message, ".", shape)


def test_a_bool_is_zero_or_one() -> None:
    refused("bool", b"\x08\x0a" + shape_field(2) + delimited(4, b"\1\2"), "bool", [2])
