"""Parts of a dataset: random splits, splits by group, and slices."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, record, write_files
from tests.support.tfrecord import write_tfrecord

SIZES = [60, 0, 17, 23]
COUNT = sum(SIZES)


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 7, **options})


# ---- random splits ----


def test_disjoint_and_exhaustive(paths: list[str]) -> None:
    train, validation, test = make(paths).split(0.8, 0.1, 0.1, seed=0)
    parts = [numbers_of(part) for part in (train, validation, test)]
    assert [len(part) for part in parts] == [80, 10, 10]
    assert sorted(itertools.chain(*parts)) == list(range(COUNT))
    assert all(part == sorted(part) for part in parts)  # records are read in the order of the files
    assert [part.num_records for part in (train, validation, test)] == [80, 10, 10]
    assert len(train) == 12


def test_split_does_not_depend_on_the_order_or_folder_of_the_files(
    paths: list[str], tmp_path: Path
) -> None:
    moved = [shutil.copy(path, tmp_path) for path in paths[::-1]]
    for seed in range(5):
        there = make(moved).split(0.5, 0.3, 0.2, seed=seed)
        here = make(paths).split(0.5, 0.3, 0.2, seed=seed)
        assert [set(numbers_of(part)) for part in there] == [set(numbers_of(part)) for part in here]


def test_seeds_and_shuffles(paths: list[str]) -> None:
    first = make(paths, shuffle=True).split(0.5, 0.5, seed=1)[0]
    assert sorted(numbers_of(first)) == numbers_of(first.replace(shuffle=False))
    assert sorted(numbers_of(first)) == numbers_of(make(paths, seed=9).split(0.5, 0.5, seed=1)[0])
    assert sorted(numbers_of(first)) != numbers_of(make(paths).split(0.5, 0.5, seed=2)[0])
    assert numbers_of(first) != numbers_of(first.replace(seed=1))


def test_state_of_another_part_is_rejected(paths: list[str]) -> None:
    first, second = make(paths).split(0.5, 0.5)
    with pytest.raises(tio.StateMismatchError, match="split is"):
        second.load_state_dict(first.state_dict())


def test_empty_part_is_logged_and_yields_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = write_files(tmp_path, [3])
    train, test = make(path).split(0.9, 0.1)
    assert "the part 0.1 of a split of 3 records is empty" in caplog.text
    assert numbers_of(train) == [0, 1, 2]
    assert numbers_of(test) == []
    assert len(test) == 0
    assert list(test.replace(epochs=None, shuffle=True)) == []
    loader = DataLoader(test, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert list(loader) == []


# ---- groups: of records whose ids have the same last digit ----


def test_groups_stay_whole(paths: list[str]) -> None:
    parts = [
        set(numbers_of(part))
        for part in make(paths).split(0.6, 0.4, group_by=lambda sample: sample["id"] % 10)
    ]
    assert set().union(*parts) == set(range(COUNT))
    assert not parts[0] & parts[1]
    assert [len(part) for part in parts] == [60, 40]
    assert all(len({n % 10 for n in part}) == len(part) / 10 for part in parts)


@pytest.mark.parametrize(
    "key",
    [
        lambda n: int(n) % 10,
        lambda n: str(int(n) % 10),
        lambda n: b"%d" % (int(n) % 10),
        lambda n: (n % 10, "x"),
        lambda n: (n % 10).numpy(),
        lambda n: float(n % 10),
    ],
)
def test_types_of_keys_of_groups(paths: list[str], key: Any) -> None:
    first, second = make(paths).split(0.5, 0.5, group_by=lambda sample: key(sample["id"]))
    assert {n % 10 for n in numbers_of(first)}.isdisjoint(n % 10 for n in numbers_of(second))
    assert len(first.replace(batch_size=None)) == 50


def test_equal_keys_form_one_group(paths: list[str]) -> None:
    kinds: Any = itertools.cycle([int, float, np.int64, bool])
    parts = make(paths).split(0.5, 0.5, group_by=lambda item: next(kinds)(item["id"] % 2))
    assert {n % 2 for n in numbers_of(parts[0])}.isdisjoint(n % 2 for n in numbers_of(parts[1]))


def test_bytes_without_a_schema(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths)
    parts = dataset.split(0.5, 0.5, group_by=len)
    lengths = [{len(data) for data in part} for part in parts]
    assert lengths[0].isdisjoint(lengths[1])
    assert sum(map(len, parts)) == COUNT


def test_keys_are_compared_by_value(paths: list[str]) -> None:
    with pytest.raises(TypeError, match="the key of a group must be"):
        make(paths).split(0.5, 0.5, group_by=lambda _: object())


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.tfrecord")
    write_tfrecord(path, [b"\xff" if i == 3 else record(i) for i in range(20)])

    def key(sample: Any) -> int:
        return int(sample["id"]) % 5

    with pytest.raises(tio.DecodeError):
        make(path).split(0.5, 0.5, group_by=key)
    parts = make(path, on_error="skip").split(0.5, 0.5, group_by=key)
    assert sorted(numbers_of(parts[0]) + numbers_of(parts[1])) == [i for i in range(20) if i != 3]


def test_split_of_a_slice(paths: list[str]) -> None:
    parts = make(paths, split="[20:70]").split(0.5, 0.5)
    assert sorted(numbers_of(parts[0]) + numbers_of(parts[1])) == list(range(20, 70))
    again = parts[0].split(0.8, 0.2)
    assert sorted(numbers_of(again[0]) + numbers_of(again[1])) == numbers_of(parts[0])
