"""Datasets of records that are selected by number: ``select`` and ``take``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)

numbers_of_records = st.lists(st.integers(0, COUNT - 1), unique=True)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("select"), SIZES)


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 4, **options})


def ids_of(items: Any) -> list[int]:
    return [number for item in items for number in np.atleast_1d(item["id"]).tolist()]


class TestSelect:
    @given(numbers_of_records)
    def test_records_keep_their_order(self, paths: list[str], numbers: list[int]) -> None:
        chosen = make(paths).select(numbers)
        assert ids_of(chosen) == sorted(numbers)
        assert chosen.num_records == len(numbers)
        assert len(chosen) == -(-len(numbers) // 4)

    @given(numbers_of_records, st.data())
    def test_negative_numbers_count_from_the_end(
        self, paths: list[str], numbers: list[int], data: st.DataObject
    ) -> None:
        some = [number - COUNT if data.draw(st.booleans()) else number for number in numbers]
        assert ids_of(make(paths).select(some)) == sorted(numbers)

    @given(numbers_of_records, st.data())
    def test_positions_are_those_of_the_selected_records(
        self, paths: list[str], numbers: list[int], data: st.DataObject
    ) -> None:
        first = make(paths, shuffle=True).select(numbers)
        again = data.draw(
            st.lists(st.integers(0, len(numbers) - 1), unique=True) if numbers else st.just([])
        )
        expected = sorted(sorted(numbers)[position] for position in again)
        assert sorted(ids_of(first.select(again))) == expected

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
    def test_kinds_of_numbers(self, paths: list[str], numbers: Any) -> None:
        assert ids_of(make(paths).select(numbers)) == [3, 7]

    @pytest.mark.parametrize(
        "nothing", [[], np.array([], np.int64), range(0), torch.empty(0, dtype=torch.int64)]
    )
    def test_no_numbers(self, paths: list[str], nothing: Any) -> None:
        assert ids_of(make(paths).select(nothing)) == []
        assert len(make(paths).take(0).select(nothing)) == 0

    @pytest.mark.parametrize("number", [COUNT, -COUNT - 1, 10**15])
    def test_numbers_out_of_range(self, paths: list[str], number: int) -> None:
        message = f"record {number} is out of range for {COUNT} records"
        for dataset in (make(paths), tio.TFRecordMapDataset(paths)):
            with pytest.raises(IndexError, match=message):
                dataset.select([3, number])

    @pytest.mark.parametrize("numbers", [[1, 2, 1], [0, -COUNT]])
    def test_each_record_comes_once(self, paths: list[str], numbers: list[int]) -> None:
        message = f"numbers must name each record once, got record {numbers[0]} twice"
        with pytest.raises(ValueError, match=message):
            make(paths).select(numbers)

    @pytest.mark.parametrize(
        ("numbers", "message"),
        [
            ([True, False], r"got bool \[2\]"),
            ([1.0], r"got float64 \[1\]"),
            (np.ones(COUNT, np.bool_), r"got bool \[50\]"),
            (torch.ones(3), r"got float32 \[3\]"),
            (np.zeros((2, 2), np.int64), r"got int64 \[2, 2\]"),
            (7, r"got int64 \[\]"),
            ("37", r"got <U1 \[2\]"),
        ],
    )
    def test_other_values(self, paths: list[str], numbers: Any, message: str) -> None:
        with pytest.raises(TypeError, match=f"numbers must be integers.*{message}"):
            make(paths).select(numbers)

    def test_of_a_split(self, paths: list[str]) -> None:
        assert ids_of(make(paths, split="[10:20]").select([0, -1])) == [10, 19]
        part, _ = make(paths).split(0.5, 0.5)
        assert ids_of(part.select(range(5))) == ids_of(part)[:5]


class TestTake:
    @given(st.integers(0, 2 * COUNT))
    def test_the_first_records(self, paths: list[str], n: int) -> None:
        first = make(paths, shuffle=True).take(n)
        assert sorted(ids_of(first)) == list(range(min(n, COUNT)))

    @given(numbers_of_records, st.integers(0, COUNT))
    def test_of_selected_records(self, paths: list[str], numbers: list[int], n: int) -> None:
        assert ids_of(make(paths).select(numbers).take(n)) == sorted(numbers)[:n]
        assert ids_of(make(paths).take(n).take(n - 1 if n else 0)) == list(range(max(n - 1, 0)))

    @pytest.mark.parametrize("n", [-1, 1.5, None, True])
    def test_other_values(self, paths: list[str], n: Any) -> None:
        for dataset in (make(paths), tio.TFRecordMapDataset(paths)):
            with pytest.raises(ValueError, match="n must be a non-negative integer, got"):
                dataset.take(n)


class TestMapStyle:
    @given(numbers_of_records)
    def test_random_access(self, paths: list[str], numbers: list[int]) -> None:
        chosen = tio.TFRecordMapDataset(paths, SCHEMA).select(numbers)
        assert len(chosen) == len(numbers)
        assert ids_of(chosen[i] for i in range(len(chosen))) == sorted(numbers)
        assert ids_of(chosen[::-1]) == sorted(numbers, reverse=True)
