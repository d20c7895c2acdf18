"""Tests of Sparse and of Raggeds of Raggeds, against plain lists and PyTorch's own tensors."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from torchrec_io import BytesArray, Ragged, Sparse

# ---- Ragged of Ragged ----


def ragged_of(rows: list[Any], depth: int, dtype: torch.dtype = torch.int64) -> Ragged:
    """Nested lists, ``depth`` levels of rows above the values, as a Ragged."""
    flat = list(itertools.chain.from_iterable(rows))
    offsets = torch.tensor([0, *itertools.accumulate(map(len, rows))], dtype=dtype)
    if depth > 1:
        return Ragged(ragged_of(flat, depth - 1, dtype), offsets)
    if flat and isinstance(flat[0], bytes):
        return Ragged(BytesArray.from_list(flat), offsets)
    return Ragged(torch.tensor(flat, dtype=torch.int64), offsets)


def nested_lists(depth: int) -> st.SearchStrategy[list[Any]]:
    rows: st.SearchStrategy[Any] = st.integers(1, 99)
    for _ in range(depth + 1):
        rows = st.lists(rows, max_size=4)
    return rows


depths = st.integers(1, 3)
cases = depths.flatmap(lambda depth: st.tuples(st.just(depth), nested_lists(depth)))
offset_dtypes = st.sampled_from([torch.int32, torch.int64])


@given(cases, offset_dtypes)
def test_rows_of_rows(case: tuple[int, list[Any]], dtype: torch.dtype) -> None:
    depth, rows = case
    ragged = ragged_of(rows, depth, dtype)
    assert len(ragged) == len(rows)
    assert ragged.tolist() == rows
    assert ragged.lengths.tolist() == list(map(len, rows))
    assert ragged.lengths.dtype == dtype
    assert [row.tolist() for row in ragged.rows()] == rows
    assert [row.tolist() for row in ragged] == rows
    assert [ragged[i].tolist() for i in range(-len(rows), len(rows))] == rows + rows
    assert all(isinstance(row, Ragged) == (depth > 1) for row in ragged)
    assert isinstance(ragged.flat_values, Tensor)
    with pytest.raises(IndexError):
        ragged[len(rows)]


@given(cases, offset_dtypes, st.integers(-5, 5), st.integers(-5, 5))
def test_slices(case: tuple[int, list[Any]], dtype: torch.dtype, begin: int, end: int) -> None:
    depth, rows = case
    part = ragged_of(rows, depth, dtype)[begin:end]
    assert part.tolist() == rows[begin:end]
    assert part.offsets.dtype == dtype
    level: Any = part
    while isinstance(level, Ragged):  # nothing is left of the other rows
        assert int(level.offsets[0]) == 0
        assert int(level.offsets[-1]) == len(level.values)
        level = level.values
    assert part[1:].tolist() == rows[begin:end][1:]


def padded(rows: list[Any], sizes: list[int], fill: int) -> list[Any]:
    """Nested lists filled up to these sizes."""
    inner = sizes[1:]
    filled = [padded(row, inner, fill) if inner else row for row in rows]
    empty: Any = fill
    for size in reversed(inner):
        empty = [empty] * size
    return filled + [empty] * (sizes[0] - len(rows))


def sizes_of(rows: list[Any], depth: int) -> list[int]:
    sizes = [len(rows)]
    for _ in range(depth):
        sizes.append(max(map(len, rows), default=0))
        rows = list(itertools.chain.from_iterable(rows))
    return sizes


@given(cases, offset_dtypes, st.integers(-2, 2), st.one_of(st.none(), st.integers(0, 3)))
def test_padding(
    case: tuple[int, list[Any]], dtype: torch.dtype, fill: int, max_len: int | None
) -> None:
    depth, rows = case
    sizes = sizes_of(rows, depth)
    found = ragged_of(rows, depth, dtype).to_padded(fill, max_len)
    if max_len is not None:
        sizes[1] = min(sizes[1], max_len)
        rows = [row[:max_len] for row in rows]
    assert list(found.shape) == sizes
    assert found.tolist() == padded(rows, sizes, fill)


@given(cases, offset_dtypes)
def test_as_a_sparse_tensor(case: tuple[int, list[Any]], dtype: torch.dtype) -> None:
    depth, rows = case
    ragged = ragged_of(rows, depth, dtype)
    sparse = ragged.to_sparse()
    assert list(sparse.shape) == sizes_of(rows, depth)
    # No value is 0 here: torch finds just those that are stored, in the same order.
    dense = ragged.to_padded()
    assert torch.equal(sparse.to_dense(), dense)
    assert torch.equal(sparse.indices(), dense.nonzero().t())
    assert isinstance(ragged.flat_values, Tensor)
    assert torch.equal(sparse.values(), ragged.flat_values)


def test_bytes_in_rows_of_rows() -> None:
    rows = [[[b"a", b""], []], [], [[b"bcd"]]]
    ragged = ragged_of(rows, 2)
    assert ragged.tolist() == rows
    assert [row.tolist() for row in ragged[1:]] == rows[1:]
    assert isinstance(ragged.flat_values, BytesArray)
    with pytest.raises(TypeError, match="cannot become a sparse tensor"):
        ragged.to_sparse()
    for make in (ragged.to_padded, ragged.to_nested, ragged_of([[b"a"]], 1).to_nested):
        with pytest.raises(TypeError, match=r"use tolist\(\)"):
            make()


def test_raggeds_that_cannot_be_nested_tensors() -> None:
    with pytest.raises(TypeError, match=r"a Ragged of numbers .* use to_padded\(\)"):
        ragged_of([[[1]], []], 2).to_nested()
    with pytest.raises(ValueError, match="do not ascend"):
        Ragged(torch.arange(3), torch.tensor([0, 3, 1, 3])).to_nested()


def test_rows_of_arrays() -> None:
    # Uniform rows innermost: a value is then an array.
    ragged = Ragged(torch.arange(1, 13).reshape(3, 2, 2), torch.tensor([0, 2, 2, 3]))
    assert ragged.tolist() == [[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [], [[[9, 10], [11, 12]]]]
    assert list(ragged.to_padded(-1).shape) == [3, 2, 2, 2]
    assert ragged.to_padded(-1)[2, 1].tolist() == [[-1, -1], [-1, -1]]
    assert torch.equal(ragged.to_sparse().to_dense(), ragged.to_padded())


# ---- Sparse ----


@st.composite
def sparse_arrays(draw: st.DrawFn) -> tuple[Sparse, list[tuple[list[int], int]]]:
    """A Sparse whose entries are sorted by their first index, and the entries."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
    place = st.tuples(*(st.integers(0, size - 1) for size in shape)).map(list)
    entries = draw(st.lists(st.tuples(place, st.integers(-9, 9)), max_size=9))
    entries.sort(key=lambda pair: pair[0][0])
    indices = torch.tensor([at for at, _ in entries], dtype=torch.int64).reshape(-1, len(shape))
    values = torch.tensor([value for _, value in entries], dtype=torch.int64)
    return Sparse(indices, values, shape), entries


