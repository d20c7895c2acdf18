"""Tests of DevicePrefetcher: order, states, errors and memory of prefetched batches."""

from __future__ import annotations

import collections
import gc
import itertools
import json
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
import torchrec_io._loading.loader  # not first while a test has replaced what it imports
from tests.support.datasets import SCHEMA, ids_of, write_files
from tests.support.every_kind import make_batch, tensors_of
from tests.support.fake_cuda import DeviceBatch, FakeGpu, HostBatch
from tests.support.states import iterations_of, rest_of
from torchrec_io._tensors import device as device_module

# What torchdata 0.11 does when it makes a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    return FakeGpu(monkeypatch)


class Numbers:
    """A loader of batches of one number, then of an error; notes how many were taken."""

    def __init__(self, gpu: FakeGpu, count: int, error: BaseException | None = None) -> None:
        self.gpu = gpu
        self.count = count
        self.error = error
        self.taken = 0
        self.most_live = 0  # batches on the device when another was asked for

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[HostBatch]:
        for number in range(self.count):
            self.taken += 1
            self.most_live = max(self.most_live, self.gpu.live)
            yield HostBatch(self.gpu, number)
        if self.error is not None:
            raise self.error


# ---- streams ----


@given(
    count=st.integers(0, 8),
    depth=st.integers(1, 4),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=20),
)
def test_any_timing_of_the_device(count: int, depth: int, steps: list[tuple[bool, int]]) -> None:
    """Copies and computing run at any time; each batch is there when it is computed with."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        gpu = FakeGpu(monkeypatch)
        seen: list[int] = []
        progress = iter(steps)
        for batch in tio.DevicePrefetcher(Numbers(gpu, count), "cuda", depth):
            batch.use(seen)
            copies, some = next(progress, (False, 0))
            gpu.run(gpu.copying[-1] if copies else gpu.compute, some)
        gpu.finish()
        assert seen == list(range(count))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_it_is_depth_ahead_and_no_more(gpu: FakeGpu, depth: int) -> None:
    loader = Numbers(gpu, 10)
    prefetcher = tio.DevicePrefetcher(loader, "cuda", depth)
    assert len(prefetcher) == 10
    assert loader.taken == 0
    given = 0
    for batch in prefetcher:  # enumerate would hold on to it
        assert isinstance(batch, DeviceBatch)
        given += 1  # noqa: SIM113  # see above
        ahead = min(depth, 10 - given)
        assert loader.taken == given + ahead
        assert gpu.live == 1 + ahead
        del batch
    assert gpu.live == 0
    assert loader.most_live == depth
    assert len(list(prefetcher)) == 10  # again
    assert len(gpu.copying) == 1  # PyTorch keeps memory for each stream


def test_page_locked_data_is_not_copied_again(gpu: FakeGpu) -> None:
    class Pinned(HostBatch):
        def pin_memory(self) -> HostBatch:
            return self

    loader = [Pinned(gpu, number, pinned=True) for number in range(3)]
    assert len(list(tio.DevicePrefetcher(loader, "cuda:1"))) == 3
    assert gpu.pinned == 0
    assert len(list(tio.DevicePrefetcher(Numbers(gpu, 4), "cuda:1"))) == 4
    assert gpu.pinned == 4
    with pytest.raises(RuntimeError, match="'cuda:2' does not exist: PyTorch finds 2 CUDA devices"):
        tio.DevicePrefetcher([], "cuda:2")


class Pair(NamedTuple):
    first: Any
    second: Any


def test_batches_of_every_form(gpu: FakeGpu) -> None:
    host = HostBatch(gpu, 1)
    items = [
        host,
        ("key", host),
        [host, {"deep": (host, 7)}],
        {"a": host, "b": b"text"},
        tio.Sample({"x": host}, {"x": "int64"}),
        Pair(host, None),
        collections.OrderedDict(z=host, y=2),
        collections.defaultdict[str, Any](list, b=host),
        types.MappingProxyType({"c": host}),
        "no batch",
    ]
    found = list(tio.DevicePrefetcher(items, "cuda"))
    gpu.finish()
    assert [type(item) for item in found] == [DeviceBatch, *(type(item) for item in items[1:])]
    assert found[1][0] == "key"
    assert found[2][1]["deep"][1] == 7
    assert found[3]["b"] == b"text"
    assert found[4].ragged == {"x": "int64"}
    assert found[5].second is None
    assert list(found[6]) == ["z", "y"]
    assert found[7]["missing"] == []
    assert found[9] == "no batch"
    moved = [found[0], found[1][1], found[2][0], found[2][1]["deep"][0], found[3]["a"]]
    for batch in (
        *moved,
        found[4]["x"],
        found[5].first,
        found[6]["z"],
        found[7]["b"],
        found[8]["c"],
    ):
        assert isinstance(batch, DeviceBatch)
        assert batch.memory.number == 1
        assert batch._recorded == [gpu.compute]
    assert isinstance(items[3]["a"], HostBatch)  # type: ignore[index]


# ---- how it ends ----


def test_an_error_is_raised_after_the_batches_before_it(gpu: FakeGpu) -> None:
    error = tio.DecodeError("it is damaged", record=3)
    prefetcher = tio.DevicePrefetcher(Numbers(gpu, 3, error), "cuda", depth=4)
    for _ in range(2):
        seen: list[int] = []
        with pytest.raises(tio.DecodeError, match="it is damaged"):
            for batch in prefetcher:
                batch.use(seen)
                del batch
        gpu.finish()
        assert seen == [0, 1, 2]
        assert gpu.live == 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_errors_that_end_the_program_are_raised_at_once(
    gpu: FakeGpu, stop: type[BaseException]
) -> None:
    seen: list[int] = []
    with pytest.raises(stop) as info:
        for batch in tio.DevicePrefetcher(Numbers(gpu, 3, stop()), "cuda", depth=2):
            batch.use(seen)
            del batch
    assert gpu.live == 0
    del info  # its traceback led to all that was there
    gpu.finish()
    assert seen == [0]


def test_a_loop_that_is_left_leaves_nothing(gpu: FakeGpu) -> None:
    closed = []

    class Closing(Numbers):
        def __iter__(self) -> Iterator[HostBatch]:
            try:
                yield from super().__iter__()
            finally:
                closed.append(True)

    loader = Closing(gpu, 9)
    threads = threading.active_count()
    gc.disable()  # nothing waits for the garbage collector
    try:
        for batch in tio.DevicePrefetcher(loader, "cuda", depth=3):
            del batch
            break
        assert gpu.live == 0
        assert closed == [True]
    finally:
        gc.enable()
    assert threading.active_count() == threads
    assert loader.taken == 4


# ---- states and epochs ----


@pytest.fixture
def any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies ahead of any batches, to the "GPU", which gives them back as they are."""
    monkeypatch.setattr(device_module, "check_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(device_module, "_Copies", _Kept)


class _Kept:
    """Instead of copies."""

    def __init__(self, device: torch.device, *, locks_slots: bool) -> None:
        assert device.type == "cuda"
        assert not locks_slots

    def start(self, data: Any) -> Any:
        return data

    def finish(self, data: Any) -> Any:
        return data

    def close(self) -> None:
        pass


SIZES = [13, 0, 7]


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, SIZES)


