"""Resources over many epochs, which must stay constant after the first few."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io import _core

EARLY, LATE = 5, 50
RECORDS, BATCH = 24, 4
SLACK = defaultdict(lambda: 8, kept=1 << 21)
VALUES = 3000  # so that batches are sent in slots, and their memory is reused
SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "x": tio.FixedLenFeature([VALUES], "int64"),
    "tokens": tio.VarLenFeature("int64"),
    "name": tio.FixedLenFeature([], "string"),
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "data"
    records = [
        example_of(id=[n], x=[n] * VALUES, tokens=[n] * (n % 5), name=[b"%d" % n])
        for n in range(RECORDS)
    ]
    write_tfrecord(path, records)
    return str(path)


def held_by(pid: int) -> dict[str, int]:
    """Return the system resources of a process."""
    process = Path(f"/proc/{pid}")
    return {
        "files": len(os.listdir(process / "fd")),
        "threads": len(os.listdir(process / "task")),
        "slots": (process / "maps").read_text().count("memfd:torchrec_io_slot"),
        "shared": (process / "maps").read_text().count(" /dev/shm/"),
    }


def held_here() -> dict[str, int]:
    """Return the resources of this process, including objects and memory for batches."""
    objects = gc.get_objects()
    return {
        **held_by(os.getpid()),
        "batches": sum(type(each) is tio.Batch for each in objects),
        "tensors": sum(issubclass(type(each), torch.Tensor) for each in objects),
        "errors": sum(issubclass(type(each), BaseException) for each in objects),
        "kept": _core.kept_bytes(),
    }


def held_by_all() -> dict[str, int]:
    gc.collect()  # ends workers of loops that nobody holds
    workers = sorted(child.pid or 0 for child in multiprocessing.active_children())
    held = held_here()
    for number, pid in enumerate(workers):
        held |= {f"{name} of worker {number}": count for name, count in held_by(pid).items()}
    return held


def check_flat(epoch: Callable[[], None]) -> None:
    """Check that resources do not grow with the number of epochs."""
    for _ in range(EARLY):
        epoch()
    early = held_by_all()
    for _ in range(LATE - EARLY):
        epoch()
    late = held_by_all()
    assert late.keys() == early.keys()
    grown = {name: (early[name], count) for name, count in late.items() if count > early[name]}
    # The number of concurrent batches and threads varies.
    assert {name for name, (was, now) in grown.items() if now - was > SLACK[name]} == set(), grown


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_size", [BATCH, pytest.param(None, marks=pytest.mark.slow)])
def test_epochs_in_this_process(path: str, threads: int, batch_size: int | None) -> None:
    dataset = tio.TFRecordDataset(
        path, SCHEMA, batch_size=batch_size, shuffle=True, num_threads=threads
    )
    numbers: list[int] = []

    def epoch() -> None:
        dataset.set_epoch(len(numbers) // RECORDS)
        for item in dataset:
            numbers.extend(item["id"].reshape(-1).tolist())
            assert item["x"].shape[-1] == VALUES

    check_flat(epoch)
    assert sorted(numbers) == sorted([*range(RECORDS)] * (len(numbers) // RECORDS))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_epochs_with_persistent_workers(path: str, method: str) -> None:
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, shuffle=True)
    loader: Any = DataLoader(
        dataset,
        batch_size=None,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=method,
    )
    counts: list[int] = []

    def epoch() -> None:
        dataset.set_epoch(len(counts))
        numbers = [number for batch in loader for number in batch["id"].tolist()]
        assert sorted(numbers) == list(range(RECORDS))
        counts.append(len(numbers))

    check_flat(epoch)


def test_epochs_with_invalid_records(path: str) -> None:
    """Raised and reported errors keep no resources."""
    ranged = {**SCHEMA, "id": tio.FixedLenFeature([], "int64", valid_range=(0, RECORDS - 3))}
    raising = tio.TFRecordDataset(path, ranged, batch_size=BATCH)
    skipping = raising.replace(on_error=str)  # not "skip": pytest keeps log records

    def epoch() -> None:
        with pytest.raises(tio.DecodeError, match="valid range"):
            list(raising)
        assert sum(len(batch["id"]) for batch in skipping) == RECORDS - 2

    check_flat(epoch)
