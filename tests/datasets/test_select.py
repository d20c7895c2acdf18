"""Datasets of records that are selected by number: ``select`` and ``take``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)

numbers_of_records = st.lists(st.integers(0, COUNT - 1), unique=True)


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 4, **options})


@given(numbers_of_records, st.data())
def test_records_keep_their_order(
    paths: list[str], numbers: list[int], data: st.DataObject
) -> None:
    some = [number - COUNT if data.draw(st.booleans()) else number for number in numbers]
    chosen = make(paths).select(some)
    assert numbers_of(chosen) == sorted(numbers)
    assert chosen.num_records == len(numbers)
    assert len(chosen) == -(-len(numbers) // 4)
    mapped = tio.TFRecordMapDataset(paths, SCHEMA).select(some)
    assert len(mapped) == len(numbers)
    assert numbers_of(mapped[i] for i in range(len(mapped))) == sorted(numbers)
    assert numbers_of(mapped[::-1]) == sorted(numbers, reverse=True)
    # Positions are those of the selected records.
    places = st.integers(0, len(numbers) - 1)
    again = data.draw(st.lists(places, unique=True) if numbers else st.just([]))
    expected = sorted(sorted(numbers)[position] for position in again)
    assert numbers_of(chosen.select(again)) == expected
    n = data.draw(st.integers(0, COUNT))
    assert numbers_of(chosen.take(n)) == sorted(numbers)[:n]
    shuffled = make(paths, shuffle=True).take(n)
    assert sorted(numbers_of(shuffled)) == list(range(n))


@pytest.mark.parametrize(
    "numbers",
    [
        [7, 3],
        (3, 7),
        {3, 7},
        range(3, 8, 4),
        np.array([3, 7], np.uint8),
        torch.tensor([7, 3]),
        iter([3, 7]),
        [np.int64(3), 7],
    ],
)
def test_kinds_of_numbers(paths: list[str], numbers: Any) -> None:
    assert numbers_of(make(paths).select(numbers)) == [3, 7]


@pytest.mark.parametrize("nothing", [[], np.array([], np.int64), torch.empty(0, dtype=torch.int64)])
def test_no_numbers(paths: list[str], nothing: Any) -> None:
    assert numbers_of(make(paths).take(0).select(nothing)) == []


RANGE = f"is out of range for {COUNT} records"


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([3, COUNT], IndexError, f"record {COUNT} {RANGE}"),
        ([3, -COUNT - 1], IndexError, f"record {-COUNT - 1} {RANGE}"),
        ([3, 10**15], IndexError, f"record {10**15} {RANGE}"),
        ([1, 2, 1], ValueError, "numbers must name each record once, got record 1 twice"),
        ([0, -COUNT], ValueError, "numbers must name each record once, got record 0 twice"),
        ([True, False], TypeError, r"numbers must be integers.*got bool \[2\]"),
        ([1.0], TypeError, r"numbers must be integers.*got float64 \[1\]"),
        (torch.ones(3), TypeError, r"numbers must be integers.*got float32 \[3\]"),
        (np.zeros((2, 2), np.int64), TypeError, r"got int64 \[2, 2\]"),
        (7, TypeError, r"numbers must be integers.*got int64 \[\]"),
        ("37", TypeError, r"numbers must be integers.*got <U1 \[2\]"),
    ],
)
def test_other_values(paths: list[str], numbers: Any, error: Any, message: str) -> None:
    for dataset in (make(paths), tio.TFRecordMapDataset(paths)):
        with pytest.raises(error, match=message):
            dataset.select(numbers)


def test_other_numbers_to_take(paths: list[str]) -> None:
    n: Any
    for n in (-1, 1.5, None, True):
        for dataset in (make(paths), tio.TFRecordMapDataset(paths)):
            with pytest.raises(ValueError, match="n must be a non-negative integer, got"):
                dataset.take(n)


def test_of_a_split(paths: list[str]) -> None:
    assert numbers_of(make(paths, split="[10:20]").select([0, -1])) == [10, 19]
    part, _ = make(paths).split(0.5, 0.5)
    assert numbers_of(part.select(range(5))) == numbers_of(part)[:5]