def loader_of(paths: list[str], kind: str) -> Any:
    if kind == "by number":
        numbers: Any = tio.TFRecordMapDataset(paths, SCHEMA)
        sampler: Any = DistributedSampler(numbers, num_replicas=1, rank=0)
        return tio.make_loader(numbers, batch_size=3, sampler=sampler)
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=3, shuffle=True)
    if kind == "dataset":
        return dataset
    if kind == "DataLoader":
        return DataLoader(dataset, batch_size=None)
    if kind == "make_loader":
        return tio.make_loader(dataset, num_workers=2)
    workers = int(kind[-1])
    return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)


KINDS = ["dataset", "DataLoader", "make_loader", "stateful 0", "stateful 2"]


@pytest.mark.slow
@pytest.mark.usefixtures("any_device")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_state_is_of_the_batch_handed_out(paths: list[str], kind: str, depth: int) -> None:
    whole, following = iterations_of(loader_of(paths, "dataset"), 2)
    prefetcher = tio.DevicePrefetcher(loader_of(paths, kind), "cuda", depth)
    batches = iter(prefetcher)
    states = [json.loads(json.dumps(prefetcher.state_dict()))]
    for expected in whole:
        assert next(batches)["id"].tolist() == expected
        states.append(json.loads(json.dumps(prefetcher.state_dict())))
    assert next(batches, None) is None
    for done, state in enumerate(states):
        other = tio.DevicePrefetcher(loader_of(paths, kind), "cuda", depth)
        other.load_state_dict(state)
        assert ids_of(other) == rest_of(whole, following, done)


