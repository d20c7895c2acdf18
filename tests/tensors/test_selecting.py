"""Selection of records of a batch: ``select``, slices and ``num_records``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import torchrec_io as tio
from tests.support.every_kind import make_batch
from tests.support.examples import example_of
from torchrec_io._tensors.columns import Columns, Form

COUNT = 5


@pytest.mark.parametrize(
    "index",
    [
        [3, 1],
        (3, 1),
        [-2, -4],
        [np.int64(3), 1],
        range(3, 0, -2),
        slice(3, 0, -2),
        torch.tensor([3, 1]),
        torch.tensor([3, 1], dtype=torch.uint8),
        np.array([3, -4], np.int32),
    ],
    ids=repr,
)
def test_forms_of_numbers(index: Any) -> None:
    assert make_batch(COUNT).select(index)["id"].tolist() == [3, 1]


@pytest.mark.parametrize("form", [list, torch.tensor, np.array])
def test_masks(form: Any) -> None:
    batch = make_batch(COUNT)
    mask = form([True, False, False, True, False])
    assert batch.select(mask)["id"].tolist() == [0, 3]
    with pytest.raises(IndexError, match="a mask must have 5 values, one for each record, got 2"):
        batch.select(form([True, False]))


@pytest.mark.parametrize("index", [[], torch.zeros(0, dtype=torch.bool), np.zeros(0, np.int64)])
def test_no_records(index: Any) -> None:
    batch = make_batch(COUNT)
    if getattr(index, "dtype", None) == torch.bool:
        batch = batch[:0]
    empty = batch.select(index)
    assert (empty.num_records, empty.samples()) == (0, [])
    assert list(empty) == list(batch)


@pytest.mark.parametrize("index", [[0, COUNT], [-COUNT - 1], torch.tensor([99])])
def test_out_of_range(index: Any) -> None:
    with pytest.raises(IndexError, match=r"record -?\d+ is out of range for 5 records"):
        make_batch(COUNT).select(index)


@pytest.mark.parametrize("index", [3, "id", None, {1}, [0.5], [[1, 2]], torch.tensor(1)])
def test_other_indexes(index: Any) -> None:
    with pytest.raises(TypeError, match="the index of records must"):
        make_batch(COUNT).select(index)


def test_gradients_of_own_columns_are_kept() -> None:
    batch = make_batch(COUNT)
    weight = torch.ones((), requires_grad=True)
    own = pytree.tree_map(lambda t: t * weight if t.is_floating_point() else t.clone(), batch)
    own[:2]["scores"].sum().backward()
    assert weight.grad is not None


def test_nested_columns() -> None:
    records = [example_of(**{"a/b": [i] * i}) for i in range(4)]
    batch = tio.parse_examples(records, {"a": {"b": tio.VarLenFeature("int64")}})
    assert batch.num_records == 4
    assert batch[2:]["a"]["b"].tolist() == [[2, 2], [3, 3, 3]]
    assert batch.select([3])[:1].lengths == {}


def test_offsets_that_were_not_validated() -> None:
    """Rows outside of the values are cut, as in the rows of the batch."""
    ragged = tio.Ragged(torch.arange(4), torch.tensor([-1, 2, 1, 9]))
    batch = tio.Batch(Columns.of_values({"x": ragged}, Form(("x",))))
    assert [row.tolist() for row in batch.select([2, 1, 0])["x"].rows()] == [[1, 2, 3], [], [0, 1]]
    assert [row.tolist() for row in ragged.rows()] == [[0, 1], [], [1, 2, 3]]
