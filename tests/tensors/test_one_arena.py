"""Tests that all columns stay views of one storage, wherever a batch is sent."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.data import _utils, default_collate

import torchrec_io as tio
from tests.support.every_kind import all_tensors, contents, make_batch, plain
from torchrec_io._tensors import device as device_module


def storages_of(batch: tio.Batch) -> set[int]:
    tensors = [batch.arena, *all_tensors(batch)]
    return {tensor.untyped_storage()._cdata for tensor in tensors}


@pytest.fixture
def fake_pinning(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Stands in for page-locked memory; lists the tensors that were put there."""
    pinned: list[Tensor] = []

    def pin_tensor(self: Tensor) -> Tensor:
        pinned.append(self)
        return self.clone()

    monkeypatch.setattr(Tensor, "pin_memory", pin_tensor)
    return pinned


WAYS: dict[str, Callable[[tio.Batch], tio.Batch]] = {
    "collated": lambda batch: tio.collate(batch.samples()),
    "padded": tio.pad_collate,
    "padded, as samples": lambda batch: tio.pad_collate(batch.samples()),
    "pinned": lambda batch: batch.pin_memory(),
    "pinned by DataLoader": _utils.pin_memory.pin_memory,
    "pin_collate": lambda batch: tio.pin_collate(batch.samples()),
    "pickled": lambda batch: pickle.loads(pickle.dumps(batch)),
    "copied": copy.copy,
    "copied deeply": copy.deepcopy,
    "moved": lambda batch: batch.to("meta"),
    "moved by a prefetcher": lambda batch: next(iter(tio.DevicePrefetcher([batch], "meta"))),
}


@pytest.mark.usefixtures("fake_pinning")
@pytest.mark.parametrize("way", WAYS)
def test_one_storage_after_each_copy(way: str) -> None:
    batch = make_batch()
    there = WAYS[way](batch)
    assert isinstance(there, tio.Batch)
    assert len(storages_of(there)) == 1
    assert list(there) == list(batch)
    assert len(all_tensors(there)) >= 20
    if there.device.type == "cpu":
        expected = batch if "padded" not in way else tio.pad_collate(batch.samples())
        assert contents(there) == contents(expected)
    else:
        shapes = [(tensor.shape, tensor.dtype) for tensor in all_tensors(batch)]
        assert [(tensor.shape, tensor.dtype) for tensor in all_tensors(there)] == shapes


# ---- pinning ----


def test_pinning_data_of_every_form(
    fake_pinning: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = make_batch()
    data = {"batch": batch, "rows": [batch["tokens"], (batch["name"], b"x")], "n": 1}
    if not torch.cuda.is_available():
        assert tio.pin_memory(data) is data
        assert fake_pinning == []
    monkeypatch.setattr(device_module, "can_pin", lambda: True)
    pinned = tio.pin_memory(data)
    assert len(fake_pinning) == 5
    assert contents(pinned["batch"]) == contents(batch)
    assert pinned["rows"][0].tolist() == batch["tokens"].tolist()
    assert pinned["rows"][1][0] == batch["name"]
    assert pinned["rows"][1][1] == b"x"
    assert pinned["n"] == 1
    assert tio.pin_memory(batch.to("meta"))["id"].is_meta  # it is where it is
    assert len(tio.pin_memory(batch["sparse"]).indices) == 5


def test_collating_into_page_locked_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def empty(size: int, *, dtype: torch.dtype, pin_memory: bool) -> Tensor:
        assert pin_memory
        asked.append(size)
        return torch.zeros(size, dtype=dtype)

    batch = make_batch()
    expected = contents(tio.pad_collate(batch, max_len=2))
    with monkeypatch.context() as patch:
        patch.setattr(device_module, "can_pin", lambda: True)
        patch.setattr(torch, "empty", empty)
        found = [
            tio.pin_collate(batch.samples()),
            tio.pad_collate(batch, max_len=2, pin_memory=True),
            tio.pad_collate(max_len=2, pin_memory=True)(batch.samples()),
        ]
    assert asked == [each.arena.numel() for each in found]
    assert contents(found[0]) == contents(batch)
    assert contents(found[1]) == contents(found[2]) == expected


def test_workers_do_not_page_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: False)
    assert device_module.can_pin()
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
        assert not device_module.can_pin()
    monkeypatch.setattr(device_module, "get_worker_info", object)
    assert not device_module.can_pin()
    assert tio.pin_collate(make_batch().samples())["id"].tolist() == [0, 1, 2, 3, 4]


# ---- default_collate ----


def test_default_collate_of_dicts() -> None:
    """It stacks tensors as it always does, and asks us about values of our types."""
    batch = make_batch(4)
    names = ["id", "scores", "name", "words", "steps", "sparse"]
    samples = [{name: sample[name] for name in names} for sample in batch.samples()]
    found = default_collate(samples)
    assert type(found) is dict
    assert found["scores"].tolist() == batch["scores"].tolist()
    assert found["name"] == batch["name"].tolist()
    ours = tio.collate(samples)
    for name in ("words", "steps", "sparse"):
        assert type(found[name]) is type(ours[name])
        assert plain(found[name]) == plain(ours[name]) == plain(batch[name])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([{"tokens": row} for row in batch["tokens"]])


# ---- torch.compile ----


def of_columns(ids: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    return values.sum() + (offsets.diff() * ids).sum()


def of_batch(batch: tio.Batch) -> Tensor:
    tokens = batch["tokens"]
    return of_columns(batch["id"], tokens.values, tokens.offsets) + batch.lengths["padded"].sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_accept_batches(backend: str) -> None:
    """Whole, in one graph, which serves other batches of the same features."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(of_batch, backend=counter, fullgraph=True)
    batches = [make_batch(4, first=4 * i) for i in range(6)]
    for batch in batches[:3]:
        assert compiled(batch) == of_batch(batch)
    # The first has its shapes compiled in, the next any number of values.
    graphs = counter.frame_count
    assert graphs <= 2
    for batch in batches[3:]:
        assert compiled(batch) == of_batch(batch)
    assert counter.frame_count == graphs
