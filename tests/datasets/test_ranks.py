"""Unusual numbers of ranks and workers, and files that change during training."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from torch import distributed
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import numbers_of, open_records, record, write_files
from tests.support.processes import results_at_once
from tests.support.tfrecord import write_tfrecord

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, SIZES)


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"batch_size": 4, "uneven": "keep", **options})


def load(dataset: Any, workers: int, method: str = "fork", **options: Any) -> DataLoader[Any]:
    return DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=method if workers else None,
        **options,
    )


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_use_the_torch_distributed_rank_of_the_parent(
    paths: list[str], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for rank in range(2):
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_rank", lambda rank=rank: rank)
        monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
        seen += numbers_of(load(make(paths, shuffle=True), 1, method))
    assert sorted(seen) == list(range(COUNT))


def share_of_a_rank(dataset: Any, rank: int) -> tuple[list[int], list[int]]:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dataset.set_epoch(0)
    return numbers_of(dataset), numbers_of(load(dataset, 1))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_ranks_that_inherit_a_dataset(paths: list[str], method: Any) -> None:
    """As with torch.multiprocessing.spawn, only the children know their ranks."""
    dataset = make(paths)
    state = make(paths, rank=0, world_size=2)
    state.resume(epoch=0, batches=2)
    dataset.load_state_dict(state.state_dict())
    found = results_at_once(method, share_of_a_rank, [(dataset, rank) for rank in range(2)])
    rests, wholes = (sorted(itertools.chain(*each)) for each in zip(*found, strict=True))
    assert (rests, wholes) == (list(range(16, COUNT)), list(range(COUNT)))


@pytest.mark.parametrize("workers", [0, 2])
def test_endless_epochs_that_end_in_a_skipped_record(tmp_path: Path, workers: int) -> None:
    records = [b"\xff" if number == 7 else record(number) for number in range(8)]
    path = write_tfrecord(tmp_path / "a.tfrecord", records)
    options: dict[str, Any] = {"epochs": None, "on_error": lambda _: None, "drop_last": True}
    dataset = make(path, **options)
    assert numbers_of(itertools.islice(load(dataset, workers), 5)) == [0, 1, 2, 3] * 5
    next(iter(dataset))
    other = make(path, **options)
    other.load_state_dict(dataset.state_dict())
    assert numbers_of(itertools.islice(other, 3)) == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("workers", [0, 5])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_more_workers_than_records(tmp_path: Path, workers: int, batch_size: Any) -> None:
    paths = write_files(tmp_path, [1, 0, 2])
    dataset = make(paths, batch_size=batch_size, shuffle=batch_size == 1, epochs=2)
    items = list(load(dataset, workers))
    assert sorted(n for item in items for n in item["id"].reshape(-1).tolist()) == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    assert len(items) == len(dataset)


@pytest.mark.parametrize(("uneven", "counts"), [
    ("keep", [1, 1, 1, 0, 0]), ("drop", [0] * 5), ("pad", [1] * 5),
])  # fmt: skip
def test_more_ranks_than_records(tmp_path: Path, uneven: Any, counts: list[int]) -> None:
    paths = write_files(tmp_path, [3])
    ranks = [make(paths, rank=rank, world_size=5, uneven=uneven) for rank in range(5)]
    assert [len(numbers_of(rank)) for rank in ranks] == counts
    assert [len(rank) for rank in ranks] == counts


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"epochs": None}, {"stream": True}])
def test_no_records(tmp_path: Path, workers: int, options: Any) -> None:
    paths = write_files(tmp_path, [0, 0])
    dataset = make(paths, **options)
    assert list(load(dataset, workers)) == []
    dataset.load_state_dict(make(paths, **options).state_dict())
    assert list(load(dataset, workers)) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_an_index_replaced_between_epochs(paths: list[str], workers: int) -> None:
    for path in paths:
        tio.RecordIndex.build(path).save()
    dataset = make(paths)
    loader = load(dataset, workers)
    assert numbers_of(loader) == list(range(COUNT))
    other = write_tfrecord(paths[0] + ".other", [record(i) for i in range(3)])
    tio.RecordIndex.build(other).save(paths[0] + ".tfidx")
    assert numbers_of(loader) == list(range(COUNT))  # by the index that was read
