"""Transport of batches from DataLoader workers to the process that uses them.

A worker writes the arena of a batch into a *slot*, memory that both processes have mapped, and
sends a short message. The receiving process uses the slot as the arena of the batch, without a
copy. The slot is reused once the last view of the batch is gone, so no batch changes while it is in
use. While all slots are in use, batches are pickled like other objects (:meth:`Batch.__reduce__`).

Compared with new shared memory for each batch, slots save its allocation, the transfer of its
descriptor, and a page fault for each 4 KiB in both processes. Compared with a pipe, they save
several copies (benchmarks/transfer.py). Slots are anonymous files: they take no space in /dev/shm,
and the system frees them when the processes end.
"""

from __future__ import annotations

import errno
import functools
import itertools
import mmap
import multiprocessing
import operator
import os
import pickle
import threading
import weakref
from multiprocessing.util import Finalize
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import get_worker_info

from .. import _core
from .batch import Batch
from .columns import Columns
from .device import lock_memory

# Arenas up to this size are sent in the message. The limit is measured by benchmarks/transfer.py.
_INLINE_BYTES = 1 << 12
# More batches than a worker has in flight (prefetch_factor) and a training step holds.
_MOST_SLOTS = 16
_HEAD_BYTES = _core.SLOT_HEADER_BYTES
_SECONDS_TO_END = 5.0  # maximum wait for a worker that was killed
# Slot sizes are rounded up to this, so that batches of similar sizes share slots.
_GRAIN_BYTES = 1 << 16


