"""Tests of the transport of batches from DataLoader workers."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import torchrec_io as tio
from torchrec_io._tensors import transport

MAPPED = "memfd:torchrec_io_slot"


def batch_of(number: int, values: int) -> tio.Batch:
    """A batch with columns of several kinds, all of which follow from its number."""
    full = torch.full((values,), number)
    return tio.collate([{"x": full, "name": b"%d" % number, "half": full[: values // 2].float()}])


class Source(IterableDataset[Any]):
    """Batches of the sizes given; each worker gives all."""

    def __init__(self, sizes: list[int], pickled: bool = False) -> None:
        self.sizes = sizes
        self.pickled = pickled

    def __iter__(self) -> Iterator[Any]:
        for number, size in enumerate(self.sizes):
            batch = batch_of(number, size)
            yield pickle.dumps(batch) if self.pickled else batch


def loader_of(source: Source, workers: int = 1, **options: Any) -> Any:
    return DataLoader(source, batch_size=None, num_workers=workers, **options)


def check(batch: tio.Batch, number: int, size: int) -> None:
    expected = batch_of(number, size)
    assert batch["x"].tolist() == expected["x"].tolist()
    assert batch["half"].tolist() == expected["half"].tolist()
    assert batch["name"].tolist() == expected["name"].tolist()


def is_mapped(batch: tio.Batch) -> bool:
    """Whether the arena of a batch is a slot."""
    at = batch.arena.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split()[0].split("-"))
        if begin <= at < end:
            return MAPPED in line
    raise AssertionError("it is nowhere")


def mapped_slots() -> int:
    return Path("/proc/self/maps").read_text().count(MAPPED)


SIZES = [1000, 5000, 5000, 4000, 10, 90_000, 1000, 200_000, 5000] * 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "workers"), [("fork", 1), ("fork", 2), ("spawn", 1), ("forkserver", 2)]
)
def test_all_batches_arrive_unchanged(method: str, workers: int) -> None:
    """More batches are held than there are slots."""
    loader = loader_of(Source(SIZES), workers, multiprocessing_context=method)
    held = list(loader)
    assert len(held) == workers * len(SIZES) > workers * transport._MOST_SLOTS
    kinds = {is_mapped(batch) for batch in held}
    assert kinds == {True, False}  # some found no slot, or were too small for one
    for place, batch in enumerate(held):
        number = place // workers
        check(batch, number, SIZES[number])


def test_a_child_that_lets_go_of_a_batch_does_not_free_its_slot() -> None:
    iterator = iter(loader_of(Source([5000] * 40)))
    first = next(iterator)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        # The child has a copy of `first` and drops it.
        pool.apply(_drop_batches)
    for number, batch in enumerate(iterator, 1):
        check(batch, number, 5000)
        check(first, 0, 5000)


def _drop_batches() -> int:
    dropped = 0
    for thing in gc.get_objects():
        if type(thing) is tio.Batch:
            thing.__dict__.clear()
            dropped += 1
    gc.collect()
    assert dropped
    return dropped


@pytest.mark.slow
def test_slots_go_with_the_workers() -> None:
    for _ in range(3):
        iterator = iter(loader_of(Source([5000] * 20), workers=2))
        batches = list(itertools.islice(iterator, 10))
        assert mapped_slots() > 0
        del iterator
        gc.collect()
        assert mapped_slots() > 0  # the batches are still there
        for place, batch in enumerate(batches):
            check(batch, place // 2, 5000)
        del batches, batch
        gc.collect()
        assert mapped_slots() == 0


def test_pickled_by_itself_a_batch_needs_no_worker() -> None:
    """As when a worker writes one to a file."""
    (data,) = loader_of(Source([5000], pickled=True))
    for _ in range(2):
        check(pickle.loads(data), 0, 5000)


def test_no_memory_for_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    sizes = [5000, 200_000] * 5
    for number, batch in enumerate(loader_of(Source(sizes), multiprocessing_context="fork")):
        assert not is_mapped(batch)
        check(batch, number, sizes[number])


def test_layouts_that_are_equal_but_not_the_same() -> None:
    class Padded(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            assert get_worker_info() is not None
            for fill in (0, 0.0, False):
                sample = tio.Sample({"x": torch.ones(2000)}, padded={"x": fill})
                yield tio.collate([sample])

    loader: Any = DataLoader(
        Padded(), batch_size=None, num_workers=1, multiprocessing_context="fork"
    )
    fills = [batch.samples()[0].padded["x"] for batch in loader]
    assert list(map(repr, fills)) == ["0", "0.0", "False"]


# ---- both ends in one process, to say what happens when ----


def arrived(message: Any, receiver: Any) -> tio.Batch:
    receive, (place, form) = message
    assert receive is transport._receive
    batch: tio.Batch = receiver.take(place, form)
    return batch


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["send", "arrive", "drop"]), st.integers(0, 7)), max_size=60
    )
)
def test_no_slot_is_lost(steps: list[tuple[str, int]]) -> None:
    """Whatever the sizes, and in whichever order batches are let go of."""
    sender, receiver = transport._Sender(), transport._Receiver()
    slots = receiver._slots.setdefault(sender._name, {})  # as for a worker that is still there
    under_way: list[tuple[int, int, Any]] = []
    held: list[tuple[int, int, tio.Batch]] = []

    def arrive() -> None:
        number, size, message = under_way.pop(0)
        held.append((number, size, arrived(message, receiver)))

    for number, (step, which) in enumerate(steps):
        if step == "send":
            size = 500 << which
            message = sender.send(batch_of(number, size))
            if message is None:
                assert len(under_way) + len(held) >= transport._MOST_SLOTS
            else:
                under_way.append((number, size, message))
        elif step == "arrive" and under_way:
            arrive()
        elif step == "drop" and held:
            held.pop(which % len(held))
        assert all(batch["x"].equal(torch.full((1, size), at)) for at, size, batch in held)
    while under_way:
        arrive()
    assert len(sender._slots) <= transport._MOST_SLOTS
    assert set(slots) <= {slot.number for slot in sender._slots}  # and no other is kept
    held.clear()
    assert all(slot.take() for slot in sender._slots)
    sender.close()


def test_a_worker_that_ended_before_its_slot_had_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise FileNotFoundError

    sender = transport._Sender()
    message = sender.send(batch_of(1, 5000))
    monkeypatch.setattr(os, "open", fail)
    expected = rf"DataLoader worker \(pid {os.getpid()}\) ended"
    with pytest.raises(RuntimeError, match=expected):
        arrived(message, transport._Receiver())
    sender.close()


def test_a_child_keeps_a_batch_that_its_parent_lets_go_of() -> None:
    """A fork of who uses the batches: slots that the child may read in are used no more."""
    iterator = iter(loader_of(Source([5000] * 60)))
    first = next(iterator)
    assert is_mapped(first)
    go, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go, 1)
        os._exit(int(first["x"].unique()))
    del first
    for number, batch in enumerate(iterator, 1):
        check(batch, number, 5000)
    os.write(told, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(go)
    os.close(told)
