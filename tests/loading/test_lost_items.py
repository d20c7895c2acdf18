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
from torch.utils.data import DataLoader, get_worker_info

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


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize(
    "start", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("transform", [with_lock, with_grad])
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
    with pytest.raises(tio.TransformError, match="item 62 of this iteration cannot be sent"):
        list(tio.make_loader(dataset, num_workers=2, collate_fn=with_lock))
    numbers = tio.TFRecordMapDataset(dataset.paths, SCHEMA)
    loader = tio.make_loader(numbers, batch_size=BATCH, num_workers=2, collate_fn=list_with_lock)
    with pytest.raises(tio.TransformError, match="item 62 of this iteration cannot be sent"):
        list(loader)


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
path = sys.argv[1]
dataset = tio.TFRecordDataset(path, tests.SCHEMA, batch_size=8)
assert len(list(tests.make(dataset, is_plain=False))) == 125  # a Batch needs no /dev/shm
for is_plain in (False, True):
    try:
        list(tests.make(dataset.replace(transform=tests.large), is_plain=is_plain))
    except tio.TransformError as error:
        assert "No space left on device" in str(error), error
    else:
        raise AssertionError("batches were lost")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/shm")
def test_a_small_shared_memory(dataset: tio.TFRecordDataset) -> None:
    mount = 'mount -t tmpfs -o size=20m none /dev/shm && exec "$0" "$@"'
    command = [*new_namespace(), "sh", "-c", mount, sys.executable, "-c", _SMALL_SHM]
    done = subprocess.run(
        [*command, *dataset.paths],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
