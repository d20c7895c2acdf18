"""TFRecordDataset in DataLoader, with any number of workers and start method."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.tfrecord import write_tfrecord

SIZES = [30, 0, 7, 13]
START_METHODS = ["fork", "forkserver"]


def test_usual_batch_sizes_cause_no_warnings(tmp_path: Path) -> None:
    write_files(tmp_path, [1000])
    dataset = tio.TFRecordDataset(tmp_path, {"id": SCHEMA["id"]})
    for batch_size in (1, 8, 32, 64):
        got = DataLoader(
            dataset, batch_size=batch_size, num_workers=2, multiprocessing_context="fork"
        )
        assert len(list(got)) == len(got)


def test_workers_do_not_build_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent builds the index. A worker that builds one would raise the error below."""
    (path,) = write_files(tmp_path, [9])
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=4)

    def no_scan(*_: object, **__: object) -> None:
        raise AssertionError("built in a worker")

    monkeypatch.setattr(tio.RecordIndex, "build", no_scan)
    got = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert len(list(got)) == 3


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
