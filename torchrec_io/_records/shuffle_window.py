"""A shuffle of records that arrive in order, which holds a limited number of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.byte_source import ByteBuffer
from .formats import TFRECORD
from .record_block import RecordBlock

_DRAINED_AT_ONCE = 256


class ShuffleWindow:
    """A buffer of records. When it is full, each new record replaces a random one.

    The choice depends on the number of records that came before, not on how many come at once. The
    buffers of all blocks that go in and out hold whole frames, in order and without gaps.

    Args:
        size: Number of records that the window holds.
        seed: Seed of the random choices; non-negative integers.
        numbers: Dtype of the blocks' ``numbers``.
    """

    def __init__(self, size: int, seed: list[int], numbers: np.dtype[Any]) -> None:
        self._size = size
        # NumPy keeps the stream of this generator stable, but not that of distributions.
        self._bits = np.random.PCG64(seed)
        # One row for each record, then unused rows. `start` and `length` locate its data.
        self._row = np.dtype([("start", np.int64), ("length", np.int64), ("number", numbers)])
        self._rows = np.empty(0, self._row)
        self._count = 0
        # Frames of the records, mixed with frames that went out; then unused space.
        self._store = np.empty(0, np.uint8)
        self._end = 0

    def push(self, block: RecordBlock) -> RecordBlock:
        """Take records in, and return those that they replace."""
        self._make_room(len(block.buffer))
        rows = np.empty(len(block), self._row)
        rows["start"] = block.starts + self._end
        rows["length"] = block.lengths
        rows["number"] = block.numbers
        self._store[self._end : self._end + len(block.buffer)] = block.buffer
        self._end += len(block.buffer)
        more = min(self._size - self._count, len(rows))
        self._append(rows[:more])
        return copy_frames([self._block_of(self._replace(rows[more:]))])

    def drain(self) -> Iterator[RecordBlock]:
        """Yield all remaining records."""
        order = np.argsort(self._bits.random_raw(self._count), kind="stable")
        self._count = 0
        for at in range(0, len(order), _DRAINED_AT_ONCE):
            rows = self._rows[order[at : at + _DRAINED_AT_ONCE]]
            yield copy_frames([self._block_of(rows)])

    def _append(self, rows: npt.NDArray[np.void]) -> None:
        if self._count + len(rows) > len(self._rows):
            room = np.empty(min(self._size, 2 * (self._count + len(rows))), self._row)
            room[: self._count] = self._rows[: self._count]
            self._rows = room
        self._rows[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def _replace(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Put each row, one after another, in a random slot, and return the previous rows."""
        slots = self._bits.random_raw(len(rows)) % np.uint64(self._size)
        # Rows for the same slot are neighbors in this order. Each replaces the one before it, the
        # first replaces the row in the window, and the last stays.
        order = np.argsort(slots, kind="stable")
        slots = slots[order]
        follows = np.zeros(len(rows) + 1, bool)
        follows[1:-1] = slots[1:] == slots[:-1]
        again = np.flatnonzero(follows[:-1])
        firsts = np.flatnonzero(~follows[:-1])
        lasts = np.flatnonzero(~follows[1:])
        out = np.empty(len(rows), self._row)
        out[order[firsts]] = self._rows[slots[firsts]]
        out[order[again]] = rows[order[again - 1]]
        self._rows[slots[lasts]] = rows[order[lasts]]
        return out

    def _make_room(self, size: int) -> None:
        """Compact the store if there is not enough space at its end."""
        if self._end + size <= len(self._store):
            return
        # In storage order, no frame is overwritten before it is moved.
        order = np.argsort(self._rows["start"][: self._count])
        block = self._block_of(self._rows[order])
        total = _frame_bytes(block)
        # Enough space that moving costs less than copying records in, but not more: a window may
        # use most of a machine's memory.
        store = self._store
        if len(store) < total + total // 4 + size:
            store = np.empty(total + total // 2 + 2 * size, np.uint8)
        self._rows["start"][order] = copy_frames([block], store).starts
        self._store, self._end = store, total

    def _block_of(self, rows: npt.NDArray[np.void]) -> RecordBlock:
        """Return the records of rows, where they are."""
        numbers = rows["number"].copy()
        lengths = rows["length"].astype(np.int64)
        return RecordBlock(self._store[: self._end], rows["start"], lengths, numbers)


def copy_frames(blocks: Sequence[RecordBlock], out: ByteBuffer | None = None) -> RecordBlock:
    """Copy the frames of blocks to one buffer, in order and without gaps.

    Args:
        blocks: The blocks, at least one.
        out: Buffer for the frames, uint8; by default it is allocated.
    """
    lengths = np.concatenate([block.lengths for block in blocks])
    sizes = lengths + TFRECORD.overhead_bytes
    starts = np.cumsum(sizes) - sizes
    if out is None:
        out = _core.allocate(sum(map(_frame_bytes, blocks)))
    first = 0
    for block in blocks:
        rows = slice(first, first + len(block))
        begins = block.starts - TFRECORD.header_bytes
        _core.gather(block.buffer, np.stack((begins, sizes[rows], starts[rows]), axis=1), out)
        first += len(block)
    numbers = np.concatenate([block.numbers for block in blocks])
    return RecordBlock(out, starts + TFRECORD.header_bytes, lengths, numbers)


def _frame_bytes(block: RecordBlock) -> int:
    """Return the size of the frames of a block's records."""
    return int(block.lengths.sum()) + len(block) * TFRECORD.overhead_bytes