@pytest.mark.usefixtures("any_device")
@pytest.mark.parametrize("kind", ["dataset", "DataLoader", "make_loader", "by number"])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_running_loop_does_not_change_a_position_that_was_set(
    paths: list[str], kind: str, *, loaded: bool
) -> None:
    prefetcher = tio.DevicePrefetcher(loader_of(paths, kind), "cuda")
    whole = ids_of(prefetcher)
    prefetcher.set_epoch(0)
    batches = iter(prefetcher)
    next(batches)
    state = prefetcher.state_dict()
    next(batches)
    if loaded:
        prefetcher.load_state_dict(state)
    else:
        prefetcher.set_epoch(1)
        state = prefetcher.state_dict()
    for _ in whole[2:]:
        next(batches)
        assert prefetcher.state_dict() == state
    assert next(batches, None) is None
    assert prefetcher.state_dict() == state
    if loaded:
        assert ids_of(prefetcher) == whole[1:]


@pytest.mark.usefixtures("any_device")
@pytest.mark.parametrize(
    "kind", ["dataset", "DataLoader", "make_loader", "stateful 0", "by number"]
)
def test_an_epoch_ends_with_the_last_batch_handed_out(paths: list[str], kind: str) -> None:
    """Copies are ahead of the loop, up to the end of the epoch."""
    prefetcher = tio.DevicePrefetcher(loader_of(paths, kind), "cuda", 3)
    expected = []
    for epoch in range(9):
        prefetcher.set_epoch(epoch)
        expected.append(ids_of(prefetcher))
    prefetcher.set_epoch(0)
    epoch = 0
    for taken in (1, 5, 7, 3, 6, 4, 7, 8, 2, 8):
        assert ids_of(itertools.islice(prefetcher, taken)) == expected[epoch][:taken]
        epoch += taken >= len(expected[epoch])
    assert epoch == 4


@pytest.mark.usefixtures("any_device")
def test_a_loader_without_states(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=3)
    prefetcher = tio.DevicePrefetcher(DataLoader(dataset, batch_size=None, num_workers=1), "cuda")
    assert len(ids_of(prefetcher)) == 7
    batches = iter(prefetcher)
    next(batches)
    with pytest.raises(RuntimeError, match="DataLoader workers read this dataset"):
        prefetcher.state_dict()
    del batches
    other = tio.DevicePrefetcher([1, 2], "cuda")
    assert list(other) == [1, 2]
    for call in (other.state_dict, lambda: other.load_state_dict({})):
        with pytest.raises(TypeError, match=r"state_dict method, got list$"):
            call()
    with pytest.raises(TypeError, match=r"set_epoch method, got list$"):
        other.set_epoch(1)


# ---- devices ----


def test_on_the_cpu_it_passes_through() -> None:
    batches = [make_batch(2), make_batch(3)]
    prefetcher = tio.DevicePrefetcher(batches, "cpu")
    found = list(prefetcher)
    assert all(one is other for one, other in zip(found, batches, strict=True))
    assert list(prefetcher) == found
    assert len(prefetcher) == 2


def test_a_device_without_streams_gets_copies() -> None:
    [(key, batch)] = tio.DevicePrefetcher([("a", make_batch(2))], "meta")
    assert key == "a"
    assert batch.device.type == "meta"
    for value in batch.values():
        for tensor in tensors_of(value):
            assert tensor.is_meta


@pytest.mark.parametrize("depth", [0, -1, 1.5, True])
def test_invalid_depth(depth: Any) -> None:
    with pytest.raises(ValueError, match="depth must be a positive integer, got"):
        tio.DevicePrefetcher([], "cpu", depth)
