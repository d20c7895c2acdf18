"""How batches cross from a DataLoader worker to the process that uses them.

A worker writes the arena of a batch into a *slot*, a piece of memory that both processes have
mapped, and sends a short message. There the batch is the slot: nothing is copied. The slot is used
again when the last view of the batch is gone, so reuse is never seen; while all slots are in use,
batches travel as any other object does (:meth:`Batch.__reduce__`).

Against a new piece of shared memory for each batch this saves making it, handing over its
descriptor and a page fault for each 4 KiB on both sides; against a pipe, several copies
(benchmarks/transfer.py). Slots are files without a name: they need no room in /dev/shm, and go with
the processes.
"""

from __future__ import annotations

import functools
import mmap
import multiprocessing
import operator
import os
import pickle
import threading
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import get_worker_info

from .. import _core
from .batch import Batch

# Arenas up to this size are sent inside the message. Measured by benchmarks/transfer.py.
_INLINE_BYTES = 1 << 12
# More than a worker has under way (prefetch_factor) and a training step holds.
_MOST_SLOTS = 16
_HEAD_BYTES = 64  # before what a slot lends
# So that batches of nearly one size can use each other's slots.
_GRAIN_BYTES = 1 << 16


class _Slot:
    """A slot of this worker.

    Attributes:
        number: Among the slots of the worker. One that takes the place of another has its number.
        descriptor: Of the memory.
        memory: uint8; all of it.
        is_known: Whether the other process was told of it.
    """

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        grain = max(_GRAIN_BYTES, 1 << max(0, size.bit_length() - 4))
        capacity = -(-(size + _HEAD_BYTES) // grain) * grain
        self.descriptor = os.memfd_create("torchrec_io")
        try:
            # Not truncate alone: memory that is not to be had must be an error here, not a signal
            # when it is written to.
            os.posix_fallocate(self.descriptor, 0, capacity)
            self.memory = _mapped(self.descriptor, capacity)
        except OSError:
            os.close(self.descriptor)
            raise
        self.is_known = False

    def holds(self, size: int) -> bool:
        return len(self.memory) - _HEAD_BYTES >= size

    def close(self) -> None:
        os.close(self.descriptor)


class _Sender:
    """The slots of a worker."""

    def __init__(self, pid: int) -> None:
        self._name = os.urandom(8)
        self._pid = pid
        self._slots: list[_Slot] = []
        # Batches of one schema, of columns whose sizes do not depend on the data, share theirs.
        self._layout: tuple[Any, ...] = ()
        self._pickled = b""

    def send(self, batch: Batch) -> tuple[Any, ...] | None:
        """What the batch is pickled as; None if there is no slot for it."""
        size = batch.arena.numel()
        slot = self._take(size)
        if slot is None:
            return None
        arena = slot.memory[_HEAD_BYTES : _HEAD_BYTES + size]
        np.copyto(arena, batch.arena.numpy())
        new = None
        if not slot.is_known:
            slot.is_known = True
            new = _NewSlot(DupFd(slot.descriptor), len(slot.memory))
        place = _Place(self._name, self._pid, slot.number, size)
        return _receive, (place, new, self._pickled_layout(batch))

    def _take(self, size: int) -> _Slot | None:
        small: _Slot | None = None
        for slot in self._slots:
            if slot.holds(size):
                if _core.take_slot(slot.memory):
                    return slot
            elif small is None and _core.take_slot(slot.memory):
                small = slot
        try:
            return self._made(size, small)
        except OSError:  # there is no such memory
            return None

    def _made(self, size: int, small: _Slot | None) -> _Slot | None:
        """A new slot, in the place of one that is too small."""
        if small is None and len(self._slots) == _MOST_SLOTS:
            return None
        if small is None:
            slot = _Slot(len(self._slots), size)
            self._slots.append(slot)
        else:
            slot = _Slot(small.number, size)
            self._slots[small.number] = slot
            small.close()
        _core.take_slot(slot.memory)
        return slot

    def _pickled_layout(self, batch: Batch) -> bytes:
        layout = batch.layout
        if not self._layout or any(map(operator.is_not, self._layout, layout)):
            self._layout, self._pickled = layout, pickle.dumps(layout)
        return self._pickled


class _Place(NamedTuple):
    """Where a batch is."""

    sender: bytes
    pid: int
    number: int
    size: int


class _NewSlot(NamedTuple):
    """What the other process needs to have a slot, too."""

    descriptor: Any
    capacity: int


class _Receiver:
    """The slots of workers, in the process that uses their batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[bytes, dict[int, npt.NDArray[np.uint8]]] = {}
        self._layouts: dict[bytes, Any] = {}

    def take(self, place: _Place, new: _NewSlot | None, pickled_layout: bytes) -> Batch:
        """The batch at a place."""
        with self._lock:
            slots = self._slots.get(place.sender)
            if slots is None:
                slots = self._slots[place.sender] = {}
                self._forget_with_worker(place)
            if new is not None:
                slots[place.number] = _attached(new)
            memory = slots[place.number]
            layout = self._layout(pickled_layout)
        arena = _core.lend_slot(memory, place.size)
        return Batch(torch.from_numpy(arena), *layout)

    def _layout(self, pickled: bytes) -> Any:
        layout = self._layouts.get(pickled)
        if layout is None:
            if len(self._layouts) > 8:  # those of ragged batches do not come again
                self._layouts.clear()
            layout = pickle.loads(pickled)  # noqa: S301  # as the message it is part of
            self._layouts[pickled] = layout
        return layout

    def _forget_with_worker(self, place: _Place) -> None:
        """Lets go of a worker's slots when DataLoader lets go of the worker."""
        for process in multiprocessing.active_children():
            if process.pid == place.pid:
                weakref.finalize(process, self._slots.pop, place.sender, None).atexit = False


@functools.cache
def _sender_of(pid: int) -> _Sender:
    return _Sender(pid)


@functools.cache
def _receiver_of(pid: int) -> _Receiver:
    del pid  # a forked child has its own
    return _Receiver()


def _reduce(batch: Batch) -> Any:
    """How a batch is pickled for another process; in a DataLoader worker, by slot."""
    is_plain = batch.arena.device.type != "cpu" or batch.arena.numel() <= _INLINE_BYTES
    if is_plain or get_worker_info() is None or not hasattr(os, "memfd_create"):
        return batch.__reduce__()
    return _sender_of(os.getpid()).send(batch) or batch.__reduce__()


def _receive(place: _Place, new: _NewSlot | None, pickled_layout: bytes) -> Batch:
    return _receiver_of(os.getpid()).take(place, new, pickled_layout)


def _attached(new: _NewSlot) -> npt.NDArray[np.uint8]:
    descriptor = new.descriptor.detach()
    try:
        return _mapped(descriptor, new.capacity)
    finally:
        os.close(descriptor)


def _mapped(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


ForkingPickler.register(Batch, _reduce)
