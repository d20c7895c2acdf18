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

import errno
import itertools
import mmap
import multiprocessing
import operator
import os
import pickle
import threading
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from multiprocessing.util import Finalize
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
_HEAD_BYTES = _core.SLOT_HEADER_BYTES
_SECONDS_TO_END = 5.0  # of a worker that has been killed
# So that batches of nearly one size can use each other's slots.
_GRAIN_BYTES = 1 << 16


class _Slot:
    """A slot of this worker.

    Attributes:
        number: No other slot of the worker ever has it.
        descriptor: Of the memory.
        memory: uint8; all of it.
        replaced: The number of the one whose place it took.
        is_known: Whether the other process was told of it.
    """

    def __init__(self, number: int, size: int, replaced: int | None) -> None:
        self.number = number
        self.replaced = replaced
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

    def take(self) -> bool:
        """Takes it to write to it; False while it is lent or under way."""
        return _core.take_slot(self.memory)

    def is_to_replace(self, size: int) -> bool:
        """Whether it is of no more use; if it is just too small, it is taken."""
        return _core.is_slot_retired(self.memory) or (not self.holds(size) and self.take())

    def untake(self) -> None:
        """Has it free again, when nobody was sent what is in it."""
        _core.release_slot(self.memory)

    def close(self) -> None:
        os.close(self.descriptor)


class _Sender:
    """The slots of a worker.

    A message that is lost, as when something else in it cannot be pickled, leaves its slot taken:
    whether the other process has it cannot be known here. There are few slots, and they go with the
    worker; once all are lost, batches travel as any other object does.
    """

    def __init__(self) -> None:
        self._name = os.urandom(8)
        self._pid = os.getpid()
        self._lock = threading.Lock()  # a worker may have more queues than DataLoader's
        self._numbers = itertools.count()
        self._slots: list[_Slot] = []
        # Batches of one schema, of columns whose sizes do not depend on the data, share theirs.
        self._layout: tuple[Any, ...] = ()
        self._pickled = b""

    def send(self, batch: Batch) -> tuple[Any, ...] | None:
        """What the batch is pickled as; None if there is no slot for it."""
        with self._lock:
            size = batch.arena.numel()
            layout = self._pickled_layout(batch)
            slot = self._taken(size)
            if slot is None:
                return None
            np.copyto(slot.memory[_HEAD_BYTES : _HEAD_BYTES + size], batch.arena.numpy())
            place = _Place(
                self._name, self._pid, slot.number, slot.descriptor, len(slot.memory), size
            )
            if slot.is_known:
                return _receive, (place, None, layout)
            try:
                new = _NewSlot(DupFd(slot.descriptor), slot.replaced)
            except OSError:  # there are no more descriptors
                slot.untake()
                return None
            slot.is_known = True
            return _receive, (place, new, layout)

    def _taken(self, size: int) -> _Slot | None:
        for slot in self._slots:
            if slot.holds(size) and slot.take():
                return slot
        small = next((slot for slot in self._slots if slot.is_to_replace(size)), None)
        if small is None and len(self._slots) == _MOST_SLOTS:
            return None
        try:
            slot = _Slot(next(self._numbers), size, None if small is None else small.number)
        except OSError:  # there is no such memory
            if small is not None and not _core.is_slot_retired(small.memory):
                small.untake()
            return None
        slot.take()
        if small is None:
            self._slots.append(slot)
        else:
            self._slots[self._slots.index(small)] = slot
            small.close()
        return slot

    def _pickled_layout(self, batch: Batch) -> bytes:
        layout = batch.layout
        if not self._layout or any(map(operator.is_not, self._layout, layout)):
            self._layout, self._pickled = layout, pickle.dumps(layout)
        return self._pickled

    def close(self) -> None:
        """Lets go of all slots."""
        for slot in self._slots:
            slot.close()
        self._slots = []


class _Place(NamedTuple):
    """Where a batch is."""

    sender: bytes
    pid: int
    number: int
    descriptor: int
    capacity: int
    size: int


class _NewSlot(NamedTuple):
    """What the other process needs to have a slot, too."""

    descriptor: Any
    replaced: int | None  # number of the slot whose place it took


