"""A shuffle of records that come one after the other: each is picked from those held at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .formats import TFRECORD
from .reader import RecordBlock

_OVERHEAD = TFRECORD.header_bytes + TFRECORD.footer_bytes
_DRAINED_AT_ONCE = 256


class ShuffleWindow:
    """Holds up to so many records. Each that comes in beyond those pushes out one of them.

    Which one depends on how many came before, not on how many come in at once. Blocks that come in
    and go out have the records' whole frames in their buffers, in order and without gaps.

    Args:
        size: How many records are held.
        seed: Of the choice; whole numbers of at least 0.
        numbers: Type of the blocks' ``numbers``.
    """

    def __init__(self, size: int, seed: list[int], numbers: np.dtype[Any]) -> None:
        self._size = size
        # Of this generator, unlike of what is built on it, NumPy keeps the numbers as they are.
        self._bits = np.random.PCG64(seed)
        # Where the frame of each held record is, and how long; then room for more records.
        self._row = np.dtype([("start", np.int64), ("size", np.int64), ("number", numbers)])
        self._held = np.empty(0, self._row)
        self._count = 0
        # The held frames, among some that are gone; then room for more.
        self._store = np.empty(0, np.uint8)
        self._end = 0

    def push(self, block: RecordBlock) -> RecordBlock:
        """Takes records in; gives those that they push out."""
        self._make_room(len(block.buffer))
        rows = np.empty(len(block), self._row)
        rows["start"] = block.starts - TFRECORD.header_bytes + self._end
        rows["size"] = block.lengths + _OVERHEAD
        rows["number"] = block.numbers
        self._store[self._end : self._end + len(block.buffer)] = block.buffer
        self._end += len(block.buffer)
        more = min(self._size - self._count, len(rows))
        self._hold(rows[:more])
        return self._gathered(self._exchange(rows[more:]))

    def drain(self) -> Iterator[RecordBlock]:
        """Gives all that are still held."""
        order = np.argsort(self._bits.random_raw(self._count), kind="stable")
        self._count = 0
        for at in range(0, len(order), _DRAINED_AT_ONCE):
            yield self._gathered(self._held[order[at : at + _DRAINED_AT_ONCE]])

    def _hold(self, rows: npt.NDArray[np.void]) -> None:
        if self._count + len(rows) > len(self._held):
            room = np.empty(min(self._size, 2 * (self._count + len(rows))), self._row)
            room[: self._count] = self._held[: self._count]
            self._held = room
        self._held[self._count : self._count + len(rows)] = rows
        self._count += len(rows)

    def _exchange(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Puts each row in place of one chosen at random, one after the other; gives those."""
        chosen = self._bits.random_raw(len(rows)) % np.uint64(self._size)
        # Those of one place stand together then, in their order: each pushes out the one before it,
        # the first of them what was held, and the last of them stays.
        order = np.argsort(chosen, kind="stable")
        places = chosen[order]
        follows = np.zeros(len(rows) + 1, bool)
        follows[1:-1] = places[1:] == places[:-1]
        again = np.flatnonzero(follows[:-1])
        firsts = np.flatnonzero(~follows[:-1])
        lasts = np.flatnonzero(~follows[1:])
        out = np.empty(len(rows), self._row)
        out[order[firsts]] = self._held[places[firsts]]
        out[order[again]] = rows[order[again - 1]]
        self._held[places[lasts]] = rows[order[lasts]]
        return out

    def _make_room(self, size: int) -> None:
        """Moves the held frames together where no so many bytes are left behind them."""
        if self._end + size <= len(self._store):
            return
        # In the order in which they lie there, none is written over that is still to be moved.
        order = np.argsort(self._held["start"][: self._count])
        held = self._held[order]
        total = int(held["size"].sum())
        moved = np.cumsum(held["size"]) - held["size"]
        # So much room that moving costs less than taking in, and no more, for there are windows of
        # all the memory that a machine has.
        store = self._store
        if len(store) < total + total // 4 + size:
            store = np.empty(total + total // 2 + 2 * size, np.uint8)
        self._copy(held, moved, store)
        self._held["start"][order] = moved
        self._store, self._end = store, total

    def _gathered(self, rows: npt.NDArray[np.void]) -> RecordBlock:
        sizes = rows["size"].astype(np.int64)
        places = np.cumsum(sizes) - sizes
        buffer = _core.allocate(int(sizes.sum()))
        self._copy(rows, places, buffer)
        starts = places + TFRECORD.header_bytes
        return RecordBlock(buffer, starts, sizes - _OVERHEAD, rows["number"].copy())

    def _copy(
        self, rows: npt.NDArray[np.void], places: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
    ) -> None:
        ranges = np.stack((rows["start"], rows["size"], places), axis=1)
        _core.gather(self._store[: self._end], ranges, out)
