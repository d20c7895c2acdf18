"""A shuffle of records that arrive in order, which holds a limited number of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..storage.byte_source import Ints
from .formats import TFRECORD
from .record_block import RecordBlock

_DRAINED_AT_ONCE = 256


class ShuffleWindow:
    """A buffer of records. When it is full, each new record replaces a random one.

    The choice depends on the number of records that came before, not on how many come at once. The
    buffers of all blocks that go in hold whole frames, and those that go out hold nothing else.

    Args:
        size: Number of records that the window holds.
        seed: Seed of the random choices; non-negative integers.
        numbers: Dtype of the blocks' ``numbers``.
    """

    def __init__(self, size: int, seed: list[int], numbers: np.dtype[Any]) -> None:
        self._size = size
        # NumPy keeps the stream of this generator stable, but not that of distributions.
        self._bits = np.random.PCG64(seed)
        self._numbers = numbers
        self._held: list[tuple[bytes, bytes]] = []  # frame and number of each record

    def push(self, block: RecordBlock) -> RecordBlock:
        """Take records in, and return those that they replace."""
        sizes = block.lengths + TFRECORD.overhead_bytes
        number_bytes = np.full(len(block), self._numbers.itemsize)
        frames = _split(block.buffer.tobytes(), block.starts - TFRECORD.header_bytes, sizes)
        numbers = _split(
            block.numbers.tobytes(), np.cumsum(number_bytes) - number_bytes, number_bytes
        )
        rows = [*zip(frames, numbers, strict=True)]
        more = self._size - len(self._held)
        self._held += rows[:more]
        rows, held = rows[more:], self._held
        slots = self._bits.random_raw(len(rows)) % np.uint64(self._size)
        for position, slot in enumerate(slots.tolist()):
            rows[position], held[slot] = held[slot], rows[position]
        return self._block_of(rows)

    def drain(self) -> Iterator[RecordBlock]:
        """Yield all remaining records."""
        held, self._held = self._held, []
        order = np.argsort(self._bits.random_raw(len(held)), kind="stable").tolist()
        for at in range(0, len(order), _DRAINED_AT_ONCE):
            yield self._block_of([held[place] for place in order[at : at + _DRAINED_AT_ONCE]])

    def _block_of(self, rows: Sequence[tuple[bytes, bytes]]) -> RecordBlock:
        sizes = np.array([len(frame) for frame, _ in rows], np.int64)
        return RecordBlock(
            np.frombuffer(bytearray().join([frame for frame, _ in rows]), np.uint8),
            np.cumsum(sizes) - sizes + TFRECORD.header_bytes,
            sizes - TFRECORD.overhead_bytes,
            np.frombuffer(b"".join([number for _, number in rows]), self._numbers),
        )


def _split(data: bytes, starts: Ints, sizes: Ints) -> list[bytes]:
    """Return parts of bytes."""
    bounds = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    return [data[start:end] for start, end in bounds]