class _Receiver:
    """The slots of workers, in the process that uses their batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[bytes, dict[int, npt.NDArray[np.uint8]]] = {}
        self._layouts: dict[bytes, Any] = {}

    def take(self, place: _Place, new: _NewSlot | None, pickled_layout: bytes) -> Batch:
        """The batch at a place.

        Raises:
            RuntimeError: its worker has ended, and this process does not have the slot yet.
        """
        with self._lock:
            slots = self._slots_of(place)
            memory = slots.get(place.number)
            if memory is None:
                memory = slots[place.number] = _attached(place, new)
            if new is not None and new.replaced is not None:
                slots.pop(new.replaced, None)
            layout = self._layout(pickled_layout)
        arena = _core.lend_slot(memory, place.size)
        return Batch(torch.from_numpy(arena), *layout)

    def _slots_of(self, place: _Place) -> dict[int, npt.NDArray[np.uint8]]:
        """The slots of a worker, kept until DataLoader lets go of the worker."""
        slots = self._slots.get(place.sender)
        if slots is None:
            slots = {}
            process = _child(place.pid)
            if process is not None:
                self._slots[place.sender] = slots
                weakref.finalize(process, self._slots.pop, place.sender, None).atexit = False
            # Of a worker that has ended, or is another process's child, nothing is kept: there
            # would be nobody to say when it can go.
        return slots

    def close(self) -> None:
        """Lets go of all slots but those whose batches are in use."""
        self._slots.clear()

    def _layout(self, pickled: bytes) -> Any:
        layout = self._layouts.get(pickled)
        if layout is None:
            if len(self._layouts) > 8:  # those of ragged batches do not come again
                self._layouts.clear()
            layout = pickle.loads(pickled)  # noqa: S301  # as the message it is part of
            self._layouts[pickled] = layout
        return layout


class _Ends:
    """The slots of this process, as a worker and as one that uses the batches of workers."""

    def __init__(self) -> None:
        self.receiver = _Receiver()
        self._sender: _Sender | None = None

    @property
    def sender(self) -> _Sender:
        """Of this process, which is a worker."""
        if self._sender is None:
            self._sender = _Sender()
            # Before multiprocessing waits, at -5, until all that was sent is on its way.
            Finalize(None, _end_with_parent, (os.getppid(),), exitpriority=-4)
        return self._sender

    def forget_parents(self) -> None:
        """Has a forked child begin anew; else it would keep the memory of its parent's slots."""
        if self._sender is not None:
            self._sender.close()
        self._sender = None
        self.receiver.close()
        self.receiver = _Receiver()


def _end_with_parent(parent: int) -> None:
    """Ends a worker whose parent was killed: who waits for a full pipe would do so for ever."""
    if os.getppid() != parent:
        os._exit(1)


_ends = _Ends()
os.register_at_fork(after_in_child=_ends.forget_parents)


def _reduce(batch: Batch) -> Any:
    """How a batch is pickled for another process; in a DataLoader worker, by slot."""
    is_plain = batch.arena.device.type != "cpu" or batch.arena.numel() <= _INLINE_BYTES
    if is_plain or get_worker_info() is None or not hasattr(os, "memfd_create"):
        return batch.__reduce__()
    return _ends.sender.send(batch) or batch.__reduce__()


def _receive(place: _Place, new: _NewSlot | None, pickled_layout: bytes) -> Batch:
    return _ends.receiver.take(place, new, pickled_layout)


def _child(pid: int) -> Any:
    """A process that this one has started and that has not ended yet; None if it is none."""
    children = multiprocessing.active_children()
    return next((process for process in children if process.pid == pid), None)


def _attached(place: _Place, new: _NewSlot | None) -> npt.NDArray[np.uint8]:
    try:
        if new is not None:
            descriptor = new.descriptor.detach()
        else:
            # A worker that sends to several processes tells one of them of a slot.
            descriptor = os.open(f"/proc/{place.pid}/fd/{place.descriptor}", os.O_RDWR)
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        # Its sockets are closed a moment before it counts as ended. DataLoader's own error, which
        # comes by a signal, would else come some time later, wherever the program is by then.
        process = _child(place.pid)
        if process is not None:
            process.join(_SECONDS_TO_END)
        raise RuntimeError(
            f"DataLoader worker (pid {place.pid}) ended before a batch of it had arrived"
        ) from error
    try:
        return _mapped(descriptor, place.capacity)
    finally:
        os.close(descriptor)


def _mapped(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


ForkingPickler.register(Batch, _reduce)
