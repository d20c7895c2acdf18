"""Blocks that are brought into memory: from the cache, or by one download for all processes."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import numpy as np

from .folder import Claim, reason_of
from .object_blocks import ObjectBlocks

# A block that another process has claimed for longer is downloaded without the cache: that process
# may be stopped.
_MOST_SECONDS = 60.0


class BlockFill:
    """Brings whole blocks of an object into memory.

    Args:
        blocks: The blocks of the object.
        begin: First byte of the range, where a block begins.
        memory: Memory for the range, which ends where a block or the object ends.

    Attributes:
        trouble: Why blocks could not be written to the cache; ``""`` if they could.
    """

    def __init__(self, blocks: ObjectBlocks, begin: int, memory: memoryview) -> None:
        self.trouble = ""
        self._blocks = blocks
        self._begin = begin
        self._memory = memory
        self._claims: dict[int, Claim] = {}

    def downloads(self) -> Generator[tuple[int, int], None, None]:
        """Read the blocks that are cached, and store those that the caller downloads.

        This never waits for others while it has claims, so processes do not wait for each other in
        a circle.

        Yields:
            Offset and size of a range of the object, which the caller downloads before it
            continues. If the size is 0, other processes download what is missing: the caller
            waits before it continues.
        """
        size = self._blocks.block_bytes
        first = self._begin // size
        missing = [*range(first, first - -len(self._memory) // size)]
        last_progress = time.monotonic()
        try:
            while missing:
                unread = [number for number in missing if not self._read(number)]
                is_late = time.monotonic() - last_progress > _MOST_SECONDS
                mine = [number for number in unread if number in self._claims]
                if self.trouble or is_late:
                    mine = unread
                for begin, end in _runs(mine):
                    yield begin * size, min(end * size, self._blocks.size) - begin * size
                    for number in range(begin, end):
                        self._store(number)
                left = [number for number in unread if number not in mine]
                if len(left) < len(missing):
                    last_progress = time.monotonic()
                if left and not mine:
                    yield self._begin, 0
                missing = left
        finally:
            while self._claims:
                self._claims.popitem()[1].abandon()

    def _read(self, number: int) -> bool:
        """Claim a block if that is possible, then read it; return whether it is cached.

        No other process stores the block once it is claimed.
        """
        if not self.trouble:
            try:
                claim = self._blocks.claim(number)
                if claim is not None:
                    self._claims[number] = claim
            except OSError as error:
                self.trouble = reason_of(error)
        is_read = self._blocks.read_into(number, np.frombuffer(self._target(number), np.uint8))
        if is_read and number in self._claims:
            self._claims.pop(number).abandon()
        return is_read

    def _store(self, number: int) -> None:
        """Store a block that was downloaded, if it is claimed."""
        if number in self._claims and not self.trouble:
            try:
                self._claims.pop(number).publish(self._target(number))
            except OSError as error:
                self.trouble = reason_of(error)

    def _target(self, number: int) -> memoryview:
        start = number * self._blocks.block_bytes - self._begin
        return self._memory[start : start + self._blocks.size_of(number)]


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first number of each run of consecutive ones, and the number after its last one."""
    for first in numbers:
        if first - 1 not in numbers:
            end = first
            while end in numbers:
                end += 1
            yield first, end
