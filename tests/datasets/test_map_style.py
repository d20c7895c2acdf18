"""TFRecordMapDataset: random access, and PyTorch's samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    Subset,
    random_split,
)

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, record

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)
FIXED = {"id": SCHEMA["id"]}


def test_without_a_schema(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths)
    assert dataset[-1] == record(COUNT - 1)
    assert [dataset[i] for i in range(len(dataset))] == [record(i) for i in range(COUNT)]
    assert tio.TFRecordMapDataset(paths, len)[3] == len(record(3))
    assert tio.TFRecordMapDataset(paths, SCHEMA).schema == tio.Schema(SCHEMA)


@given(st.slices(COUNT))
def test_slices(paths: list[str], part: slice) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    assert ids_of(dataset[part]) == list(range(COUNT))[part]


@given(st.lists(st.integers(-COUNT, COUNT - 1)))
def test_several_records(paths: list[str], indices: list[int]) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    expected = [i % COUNT for i in indices]
    assert ids_of(dataset.__getitems__(indices)) == expected
    assert ids_of(dataset[i] for i in indices) == expected


@pytest.mark.parametrize("index", [np.int64(7), torch.tensor(7), np.array(7), True + 6])
def test_integer_types(paths: list[str], index: Any) -> None:
    assert int(tio.TFRecordMapDataset(paths, FIXED)[index]["id"]) == 7


def test_numbers_out_of_range(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, FIXED)
    for index in (COUNT, -COUNT - 1, 10**30):
        with pytest.raises(IndexError, match=f"record {index} is out of range for {COUNT} records"):
            dataset[index]
    for wrong in (1.5, "1", None):
        with pytest.raises(TypeError):
            dataset[wrong]  # type: ignore[call-overload]


def test_keys_and_slices_of_the_dataset(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, FIXED, split="[60%:]", with_key=True)
    assert len(dataset) == 20
    key, sample = dataset[0]
    assert key == f"{paths[2]}:0"
    assert int(sample["id"]) == 30
    assert [key for key, _ in dataset[:2]] == [key, dataset[1][0]]


def test_subset_and_random_split(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, FIXED)
    subset = Subset(dataset, [4, 40, 2])
    assert ids_of(subset.__getitems__([2, 0])) == [2, 4]
    assert ids_of(subset[i] for i in range(3)) == [4, 40, 2]
    parts = random_split(dataset, [0.8, 0.2], torch.Generator().manual_seed(1))
    seen = [int(part[i]["id"]) for part in parts for i in range(len(part))]
    assert sorted(seen) == list(range(COUNT))
