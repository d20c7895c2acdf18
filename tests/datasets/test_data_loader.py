"""TFRecordDataset in DataLoader, with any number of workers and start method."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.loading import error_of
from tests.support.tfrecord import write_tfrecord

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)
# "spawn" pickles the dataset as "forkserver" does, and takes longer: one test has it.
START_METHODS = ["fork", "forkserver"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("loader"), SIZES)


def loader(dataset: Any, **options: Any) -> DataLoader[Any]:
    if options.get("num_workers", 0) == 0:
        options.pop("multiprocessing_context", None)
    return DataLoader(dataset, **options)


def ids_of(batches: Any) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


class TestEachRecordOnce:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
    def test_batches_for_any_start_method(self, paths: list[str], method: str) -> None:
        dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True, seed=2)
        own = dataset.replace()
        got = loader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
        for _ in range(2):
            assert ids_of(got) == ids_of(own)

    @pytest.mark.parametrize(("workers", "shuffle"), [(0, True), (3, False), (5, True)])
    def test_samples(self, paths: list[str], workers: int, shuffle: bool) -> None:
        dataset = tio.TFRecordDataset(paths, SCHEMA, shuffle=shuffle)
        with warnings.catch_warnings():
            # Each worker's last batch may be short, so there are more than DataLoader expects.
            warnings.filterwarnings("ignore", "Length of IterableDataset", UserWarning)
            batches = list(
                loader(
                    dataset,
                    batch_size=4,
                    num_workers=workers,
                    multiprocessing_context="fork",
                    collate_fn=tio.collate,
                )
            )
        assert sorted(i for batch in ids_of(batches) for i in batch) == list(range(COUNT))
        names = [name for batch in batches for name in batch["name"].tolist()]
        assert sorted(names) == sorted(b"record %d" % i for i in range(COUNT))

    @pytest.mark.parametrize("method", START_METHODS)
    def test_bytes_samples_for_any_start_method(self, paths: list[str], method: str) -> None:
        dataset = tio.TFRecordDataset(paths)
        got = loader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
        assert sorted(got) == sorted(dataset)

    def test_epochs_and_persistent_workers_follow_set_epoch(self, paths: list[str]) -> None:
        dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True)
        got = loader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
        orders = []
        for epoch in range(3):
            dataset.set_epoch(epoch)
            orders.append(ids_of(got))
            dataset.set_epoch(epoch)
            assert orders[-1] == ids_of(dataset)
        assert orders[0] != orders[1] != orders[2]

    def test_default_collate(self, paths: list[str]) -> None:
        fixed = {"id": SCHEMA["id"], "name": SCHEMA["name"]}
        batches = list(DataLoader(tio.TFRecordDataset(paths, fixed), batch_size=16))
        assert ids_of(batches) == [list(range(i, min(i + 16, COUNT))) for i in range(0, COUNT, 16)]
        assert batches[0]["name"][3] == b"record 3"

    def test_usual_batch_sizes_cause_no_warnings(self, tmp_path: Path) -> None:
        write_files(tmp_path, [1000])
        dataset = tio.TFRecordDataset(tmp_path, {"id": SCHEMA["id"]})
        for batch_size in (1, 8, 32, 64):
            got = loader(
                dataset, batch_size=batch_size, num_workers=2, multiprocessing_context="fork"
            )
            assert len(list(got)) == len(got)


class TestBatchCrosses:
    @pytest.mark.parametrize(
        ("size", "method"), [(1, "fork"), (1000, "fork"), (1000, "forkserver")]
    )  # small batches are sent inline, large ones as a storage
    def test_from_a_worker(self, tmp_path: Path, method: str, size: int) -> None:
        write_files(tmp_path, [3 * size])
        schema = {**SCHEMA, "wide": tio.FixedLenFeature([64], "int64", default_value=range_64())}
        dataset = tio.TFRecordDataset(tmp_path, schema, batch_size=size)
        batches = list(
            loader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method)
        )
        for batch, expected in zip(batches, dataset, strict=True):
            assert isinstance(batch, tio.Batch)
            assert batch["tokens"].tolist() == expected["tokens"].tolist()
            assert batch["name"].tolist() == expected["name"].tolist()
            assert torch.equal(batch["wide"], expected["wide"])
            assert batch["id"].untyped_storage().data_ptr() == batch.arena.data_ptr()

    def test_pad_collate_in_a_worker(self, paths: list[str]) -> None:
        dataset = tio.TFRecordDataset(paths, SCHEMA)
        (batch, *_) = loader(dataset, batch_size=10, num_workers=1, collate_fn=tio.pad_collate)
        assert batch["tokens"].shape == (10, 4)
        assert batch.lengths["tokens"].tolist() == [i % 5 for i in range(10)]


def range_64() -> list[int]:
    return list(range(64))


class TestErrors:
    @pytest.fixture
    def damaged(self, tmp_path: Path) -> str:
        (path,) = write_files(tmp_path, [20])
        content = bytearray(Path(path).read_bytes())
        content[-5] ^= 1
        Path(path).write_bytes(content)
        return path

    @pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("forkserver", 1)])
    def test_error_in_a_worker_reaches_the_parent_with_its_location(
        self, damaged: str, method: str, workers: int
    ) -> None:
        dataset = tio.TFRecordDataset(damaged, SCHEMA, batch_size=4)
        error = error_of(
            loader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=method)
        )
        assert isinstance(error, tio.CorruptRecordError)
        assert (error.path, error.record) == (damaged, 19)
        assert error.offset is not None
        assert damaged in str(error)
        assert f"offset {error.offset}" in str(error)

    def test_skipped_counts_errors_of_workers(self, damaged: str) -> None:
        dataset = tio.TFRecordDataset(damaged, SCHEMA, batch_size=4, on_error="skip")
        got = loader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert sum(len(batch["id"]) for batch in got) == 19
        assert dataset.skipped == 1


def test_workers_do_not_build_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent builds the index. A worker that builds one would raise the error below."""
    (path,) = write_files(tmp_path, [9])
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=4)

    def no_scan(*_: object, **__: object) -> None:
        raise AssertionError("built in a worker")

    monkeypatch.setattr(tio.RecordIndex, "build", no_scan)
    got = loader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert len(list(got)) == 3


def test_no_shared_memory_remains(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
    iterator: Any = iter(
        loader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    )
    pids = {str(pid) for pid in (os.getpid(), *(worker.pid for worker in iterator._workers))}
    list(iterator)
    # Names are torch_PID_...; other tests may run at the same time.
    left = [name for name in os.listdir("/dev/shm") if pids & set(name.split("_"))]
    assert left == []


class FrozenObjects(tio.TFRecordDataset):
    """Yields the number of objects that the garbage collector of the process leaves out."""

    def __iter__(self) -> Iterator[Any]:
        for _ in super().__iter__():
            yield gc.get_freeze_count()


@pytest.mark.parametrize("method", START_METHODS)
def test_workers_do_not_collect_the_objects_that_they_start_with(
    tmp_path: Path, method: str
) -> None:
    """A collection would copy the memory that forked workers share with their parent."""
    path = write_tfrecord(tmp_path / "a.tfrecord", [b"1", b"2"])
    before = gc.get_freeze_count()
    dataset = FrozenObjects(path)
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=None,
        num_workers=1,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    first, second = list(loader), list(loader)
    assert min(first) > 10_000
    assert max(second) <= max(first)  # the second iteration excludes no further objects
    list(dataset)
    # Only in workers. Some of the objects may be gone by now.
    assert gc.get_freeze_count() <= before