@given(sparse_arrays())
def test_a_sparse_is_its_entries(case: tuple[Sparse, list[tuple[list[int], int]]]) -> None:
    sparse, entries = case
    dense = torch.zeros(sparse.dense_shape, dtype=torch.int64)
    for at, value in entries:
        dense[tuple(at)] += value  # as torch has it of equal indices
    coo = sparse.to_coo()
    assert coo.shape == dense.shape
    assert torch.equal(coo.to_dense(), dense)
    assert len(sparse) == len(sparse.rows()) == sparse.dense_shape[0]
    for number, row in enumerate(sparse.rows()):
        assert row.dense_shape == sparse.dense_shape[1:]
        assert list(zip(row.indices.tolist(), row.values.tolist(), strict=True)) == [
            (at[1:], value) for at, value in entries if at[0] == number
        ]
        assert torch.equal(row.to_coo().to_dense(), dense[number])


def small_sparse(values: Any) -> Sparse:
    return Sparse(torch.tensor([[0, 2], [1, 0], [1, 0]]), values, (3, 4))


NUMBERS = torch.tensor([1.5, 2.0, 4.0])
TEXTS = BytesArray.from_list([b"a", b"", b"bc"])


def test_rows_share_the_values() -> None:
    values = NUMBERS.clone()
    sparse = small_sparse(values)
    row = sparse.rows()[1].values
    assert isinstance(row, Tensor)
    row.zero_()
    assert values.tolist() == [1.5, 0.0, 0.0]
    assert sparse.to_coo()._values().data_ptr() == values.data_ptr()


def test_bytes_in_a_sparse() -> None:
    sparse = small_sparse(TEXTS)
    assert [row.values.tolist() for row in sparse.rows()] == [[b"a"], [b"", b"bc"], []]
    with pytest.raises(TypeError, match="bytes"):
        sparse.to_coo()


@pytest.mark.parametrize("values", [NUMBERS, TEXTS], ids=["numbers", "bytes"])
def test_sparse_copies(values: Any) -> None:
    sparse = small_sparse(values)
    for again in (pickle.loads(pickle.dumps(sparse)), copy.deepcopy(sparse), sparse.to("cpu")):
        assert type(again) is Sparse
        assert again.dense_shape == (3, 4)
        assert again.indices.tolist() == sparse.indices.tolist()
        assert again.values.tolist() == values.tolist()
    assert repr(sparse) == "Sparse(3 values in [3, 4])"
