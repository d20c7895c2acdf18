"""Tests of collate against plain Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.every_kind import plain, tensors_of
from tests.support.examples import example_of
from torchrec_io import BytesArray, Ragged, Sample
from torchrec_io._schema.dtypes import RAW_DTYPES

# ---- what comes out of which ----


@pytest.mark.parametrize("dtype", [getattr(torch, name) for name in RAW_DTYPES])
@pytest.mark.parametrize("shape", [(), (2, 0), (2, 3)])
def test_tensors_of_one_shape_are_stacked(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensors = [
        (torch.arange(6)[: torch.Size(shape).numel()] % 2 * i).to(dtype).reshape(shape)
        for i in range(4)
    ]
    batch = tio.collate([{"x": tensor} for tensor in tensors])
    assert batch["x"].dtype == dtype
    assert tuple(batch["x"].shape) == (4, *shape)
    assert batch["x"].tolist() == [tensor.tolist() for tensor in tensors]


def test_tensors_that_are_views_of_anything() -> None:
    base = torch.arange(12).reshape(3, 4)
    samples = [{"x": base.T[i], "y": base[:, i]} for i in range(4)]
    batch = tio.collate(samples)
    assert batch["x"].tolist() == batch["y"].tolist() == base.T.tolist()


@given(st.lists(st.one_of(st.binary(max_size=5), st.text(max_size=5)), min_size=1, max_size=6))
def test_bytes_and_text_become_an_array(values: list[bytes | str]) -> None:
    column = tio.collate([{"x": value} for value in values])["x"]
    assert isinstance(column, BytesArray)
    assert column.tolist() == [v.encode() if isinstance(v, str) else v for v in values]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2, -3], torch.int64),
        ([1.5, 2.5], torch.float32),
        ([True, False], torch.bool),
        ([1, 2.5], torch.float32),
        ([torch.tensor(1), 2], torch.int64),
    ],
)
def test_numbers_become_a_tensor(values: list[Any], dtype: torch.dtype) -> None:
    column = tio.collate([{"x": value} for value in values])["x"]
    assert column.dtype == dtype
    assert column.tolist() == [float(value) for value in values]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("shapes", [[(2,), (2,)], [(2,), (3,)]])
def test_tensors_of_other_dtypes_are_promoted(ragged: bool, shapes: list[tuple[int]]) -> None:
    tensors = [
        torch.full(shapes[0], 3, dtype=torch.int32),
        torch.full(shapes[1], 2.5, dtype=torch.float64),
    ]
    names = {"x": "int64"} if ragged else {}
    for make in (tio.collate, tio.pad_collate):
        batch = make([Sample({"x": tensor, "y": 7}, names) for tensor in tensors])
        values = batch["x"].values if isinstance(batch["x"], Ragged) else batch["x"]
        assert {tensor.dtype for tensor in tensors_of(values)} == {torch.float64}
        rows = [tensor.tolist() for tensor in tensors]
        if ragged and make is tio.pad_collate and shapes[0] != shapes[1]:
            rows[0].append(0.0)
        assert plain(batch["x"]) == rows
        assert batch["y"].tolist() == [7, 7]


def test_bytes_arrays_of_one_shape_are_stacked() -> None:
    values = [b"a", b"", b"bcd", b"e"]
    array = BytesArray.from_list(values)
    square = BytesArray(array.data, array.offsets, (2, 2))
    batch = tio.collate([{"x": square, "y": array[1:3]}, {"x": square, "y": array[:2]}])
    assert batch["x"].shape == (2, 2, 2)
    assert batch["x"].tolist() == [[[b"a", b""], [b"bcd", b"e"]]] * 2
    assert batch["y"].tolist() == [[b"", b"bcd"], [b"a", b""]]


@pytest.mark.parametrize("make", [tio.collate, tio.pad_collate])
def test_bytes_arrays_of_other_lengths_are_rows(make: Any) -> None:
    # Without a Sample nobody says that the feature is ragged.
    rows = [[b"a"], [], [b"bc", b"d", b""]]
    samples = [{"x": BytesArray.from_list(row), "y": i} for i, row in enumerate(rows)]
    batch = make(samples)
    assert isinstance(batch["x"], Ragged)
    assert batch["x"].tolist() == rows
    assert batch["y"].tolist() == [0, 1, 2]


def test_bytes_arrays_of_different_shapes_are_rejected() -> None:
    array = BytesArray.from_list([b""] * 6)
    shapes = [(2, 3), (3, 2), (6, 1)]
    with pytest.raises(ValueError, match=r"'x'.*shapes"):
        tio.collate([{"x": BytesArray(array.data, array.offsets, shape)} for shape in shapes])


def test_ragged_values_that_are_rows_no_more() -> None:
    # A transform may have made something else of them.
    samples = [Sample({"x": torch.ones(2, 3) * i}, {"x": "int64"}) for i in range(3)]
    for make in (tio.collate, tio.pad_collate):
        assert make(samples)["x"].tolist() == [sample["x"].tolist() for sample in samples]
    scalars = [Sample({"x": torch.tensor(i)}, {"x": "int64"}) for i in range(3)]
    assert tio.collate(scalars)["x"].tolist() == [0, 1, 2]


# ---- what is refused ----


@pytest.mark.parametrize("make", [tio.collate, tio.pad_collate])
def test_no_samples_are_rejected(make: Any) -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        make([])


@pytest.mark.parametrize("value", [None, [1], (1, 2), object()])
def test_values_of_unsupported_types_are_rejected(value: Any) -> None:
    with pytest.raises(
        TypeError, match=f"of 'x' must be of one kind .*, got {type(value).__name__}"
    ):
        tio.collate([{"x": value}, {"x": value}])
    with pytest.raises(TypeError, match="of 'x' must be of one kind"):
        tio.collate([{"x": torch.tensor(1)}, {"x": value}])


def test_sparse_arrays_of_different_shapes_are_rejected() -> None:
    one = tio.Sparse(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0), (3,))
    other = tio.Sparse(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0), (4,))
    with pytest.raises(ValueError, match="have different shapes"):
        tio.collate([{"x": one}, {"x": other}])
    with pytest.raises(TypeError, match="Sparse and Tensor"):
        tio.collate([{"x": one}, {"x": torch.zeros(3)}])


# ---- rows of batches ----


def test_changed_offsets_never_lead_outside_of_the_values() -> None:
    """Offsets are Tensors that a user may change, also between two calls."""
    schema = {
        "words": tio.VarLenFeature("string"),
        "name": tio.FixedLenFeature([], "string"),
        "narrow": tio.RaggedFeature("int64", "x"),
        "sparse": tio.SparseFeature("si", "sv", "float32", 40),
    }
    stored = [
        example_of(words=[b"w" * i] * i, name=[b"n"], x=[i] * i, si=[i, 39], sv=[0.5, 1.0])
        for i in range(1, 6)
    ]
    batch = tio.parse_examples(stored, schema)
    samples = batch.samples()
    assert tio.collate(samples[1:4])["narrow"].tolist() == [[2] * 2, [3] * 3, [4] * 4]
    for value in (batch["words"], batch["words"].values, batch["name"], batch["narrow"]):
        value.offsets[:] = torch.tensor([-5, 1 << 30] * len(value.offsets))[: len(value.offsets)]
    batch["sparse"].indices[:] = torch.randint(-9, 1 << 40, batch["sparse"].indices.shape)
    joined = tio.collate(samples[1:4])
    for value in (joined["words"], joined["words"].values, joined["narrow"]):
        assert value.offsets[0] == 0
        assert bool((value.offsets.diff() >= 0).all())


def test_too_many_values_for_int32_offsets() -> None:
    feature = tio.RaggedFeature("int64", "x")
    [sample] = tio.parse_examples([example_of(x=[1] * (1 << 15))], {"x": feature}).samples()
    with pytest.raises(OverflowError, match="row_splits_dtype='int64'"):
        tio.collate([sample] * (1 << 16))
