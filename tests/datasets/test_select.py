"""Datasets of records that are selected by number: ``select`` and ``take``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

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

    @pytest.mark.parametrize(
        "shuffle",
        [True, 9, tio.Shuffle(block=3, window=9), tio.Shuffle(block=3, window=9, lanes=2)],
        ids=str,
    )
    def test_all_else_is_as_before(self, paths: list[str], shuffle: Any) -> None:
        chosen = make(paths, shuffle=shuffle, seed=3, with_key=True).select(range(0, COUNT, 3))
        expected = list(range(0, COUNT, 3))
        epochs = [[number for _, batch in chosen for number in batch["id"].tolist()]] * 2
        assert sorted(epochs[0]) == expected
        train, test = chosen.replace(with_key=False).split(0.5, 0.5)
        assert sorted(ids_of(train) + ids_of(test)) == expected
        chosen.set_epoch(0)
        loader = DataLoader(
            pickle.loads(pickle.dumps(chosen.replace(with_key=False))),
            batch_size=None,
            num_workers=2,
            multiprocessing_context="fork",
        )
        assert ids_of(loader) == epochs[0]

    def test_state_of_other_records_is_rejected(self, paths: list[str]) -> None:
        state = make(paths).select([1, 2, 3]).state_dict()
        make(paths).select([3, 2, 1]).load_state_dict(state)
        for other in (make(paths).select([1, 2, 4]), make(paths).take(3), make(paths)):
            with pytest.raises(tio.StateMismatchError, match="split is"):
                other.load_state_dict(state)

    def test_in_batches_by_length(self, paths: list[str]) -> None:
        chosen = make(paths, batch_tokens=8, length_key="tokens").select(range(0, COUNT, 7))
        assert sorted(ids_of(chosen)) == list(range(0, COUNT, 7))
        assert all(len(batch["tokens"].to_padded().flatten()) <= 8 for batch in chosen)

    def test_in_mixtures(self, paths: list[str]) -> None:
        parts = [make(paths).select([40, 4]), make(paths, shuffle=True).take(3)]
        mixed = tio.mix(parts, weights=[1, 1], stop="all_exhausted")
        assert sorted(ids_of(mixed)) == [0, 1, 2, 4, 40]


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

    def test_the_first_records(self, paths: list[str]) -> None:
        dataset = tio.TFRecordMapDataset(paths, SCHEMA, with_key=True, split="[5:]")
        first = dataset.take(3)
        assert [(key, int(sample["id"])) for key, sample in first[:]] == [
            (key, int(sample["id"])) for key, sample in dataset[:3]
        ]
        assert len(dataset) == COUNT - 5
        assert repr(first).startswith(
            f"TFRecordMapDataset(4 files in {str(Path(paths[0]).parent)!r}"
        )
        assert "3 of 50 records" in repr(first)

    def test_states_of_loaders(self, paths: list[str]) -> None:
        dataset = tio.TFRecordMapDataset(paths, SCHEMA)
        state = tio.make_loader(dataset.select([1, 2, 3]), batch_size=2).state_dict()
        tio.make_loader(dataset.select([3, 2, 1]), batch_size=2).load_state_dict(state)
        with pytest.raises(tio.StateMismatchError, match="split is"):
            tio.make_loader(dataset.select([1, 2, 4]), batch_size=2).load_state_dict(state)


def test_descriptions(paths: list[str]) -> None:
    chosen = make(paths).select([1, 2])
    assert ", 2 of 50 records, 3 features, " in repr(chosen)
    assert "selected: 2 of 50 records" in tio.make_loader(chosen).describe().splitlines()
    assert "selected" not in tio.make_loader(make(paths)).describe()
    by_number = tio.TFRecordMapDataset(paths, SCHEMA).select([1, 2])
    assert (
        "selected: 2 of 50 records"
        in tio.make_loader(by_number, batch_size=2).describe().splitlines()
    )
