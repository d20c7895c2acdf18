"""Tests of batches, page-locked memory and copies ahead that need a CUDA device."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, write_files
from tests.support.every_kind import SCHEMA as EVERY_KIND
from tests.support.every_kind import contents, make_batch, record, tensors_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._tensors import device as device_module

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, [13, 0, 7])


@pytest.fixture
def dataset(tmp_path: Path) -> tio.TFRecordDataset:
    path = write_tfrecord(tmp_path / "a.tfrecord", [record(i) for i in range(10)])
    return tio.TFRecordDataset(path, EVERY_KIND, batch_size=4)


@pytest.mark.parametrize("non_blocking", [False, True])
def test_moving_a_batch_to_a_device_and_back(non_blocking: bool) -> None:
    batch = tio.pad_collate(make_batch(50).samples())
    moved = batch.pin_memory().to("cuda", non_blocking=non_blocking)
    moved.record_stream(torch.cuda.current_stream())
    assert moved.device.type == "cuda"
    for value in moved.values():
        for tensor in tensors_of(value):
            assert tensor.is_cuda
            assert tensor.untyped_storage().data_ptr() == moved.arena.data_ptr()
    assert contents(moved) == contents(batch)
    assert contents(moved.to("cpu")) == contents(batch)
    assert moved.lengths["tokens"].tolist() == batch.lengths["tokens"].tolist()
    assert [sample["name"] for sample in moved.samples()] == batch["name"].tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_pins_whole_batches(dataset: tio.TFRecordDataset, workers: int) -> None:
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        pin_memory=True,
        multiprocessing_context="spawn" if workers else None,
    )
    labels = []
    for batch in loader:
        assert isinstance(batch, tio.Batch)
        assert batch.is_pinned()
        labels += batch.to("cuda", non_blocking=True)["id"].tolist()
    assert labels == list(range(10))


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_batches_are_whole_on_a_busy_device(depth: int) -> None:
    batches = [make_batch(50, first=50 * i) for i in range(20)]
    busy = torch.randn(2000, 2000, device="cuda")
    sums = []
    for batch in tio.DevicePrefetcher(batches, "cuda", depth):
        assert batch["id"].is_cuda
        for _ in range(10):
            busy = (busy @ busy).clamp(-1, 1)
        sums.append(batch["id"].sum() + batch["tokens"].values.sum())
        del batch  # its memory may be had by the next copy, once the sums are made
    expected = [int(batch["id"].sum() + batch["tokens"].values.sum()) for batch in batches]
    assert [int(each) for each in sums] == expected


def test_later_epochs_use_the_same_memory() -> None:
    """PyTorch has 32 streams, and keeps memory for each."""
    batches = [make_batch(50, first=50 * i) for i in range(20)]
    reserved = []
    for _ in range(10):
        assert sum(batch["id"].is_cuda for batch in tio.DevicePrefetcher(batches, "cuda")) == 20
        torch.cuda.synchronize()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[-1] == reserved[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_make_loader_feeds_a_gpu(paths: list[str], workers: int) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=3, shuffle=True)
    loader = tio.make_loader(
        dataset,
        num_workers=workers,
        device="cuda",
        multiprocessing_context="spawn" if workers else None,
    )
    assert "page-locked memory: yes" in loader.describe()
    expected = ids_of(tio.make_loader(dataset.replace()))
    seen, states = [], []
    for batch in loader:
        assert batch.device.type == "cuda"
        seen.append(batch["id"].tolist())
        states.append(loader.state_dict())
    assert seen == expected
    loader.load_state_dict(states[2])
    assert ids_of(loader) == expected[3:]


@pytest.mark.parametrize("workers", [0, 2])
def test_large_batches_are_copied_from_where_they_are_made(tmp_path: Path, workers: int) -> None:
    paths = write_files(tmp_path, [5000])  # arenas that cross in slots
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=200, shuffle=True)
    loader = tio.make_loader(
        dataset,
        num_workers=workers,
        device="cuda",
        multiprocessing_context="spawn" if workers else None,
    )
    for epoch in range(3):
        loader.set_epoch(epoch)
        expected = dataset.replace()
        expected.set_epoch(epoch)
        found = [batch["id"] for batch in loader]
        assert [each.tolist() for each in found] == ids_of(expected)
    with device_module.pinned_arenas(dataset):
        batches = iter(dataset)
    assert all(batch.is_pinned() for batch in batches)


def test_memory_that_is_page_locked_in_place() -> None:
    memory = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
    tensor = torch.from_numpy(memory)
    assert not tensor.is_pinned()
    assert device_module.lock_memory(memory)
    assert tensor.is_pinned()
    assert not device_module.lock_memory(memory)  # it is already
    assert torch.ones(1, device="cuda").item() == 1  # no error is left
    del tensor, memory


def test_collating_into_page_locked_memory() -> None:
    samples = make_batch(6).samples()
    for batch in (tio.pin_collate(samples), tio.pad_collate(samples, pin_memory=True)):
        assert batch.is_pinned()
        assert batch.pin_memory() is batch
        assert tio.pin_memory([batch])[0] is batch
    held = [tio.pin_collate(make_batch(6, first=i).samples()) for i in range(20)]
    moved = [batch.to("cuda", non_blocking=True) for batch in held]
    for i, batch in enumerate(held):
        assert batch["id"].tolist() == list(range(i, i + 6))
    for i, batch in enumerate(moved):
        assert batch["id"].tolist() == list(range(i, i + 6))
