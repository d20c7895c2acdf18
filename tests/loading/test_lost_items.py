"""Items that a worker cannot send to the loop are errors, not missing batches."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Subset, get_worker_info

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.datasets import SCHEMA, write_files
from tests.writing.test_endings import new_namespace

COUNT, BATCH = 1000, 8


@pytest.fixture
def dataset(tmp_path: Path) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(write_files(tmp_path, [COUNT]), SCHEMA, batch_size=BATCH)


def with_lock(batch: Any) -> Any:
    return {"id": batch["id"], "lock": threading.Lock() if 500 in batch["id"] else None}


def with_grad(batch: Any) -> Any:
    return {"id": batch["id"].float().requires_grad_() * 2 if 500 in batch["id"] else batch["id"]}


def large(batch: Any) -> Any:
    return {"id": batch["id"], "zeros": torch.zeros(1 << 22)}


def make(dataset: Any, *, is_plain: bool, **options: Any) -> Any:
    if is_plain:
        return DataLoader(dataset, batch_size=None, num_workers=2, **options)
    return tio.make_loader(dataset, num_workers=2, **options)


@pytest.mark.parametrize(
    ("transform", "start", "is_plain"),
    [
        (with_lock, "fork", True),
        (with_lock, "forkserver", False),
        (with_grad, "fork", False),
        (with_grad, "forkserver", True),
    ],
)
def test_a_result_that_cannot_be_pickled(
    dataset: tio.TFRecordDataset, transform: Any, start: str, is_plain: bool
) -> None:
    loader = make(
        dataset.replace(transform=transform), is_plain=is_plain, multiprocessing_context=start
    )
    reason = "cannot pickle '_thread.lock'" if transform is with_lock else "requires_grad"
    seen = 0
    with pytest.raises(tio.TransformError, match=rf"item 62 of this .*worker process.*{reason}"):
        for _ in loader:
            seen += 1
    assert seen == 62


def test_what_a_collate_fn_returns(dataset: tio.TFRecordDataset) -> None:
    numbers = tio.TFRecordMapDataset(dataset.paths, SCHEMA)
    for loader in (
        tio.make_loader(dataset, num_workers=2, collate_fn=with_lock),
        tio.make_loader(numbers, batch_size=BATCH, num_workers=2, collate_fn=list_with_lock),
    ):
        with pytest.raises(tio.TransformError, match="item 62 of this iteration cannot be sent"):
            list(loader)


def sample_with_lock(sample: Any) -> Any:
    return threading.Lock() if sample["id"] == 500 else sample["id"]


class Unpicklable:
    """Raises the error that the thread of a queue takes for an empty queue."""

    def __reduce__(self) -> Any:
        raise IndexError("not there")


def sample_with_index_error(sample: Any) -> Any:
    return Unpicklable() if sample["id"] == 500 else sample["id"]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # of torchdata
@pytest.mark.parametrize(
    ("transform", "with_key", "is_plain"),
    [
        (sample_with_lock, False, False),
        (sample_with_lock, True, True),
        (sample_with_index_error, False, True),
        (sample_with_index_error, True, False),
    ],
)
def test_samples(
    dataset: tio.TFRecordDataset, transform: Any, with_key: bool, is_plain: bool
) -> None:
    """Without is_plain, these are of a StatefulDataLoader, whose messages have another shape."""
    samples = tio.TFRecordDataset(dataset.paths, SCHEMA, transform=transform, with_key=with_key)
    with pytest.raises(tio.TransformError, match="cannot be sent from a worker process"):
        list(make(samples, is_plain=is_plain))


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # of torchdata
def test_loaders_of_torchdata(dataset: tio.TFRecordDataset) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    given = dataset.replace(transform=with_lock)
    stream = tio.TFRecordStream(dataset.paths, SCHEMA, batch_size=BATCH, transform=with_lock)
    for loader in (
        stateful(given, batch_size=None, num_workers=2),
        tio.make_loader(given.replace(on_error="skip"), num_workers=2),
        tio.make_loader(stream, num_workers=1),
    ):
        with pytest.raises(tio.TransformError, match="item 62 of this iteration"):
            list(loader)


@pytest.mark.parametrize(("start", "is_subset"), [("fork", False), ("forkserver", True)])
def test_map_style_datasets(dataset: tio.TFRecordDataset, start: str, is_subset: bool) -> None:
    given: Any = tio.TFRecordMapDataset(dataset.paths, SCHEMA, transform=sample_with_lock)
    given = Subset(given, range(400, COUNT)) if is_subset else given
    for batch_size in (None, BATCH):
        loader = DataLoader(
            given,
            batch_size=batch_size,
            num_workers=2,
            collate_fn=list if batch_size else None,
            timeout=20,
            multiprocessing_context=start,
        )
        with pytest.raises(tio.TransformError, match="cannot be sent"):
            list(loader)


def test_a_worker_goes_on_after_it(dataset: tio.TFRecordDataset) -> None:
    loader = tio.make_loader(dataset.replace(transform=with_lock), num_workers=2)
    for _ in range(2):  # epochs of the same workers
        items = iter(loader)
        assert [len(next(items)["id"]) for _ in range(62)] == [BATCH] * 62
        with pytest.raises(tio.TransformError, match="item 62 of this iteration"):
            next(items)


def list_with_lock(samples: Any) -> Any:
    return [threading.Lock() if sample["id"] == 500 else sample["id"] for sample in samples]


class Losing(tio.TFRecordDataset):
    """A dataset whose workers lose an item, as no known fault does."""

    def __iter__(self) -> Iterator[Any]:
        items = super().__iter__()
        if get_worker_info() is not None:
            next(items)
        return items


def test_make_loader_counts_batches(dataset: tio.TFRecordDataset) -> None:
    loader = tio.make_loader(Losing(dataset.paths, SCHEMA, batch_size=BATCH), num_workers=2)
    with pytest.raises(RuntimeError, match="ended after 123 items of 125, before the last"):
        list(loader)


_SMALL_SHM = """
import sys
import torchrec_io as tio
from tests.loading import test_lost_items as tests
is_plain = sys.argv[1] == "True"
dataset = tio.TFRecordDataset(sys.argv[2], tests.SCHEMA, batch_size=8)
assert len(list(tests.make(dataset, is_plain=is_plain))) == 125  # a Batch needs no /dev/shm
try:
    list(tests.make(dataset.replace(transform=tests.large), is_plain=is_plain))
except tio.TransformError as error:
    assert "No space left on device" in str(error), error
else:
    raise AssertionError("batches were lost")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/shm")
@pytest.mark.parametrize("is_plain", [False, True])
def test_a_small_shared_memory(dataset: tio.TFRecordDataset, is_plain: bool) -> None:
    mount = 'mount -t tmpfs -o size=20m none /dev/shm && exec "$0" "$@"'
    command = [*new_namespace(), "sh", "-c", mount, sys.executable, "-c", _SMALL_SHM]
    done = subprocess.run(
        [*command, str(is_plain), *dataset.paths],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
