"""Tests of page-locked memory of a GPU, in which a batch is one allocation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.every_kind import SCHEMA, contents, make_batch, record, tensors_of
from tests.support.tfrecord import write_tfrecord

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


@pytest.fixture
def dataset(tmp_path: Path) -> tio.TFRecordDataset:
    path = write_tfrecord(tmp_path / "a.tfrecord", [record(i) for i in range(10)])
    return tio.TFRecordDataset(path, SCHEMA, batch_size=4)


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
