"""Tests of batches that are made in page-locked memory and copied from it, on a simulated GPU."""

from __future__ import annotations

import ctypes
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
import torchrec_io._loading.loader  # not first while a test has replaced what it imports
from tests.support.datasets import SCHEMA, write_files
from tests.support.fake_cuda import FakeGpu
from torchrec_io._tensors import device as device_module
from torchrec_io._tensors.arena import allocate_arena
from torchrec_io._tensors.columns import Columns

# PyTorch itself finds no device.
pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")


class Host:
    """A computer with page-locked memory and a simulated GPU.

    Attributes:
        registered: Address and size of memory that is page-locked in place.
        copied: Number of batches that were copied to page-locked memory.
        refuses: Whether no memory can be page-locked in place.
    """

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.registered: dict[int, int] = {}
        self.copied = 0
        self.refuses = False
        self._pinned: dict[int, torch.Tensor] = {}  # never reused here

    def allocate(self, size: int) -> torch.Tensor:
        arena = allocate_arena(size)
        self._pinned[arena.data_ptr()] = arena
        return arena

    def is_pinned(self, batch: tio.Batch) -> bool:
        begin, end = batch.arena.data_ptr(), batch.arena.data_ptr() + batch.arena.numel()
        return begin in self._pinned or any(
            at <= begin and end <= at + size for at, size in self.registered.items()
        )

    def pin(self, batch: tio.Batch) -> tio.Batch:
        if self.is_pinned(batch):
            return batch
        self.copied += 1
        arena = self.allocate(batch.arena.numel()).copy_(batch.arena)
        return tio.Batch(Columns(arena, batch.columns.layout, batch.columns.form))

    def move(self, batch: tio.Batch, device: torch.device) -> Copied:
        assert device == torch.device("cuda", 1)
        assert self.is_pinned(batch)
        copied = Copied(self.gpu)
        # As on a GPU, the copy reads memory that it does not keep.
        address, size = batch.arena.data_ptr(), batch.arena.numel()
        layout, form = batch.columns.layout, batch.columns.form

        def run() -> bool:
            arena = torch.frombuffer(bytearray(ctypes.string_at(address, size)), dtype=torch.uint8)
            copied.batch = tio.Batch(Columns(arena, layout, form))
            return True

        self.gpu.on.todo.append(run)
        return copied

    def register(self, address: int, size: int, flags: int) -> int:
        assert flags == 1  # for all devices
        assert address not in self.registered
        if not self.refuses:
            self.registered[address] = size
        return int(self.refuses)

    def unregister(self, address: int) -> int:
        ctypes.string_at(address, self.registered.pop(address))  # it is still mapped
        return 0


class Copied:
    """A batch on the device, once its copy has run."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.batch: tio.Batch | None = None

    def ids(self) -> list[int]:
        """Return the ids of the records, after all work of the device."""
        self.gpu.finish()
        assert self.batch is not None
        found: list[int] = self.batch["id"].tolist()
        return found


def check_error(code: int) -> None:
    if code:
        raise RuntimeError("CUDA error: out of memory")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(FakeGpu(monkeypatch))
    cudart = types.SimpleNamespace(
        cudaHostRegister=host.register, cudaHostUnregister=host.unregister
    )
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cudart)
    monkeypatch.setattr(torch.cuda, "check_error", check_error)
    monkeypatch.setattr(device_module, "allocate_pinned", host.allocate)
    monkeypatch.setattr(device_module, "_clear_error", lambda: None)
    monkeypatch.setattr(device_module, "move", host.move)
    monkeypatch.setattr(tio.Batch, "pin_memory", lambda batch: host.pin(batch))  # noqa: PLW0108
    return host


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, [700, 300])


def dataset_of(paths: list[str], kind: str) -> Any:
    if kind == "stream":
        return tio.TFRecordStream(paths, SCHEMA, batch_size=200)
    if kind == "mixture":
        parts = [tio.TFRecordDataset(each, SCHEMA) for each in paths]
        return tio.mix(parts, weights=[0.5, 0.5], seed=1, batch_size=100)
    options: dict[str, Any] = {}
    if kind == "packed":
        options = {"pack": tio.Pack(4, key="tokens"), "on_error": "skip"}
    return tio.TFRecordDataset(
        paths, SCHEMA, batch_size=20 if options else 200, shuffle=True, **options
    )


def first_ids(batches: Any, count: int = 5) -> list[list[int]]:
    found = []
    for batch in batches:
        found.append(batch.ids() if isinstance(batch, Copied) else batch["id"].tolist())
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("dataset", "make_loader"),
        ("stream", "make_loader"),
        ("mixture", "make_loader"),
        ("packed", "make_loader"),
        ("dataset", "dataset"),
        ("dataset", "loader"),
        ("dataset", "DataLoader"),
    ],
)
def test_threads_make_batches_in_page_locked_memory(
    paths: list[str], host: Host, kind: str, given: str
) -> None:
    dataset = dataset_of(paths, kind)
    make: Any = {
        "make_loader": lambda: tio.make_loader(dataset, device="cuda"),
        "dataset": lambda: tio.DevicePrefetcher(dataset, "cuda"),
        "loader": lambda: tio.DevicePrefetcher(tio.make_loader(dataset), "cuda"),
        "DataLoader": lambda: tio.DevicePrefetcher(DataLoader(dataset, batch_size=None), "cuda"),
    }[given]
    assert first_ids(make()) == first_ids(dataset_of(paths, kind))
    assert host.copied == 0
    # The dataset alone is as before.
    assert not any(map(host.is_pinned, dataset_of(paths, "dataset")))


def test_page_locked_memory_only_on_request(paths: list[str], host: Host) -> None:
    loader = tio.make_loader(dataset_of(paths, "dataset"), device="cuda", pin_memory=False)
    assert len(first_ids(loader)) == 5
    assert host.copied == 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_of_workers_are_copied_from_their_slots(
    paths: list[str], host: Host, method: str
) -> None:
    dataset = dataset_of(paths, "dataset")
    loader = tio.make_loader(dataset, device="cuda", num_workers=1, multiprocessing_context=method)
    for epoch in range(3):
        loader.set_epoch(epoch)
        # Nothing of the device has run when the loop ends, or begins again.
        copied = list(loader)
        expected = dataset_of(paths, "dataset")
        expected.set_epoch(epoch)
        assert [batch.ids() for batch in copied] == first_ids(expected)
    assert host.copied == 0
    assert 1 <= len(host.registered) <= 8  # once for each slot
    del loader, copied
    assert host.registered == {}


def test_slots_that_cannot_be_page_locked(paths: list[str], host: Host) -> None:
    host.refuses = True
    loader = tio.make_loader(
        dataset_of(paths, "dataset"),
        device="cuda",
        num_workers=1,
        multiprocessing_context="fork",
    )
    assert first_ids(loader) == first_ids(dataset_of(paths, "dataset"))
    assert host.copied == 5


def test_other_batches_of_workers_are_pinned_by_pytorch(paths: list[str], host: Host) -> None:
    """Nobody would know when a copy from a slot ends that a user has started."""
    loader = tio.make_loader(
        dataset_of(paths, "dataset"),
        num_workers=1,
        multiprocessing_context="fork",
        pin_memory=True,
    )
    assert loader._batches.loader.pin_memory
    assert host.registered == {}
