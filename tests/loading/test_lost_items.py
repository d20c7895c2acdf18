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
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.datasets import SCHEMA, write_files

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


def plain(dataset: Any, **options: Any) -> Any:
    return DataLoader(dataset, batch_size=None, num_workers=2, **options)


def made(dataset: Any, **options: Any) -> Any:
    return tio.make_loader(dataset, num_workers=2, **options)


def stateful(dataset: Any) -> Any:
    return StatefulDataLoader(dataset, batch_size=None, num_workers=2)


def sample_with_lock(sample: Any) -> Any:
    return threading.Lock() if sample["id"] == 500 else sample["id"]


def list_with_lock(samples: Any) -> Any:
    return [sample_with_lock(sample) for sample in samples]


class Unpicklable:
    """Raises the error that the thread of a queue takes for an empty queue."""

    def __reduce__(self) -> Any:
        raise IndexError("not there")


def sample_with_index_error(sample: Any) -> Any:
    return Unpicklable() if sample["id"] == 500 else sample["id"]


SENT: dict[str, Any] = {"multiprocessing_context": "forkserver"}


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # of torchdata
@pytest.mark.parametrize(
    ("kind", "transform", "load", "options"),
    [
        (tio.TFRecordDataset, with_lock, plain, {}),
        (tio.TFRecordDataset, with_lock, made, SENT),
        (tio.TFRecordDataset, with_grad, plain, SENT),
        (tio.TFRecordDataset, with_grad, made, {}),
        (tio.TFRecordDataset, with_lock, stateful, {}),
        (tio.TFRecordDataset, None, made, {"collate_fn": with_lock}),
        (tio.TFRecordStream, with_lock, made, {}),
    ],
)
def test_batches_that_cannot_be_pickled(
    dataset: tio.TFRecordDataset, kind: Any, transform: Any, load: Any, options: Any
) -> None:
    loader = load(kind(dataset.paths, SCHEMA, batch_size=BATCH, transform=transform), **options)
    reason = "requires_grad" if transform is with_grad else "cannot pickle '_thread.lock'"
    seen = 0
    with pytest.raises(tio.TransformError, match=rf"of this .*worker process.*{reason}") as raised:
        for _ in loader:
            seen += 1
    if kind is tio.TFRecordDataset:
        assert "item 62 of this iteration" in str(raised.value)
        assert seen == 62


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # of torchdata
@pytest.mark.parametrize(
    ("kind", "transform", "load", "options"),
    [
        (tio.TFRecordDataset, sample_with_lock, plain, {}),
        (tio.TFRecordDataset, sample_with_index_error, plain, {}),
        # That of a StatefulDataLoader, whose messages have another shape.
        (tio.TFRecordDataset, sample_with_index_error, made, {}),
        (tio.TFRecordMapDataset, sample_with_lock, plain, {"timeout": 20}),
        (tio.TFRecordMapDataset, None, made, {"batch_size": BATCH, "collate_fn": list_with_lock}),
    ],
)
def test_samples_that_cannot_be_pickled(
    dataset: tio.TFRecordDataset, kind: Any, transform: Any, load: Any, options: Any
) -> None:
    samples = kind(dataset.paths, SCHEMA, transform=transform, with_key=transform is not None)
    with pytest.raises(tio.TransformError, match="cannot be sent from a worker process"):
        list(load(samples, **options))


def test_a_part_of_a_map_style_dataset(dataset: tio.TFRecordDataset) -> None:
    whole = tio.TFRecordMapDataset(dataset.paths, SCHEMA, transform=sample_with_lock)
    part = Subset(whole, range(400, COUNT))
    with pytest.raises(tio.TransformError, match="cannot be sent"):
        list(DataLoader(part, BATCH, num_workers=2, collate_fn=list, timeout=20, **SENT))


def test_a_worker_goes_on_after_it(dataset: tio.TFRecordDataset) -> None:
    loader = tio.make_loader(dataset.replace(transform=with_lock), num_workers=2)
    for _ in range(2):  # epochs of the same workers
        items = iter(loader)
        assert [len(next(items)["id"]) for _ in range(62)] == [BATCH] * 62
        with pytest.raises(tio.TransformError, match="item 62 of this iteration"):
            next(items)


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
load = getattr(tests, sys.argv[1])
dataset = tio.TFRecordDataset(sys.argv[2], tests.SCHEMA, batch_size=8)
assert len(list(load(dataset))) == 125  # a Batch needs no /dev/shm
try:
    list(load(dataset.replace(transform=tests.large)))
except tio.TransformError as error:
    assert "No space left on device" in str(error), error
else:
    raise AssertionError("batches were lost")
"""


def new_namespace() -> list[str]:
    """Return a command that can mount private file systems."""
    mount = 'mount -t tmpfs none "$0"'
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        tried = [*command, "sh", "-c", mount, "/mnt"]
        try:
            if subprocess.run(tried, check=False, capture_output=True, timeout=20).returncode == 0:
                return command
        except FileNotFoundError:
            break
    pytest.skip("no file system can be mounted here, neither by root nor in a user namespace")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/shm")
@pytest.mark.parametrize("load", [plain, made])
def test_a_small_shared_memory(dataset: tio.TFRecordDataset, load: Any) -> None:
    mount = 'mount -t tmpfs -o size=20m none /dev/shm && exec "$0" "$@"'
    command = [*new_namespace(), "sh", "-c", mount, sys.executable, "-c", _SMALL_SHM]
    done = subprocess.run(
        [*command, load.__name__, *dataset.paths],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
