"""States and ranks: one state for all ranks, inherited and copied datasets."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import open_records, record, write_files
from tests.support.tfrecord import write_tfrecord

# torchdata 0.11 causes this warning when it creates a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

COUNT = 24


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("ranks"), [COUNT])


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"batch_size": 2, "uneven": "keep", **options})


def ids_of(items: Any) -> list[Any]:
    return [item["id"].tolist() for item in items]


def flat(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain(*batches))


def load(dataset: Any, workers: int, method: str = "fork", **options: Any) -> DataLoader[Any]:
    return DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=method if workers else None,
        **options,
    )


def share_of_a_rank(dataset: Any, rank: int, results: Any) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    dataset.set_epoch(0)
    results.put((rank, ids_of(dataset), ids_of(load(dataset, 1))))


class TestRanksThatInheritADataset:
    @pytest.mark.parametrize("method", ["fork", "forkserver"])
    @pytest.mark.parametrize("batches", [0, 2])
    def test_each_rank_has_its_partition_and_position(
        self, paths: list[str], method: Any, batches: int
    ) -> None:
        """As with torch.multiprocessing.spawn, only the children know their ranks."""
        context: Any = multiprocessing.get_context(method)
        dataset = make(paths)
        state = make(paths, rank=0, world_size=2)
        state.resume(epoch=0, batches=batches)
        dataset.load_state_dict(state.state_dict())
        results = context.Queue()
        children = [
            context.Process(target=share_of_a_rank, args=(dataset, rank, results))
            for rank in range(2)
        ]
        for child in children:
            child.start()
        found = sorted(results.get(timeout=60) for _ in children)
        for child in children:
            child.join()
        rests = [flat(rest) for _, rest, _ in found]
        assert sorted(flat(rests)) == list(range(4 * batches, COUNT))
        assert sorted(flat([flat(whole) for *_, whole in found])) == list(range(COUNT))


class TestEndlessAndSkipped:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_endless_epochs_that_end_in_a_skipped_record(
        self, tmp_path: Path, workers: int
    ) -> None:
        path = str(tmp_path / "a.tfrecord")
        write_tfrecord(path, [b"\xff" if i == 7 else record(i) for i in range(8)])
        options = {"batch_size": 4, "epochs": None, "on_error": lambda _: None, "drop_last": True}
        dataset = make(path, **options)
        assert ids_of(itertools.islice(load(dataset, workers), 5)) == [[0, 1, 2, 3]] * 5
        iterator = iter(dataset)
        next(iterator)
        other = make(path, **options)
        other.load_state_dict(dataset.state_dict())
        assert ids_of(itertools.islice(other, 3)) == [[0, 1, 2, 3]] * 3


def test_state_beyond_the_end_is_rejected(paths: list[str]) -> None:
    state = make(paths).state_dict()
    with pytest.raises(tio.StateMismatchError, match=r"begin must be .* 0 to 24, got 25"):
        make(paths).load_state_dict({**state, "begin": 25})


def test_equal_keys_form_one_group(paths: list[str]) -> None:
    kinds: Any = itertools.cycle([int, float, np.int64, bool])
    first, second = make(paths).split(
        0.5, 0.5, group_by=lambda sample: next(kinds)(int(sample["id"]) % 2)
    )
    assert {n % 2 for n in flat(ids_of(first))}.isdisjoint(n % 2 for n in flat(ids_of(second)))