class _Slot:
    """A slot of this worker.

    Args:
        number: Number of the slot, unique in the worker.
        size: Size of the arena that the slot must hold, in bytes.
        replaced: Number of the slot that this one replaces, if any.

    Attributes:
        descriptor: File descriptor of the memory.
        memory: All memory of the slot, uint8.

    Raises:
        OSError: If there is not enough memory.
    """

    def __init__(self, number: int, size: int, replaced: int | None) -> None:
        self.number = number
        self.replaced = replaced
        grain = max(_GRAIN_BYTES, 1 << max(0, size.bit_length() - 4))
        capacity = -(-(size + _HEAD_BYTES) // grain) * grain
        self.descriptor = os.memfd_create("torchrec_io_slot")
        try:
            # Allocate the memory now: after ftruncate() alone, a lack of memory would kill the
            # process with a signal at the first write.
            os.posix_fallocate(self.descriptor, 0, capacity)
            self.memory = _map(self.descriptor, capacity)
        except OSError:
            os.close(self.descriptor)
            raise

    def can_hold(self, size: int) -> bool:
        return len(self.memory) - _HEAD_BYTES >= size

    def take(self) -> bool:
        """Reserve the slot for writing; return False while a batch in it is in flight or in use."""
        return _core.take_slot(self.memory)

    def is_to_replace(self, size: int) -> bool:
        """Return whether a new slot may replace this one. A slot that is too small is reserved."""
        return _core.is_slot_retired(self.memory) or (not self.can_hold(size) and self.take())

    def release(self) -> None:
        """Make the slot free again after :meth:`take`, if its batch was not sent."""
        _core.release_slot(self.memory)

    def close(self) -> None:
        os.close(self.descriptor)


class _Sender:
    """The slots of a worker, which sends batches in them.

    If a message is lost, for example because another object in it cannot be pickled, its slot stays
    reserved: the worker cannot know whether the other process received it. There are few slots, and
    they are freed with the worker. Once all are lost, batches are pickled like other objects.
    """

    def __init__(self) -> None:
        self._name = os.urandom(8)
        self._pid = os.getpid()
        self._lock = threading.Lock()  # a worker may use other queues than the one of DataLoader
        self._numbers = itertools.count()
        self._slots: list[_Slot] = []
        # Cached: batches share a layout if the sizes of their columns do not depend on the data.
        self._form: tuple[Any, ...] = ()
        self._pickled = b""

    def send(self, batch: Batch) -> tuple[Any, ...] | None:
        """Write a batch to a slot and return its pickled form, or None if no slot is free."""
        with self._lock:
            size = batch.arena.numel()
            form = self._pickled_form(batch)
            slot = self._take_slot(size)
            if slot is None:
                return None
            np.copyto(slot.memory[_HEAD_BYTES : _HEAD_BYTES + size], batch.arena.numpy())
            place = _Place(
                self._name,
                self._pid,
                slot.number,
                slot.replaced,
                slot.descriptor,
                len(slot.memory),
                size,
            )
            return _receive, (place, form)

    def _take_slot(self, size: int) -> _Slot | None:
        """Reserve a slot, or create one; return None if that is not possible."""
        for slot in self._slots:
            if slot.can_hold(size) and slot.take():
                return slot
        small = next((slot for slot in self._slots if slot.is_to_replace(size)), None)
        if small is None and len(self._slots) == _MOST_SLOTS:
            return None
        try:
            slot = _Slot(next(self._numbers), size, None if small is None else small.number)
        except OSError:  # not enough memory
            if small is not None and not _core.is_slot_retired(small.memory):
                small.release()
            return None
        slot.take()
        if small is None:
            self._slots.append(slot)
        else:
            self._slots[self._slots.index(small)] = slot
            small.close()
        return slot

    def _pickled_form(self, batch: Batch) -> bytes:
        layout, form = batch.columns.layout, batch.columns.form
        parts = layout, *form
        if not self._form or any(map(operator.is_not, self._form, parts)):
            self._form, self._pickled = parts, pickle.dumps((layout, form))
        return self._pickled

    def close(self) -> None:
        """Close all slots."""
        for slot in self._slots:
            slot.close()
        self._slots = []


class _Place(NamedTuple):
    """Position of a batch: a sender and its process, a slot and its memory.

    Attributes:
        sender: Random name of the sender.
        pid: Process of the sender.
        number: Number of the slot.
        replaced: Number of the slot that this one replaced, if any.
        descriptor: File descriptor of the slot in the process of the sender.
        capacity: Size of the slot in bytes.
        size: Size of the arena in bytes.
    """

    sender: bytes
    pid: int
    number: int
    replaced: int | None
    descriptor: int
    capacity: int
    size: int


class _ReceivedSlot:
    """A slot of a worker, in the process that uses its batches.

    Args:
        memory: All memory of the slot, uint8.

    Attributes:
        memory: All memory of the slot, uint8.
    """

    def __init__(self, memory: npt.NDArray[np.uint8]) -> None:
        self.memory = memory
        self._is_locked: bool | None = None  # None: not tried yet

    def lock(self) -> bool:
        """Page-lock the memory for as long as it is mapped; return whether it is page-locked."""
        if self._is_locked is None:
            self._is_locked = lock_memory(self.memory)
        return self._is_locked


class _Receiver:
    """The slots of all workers, in the process that uses their batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[bytes, dict[int, _ReceivedSlot]] = {}

    def take(self, place: _Place, pickled_form: bytes) -> Batch:
        """Return the batch at a position.

        Args:
            place: Position of the batch.
            pickled_form: Pickled form of the columns.

        Raises:
            RuntimeError: If the worker has ended and this process does not have the slot yet.
        """
        with self._lock:
            slots = self._slots_of(place)
            slot = slots.get(place.number)
            if slot is None:
                slot = slots[place.number] = _ReceivedSlot(_attach(place))
            if place.replaced is not None:
                slots.pop(place.replaced, None)
        arena = _core.lend_slot(slot.memory, place.size)
        batch = Batch(Columns(torch.from_numpy(arena), *_load_form(pickled_form)))
        batch.slot = slot
        return batch

    def _slots_of(self, place: _Place) -> dict[int, _ReceivedSlot]:
        """Return the slots of a worker, which are kept until DataLoader releases the worker."""
        slots = self._slots.get(place.sender)
        if slots is None:
            slots = {}
            process = _child(place.pid)
            if process is not None:
                self._slots[place.sender] = slots
                weakref.finalize(process, self._slots.pop, place.sender, None).atexit = False
            # Slots of a worker that has ended, or is not a child of this process, are not kept:
            # nothing would tell when to remove them.
        return slots

    def close(self) -> None:
        """Release all slots. The memory of batches that are in use is kept until they are gone."""
        self._slots.clear()


class _Ends:
    """The sender and the receiver of this process."""

    def __init__(self) -> None:
        self.receiver = _Receiver()
        self._sender: _Sender | None = None

    @property
    def sender(self) -> _Sender:
        """Sender of this process, which is a worker."""
        if self._sender is None:
            self._sender = _Sender()
            # This runs before multiprocessing waits, at priority -5, until all messages are sent.
            Finalize(None, _end_with_parent, (os.getppid(),), exitpriority=-4)
        return self._sender

    def reset(self) -> None:
        """Forget all slots, so that a forked child does not keep the memory of its parent's."""
        if self._sender is not None:
            self._sender.close()
        self._sender = None
        self.receiver.close()
        self.receiver = _Receiver()


def _end_with_parent(parent: int) -> None:
    """End a worker whose parent was killed. It would wait forever for a full pipe."""
    if os.getppid() != parent:
        os._exit(1)


_ends = _Ends()
os.register_at_fork(after_in_child=_ends.reset)


def reduce_batch(batch: Batch) -> Any:
    """Pickle a batch for another process. DataLoader workers send it in a slot."""
    arena = batch.arena
    is_small = arena is None or arena.device.type != "cpu" or arena.numel() <= _INLINE_BYTES
    if is_small or get_worker_info() is None or not hasattr(os, "memfd_create"):
        return batch.__reduce__()
    return _ends.sender.send(batch) or batch.__reduce__()


def _receive(place: _Place, pickled_form: bytes) -> Batch:
    _core.stay_if_exiting()
    return _ends.receiver.take(place, pickled_form)


@functools.lru_cache(maxsize=8)  # the layouts of ragged batches are rarely repeated
def _load_form(pickled: bytes) -> Any:
    return pickle.loads(pickled)  # noqa: S301  # trusted like the message that contains it


def _child(pid: int) -> Any:
    """Return the running child process with this pid, or None."""
    children = multiprocessing.active_children()
    return next((process for process in children if process.pid == pid), None)


def _attach(place: _Place) -> npt.NDArray[np.uint8]:
    try:
        descriptor = os.open(f"/proc/{place.pid}/fd/{place.descriptor}", os.O_RDWR)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        # Waiting for the worker's end makes DataLoader's own error, which a signal raises, appear
        # here and not at a later statement.
        process = _child(place.pid)
        if process is not None:
            process.join(_SECONDS_TO_END)
            if process.is_alive():
                raise
        raise RuntimeError(
            f"DataLoader worker (pid {place.pid}) ended before its batch was received"
        ) from error
    try:
        return _map(descriptor, place.capacity)
    finally:
        os.close(descriptor)


def _map(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)
