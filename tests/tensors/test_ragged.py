"""Tests of BytesArray and Ragged, against NumPy and plain lists."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io import BytesArray

shapes = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def bytes_arrays(draw: st.DrawFn) -> tuple[BytesArray, np.ndarray[Any, Any]]:
    """An array and the same as NumPy's; its data may begin anywhere in its tensor."""
    shape = draw(shapes)
    count = int(np.prod(shape))
    values = draw(st.lists(st.binary(max_size=6), min_size=count, max_size=count))
    before = draw(st.integers(0, 3))
    array = BytesArray.from_list([b"junk"] * before + values + [b"more junk"])
    array = BytesArray(array.data, array.offsets[before : before + count + 1], shape)
    expected = np.empty(count, object)
    expected[:] = values
    return array, expected.reshape(shape)


@given(bytes_arrays())
def test_a_bytes_array_is_its_values(pair: tuple[BytesArray, np.ndarray[Any, Any]]) -> None:
    array, expected = pair
    assert array.shape == expected.shape
    assert len(array) == len(expected)
    assert array.flat() == expected.reshape(-1).tolist()
    assert array.tolist() == expected.tolist()


def plain(value: bytes | BytesArray) -> Any:
    return value if isinstance(value, bytes) else value.tolist()


@given(bytes_arrays())
def test_rows_of_a_bytes_array(pair: tuple[BytesArray, np.ndarray[Any, Any]]) -> None:
    array, expected = pair
    rows = [row if isinstance(row, bytes) else row.tolist() for row in expected]
    assert [plain(row) for row in array] == rows
    assert [plain(array[i]) for i in range(-len(rows), len(rows))] == rows + rows
    for index in (len(rows), -len(rows) - 1):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            array[index]


@given(
    bytes_arrays(),
    st.one_of(st.none(), st.integers(-6, 6)),
    st.one_of(st.none(), st.integers(-6, 6)),
)
def test_slices_of_a_bytes_array(
    pair: tuple[BytesArray, np.ndarray[Any, Any]], begin: int | None, end: int | None
) -> None:
    array, expected = pair
    part = array[begin:end]
    assert isinstance(part, BytesArray)
    assert part.shape == expected[begin:end].shape
    assert part.tolist() == expected[begin:end].tolist()
    assert part.data.data_ptr() == array.data.data_ptr()


def test_a_bytes_array_without_dimensions_is_one_value() -> None:
    array = BytesArray(torch.tensor([97, 98], dtype=torch.uint8), torch.tensor([0, 2]), ())
    assert array.tolist() == b"ab"
    assert array.flat() == [b"ab"]
    with pytest.raises(TypeError, match="without dimensions"):
        len(array)


def test_a_shape_must_hold_the_values() -> None:
    data, offsets = torch.zeros(2, dtype=torch.uint8), torch.tensor([0, 1, 2])
    assert BytesArray(data, offsets).shape == (2,)
    with pytest.raises(ValueError, match="shape must hold 2 values, got"):
        BytesArray(data, offsets, (3,))


def test_slices_with_a_step_are_rejected() -> None:
    with pytest.raises(ValueError, match="must be 1, got 2"):
        BytesArray.from_list([b"a", b"b"])[::2]


def test_equality_is_of_values() -> None:
    array = BytesArray.from_list([b"a", b"bc", b""])
    assert array == BytesArray.from_list([b"x", b"a", b"bc", b""])[1:]
    assert array != BytesArray.from_list([b"a", b"bc"])
    assert array != BytesArray.from_list([b"a", b"b", b"c"])
    assert array != BytesArray(array.data, array.offsets, (3, 1))
    assert array != [b"a", b"bc", b""]
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)


@pytest.mark.parametrize("values", [[], [b""], [b"", b""], [b"\x00\xff" * 50, b"x"]])
def test_from_list_and_back(values: list[bytes]) -> None:
    array = BytesArray.from_list(values)
    assert array.data.dtype == torch.uint8
    assert array.offsets.dtype == torch.int64
    assert array.tolist() == values
    assert array.to("cpu").tolist() == values
    assert array.to("meta").offsets.device.type == "meta"
    for again in (pickle.loads(pickle.dumps(array)), copy.deepcopy(array), copy.copy(array)):
        assert again == array


@pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 2, 1)])
def test_values_are_decoded(shape: tuple[int, ...]) -> None:
    plain = BytesArray.from_list(["é".encode(), b"", b"a\0", b"b"])
    array = BytesArray(plain.data, plain.offsets, shape)
    assert np.array(array.decode()).shape == shape
    assert np.array(array.decode(), object).reshape(-1).tolist() == ["é", "", "a\0", "b"]
    assert plain[:1].decode("latin-1") == ["Ã©"]
    assert BytesArray(plain.data, plain.offsets[:2], ()).decode() == "é"


def test_a_value_that_is_no_text_is_named() -> None:
    plain = BytesArray.from_list([b"a", b"b", b"c", b"\xff"])
    words = r"invalid start byte, in row 1: pass errors='replace', or use tolist\(\)"
    with pytest.raises(UnicodeDecodeError, match=words):
        BytesArray(plain.data, plain.offsets, (2, 2)).decode()
    assert plain.decode(errors="replace") == ["a", "b", "c", "\ufffd"]
    with pytest.raises(LookupError, match="utf-9"):
        plain.decode("utf-9")
