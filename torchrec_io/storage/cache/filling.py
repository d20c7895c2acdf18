"""Blocks that are brought into memory: from the cache, or by one download for all processes."""

from __future__ import annotations

import errno
import logging
import os
import random
import time

import numpy as np

from .folder import CacheFullError, Claim
from .object_blocks import ObjectBlocks

logger = logging.getLogger("torchrec_io")

# A block that another process has claimed for longer is downloaded without the cache: that process
# may be stopped.
_MOST_SECONDS = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05


class BlockFill:
    """Whole blocks of an object that are brought into memory.

    The caller downloads what :meth:`next_runs` returns, passes each run to :meth:`store`, and
    repeats that until :attr:`is_done`. It never waits for others while it has claims, so processes
    do not wait for each other in a circle.

    Args:
        blocks: The blocks of the object.
        begin: First byte of the range, where a block begins.
        memory: Memory for the range, which ends where a block or the object ends.

    Attributes:
        trouble: Why blocks could not be written to the cache; ``""`` if they could.
    """

    def __init__(self, blocks: ObjectBlocks, begin: int, memory: memoryview) -> None:
        self._blocks = blocks
        self._begin = begin
        self._memory = memory
        first = begin // blocks.block_bytes
        count = -(-len(memory) // blocks.block_bytes)
        self._missing = set(range(first, first + count))
        self._claims: dict[int, Claim] = {}
        self._unusable: set[int] = set()  # damaged blocks of other users, which stay
        self._waiting_since = time.monotonic()
        self._pause = _FIRST_PAUSE
        self.trouble = ""

    @property
    def is_done(self) -> bool:
        """True if all blocks are in memory."""
        return not self._missing

    def next_runs(self) -> list[tuple[int, int]]:
        """Read the blocks that are cached, and claim others.

        Returns:
            Offset and size of each range of the object to download now. If there is none, other
            processes download what is missing.
        """
        before = len(self._missing)
        mine = [number for number in sorted(self._missing) if self._is_to_download(number)]
        if mine or len(self._missing) < before:
            self._waiting_since = time.monotonic()
            self._pause = _FIRST_PAUSE
        if not mine:
            return []
        firsts = [number for number in mine if number - 1 not in mine]
        lasts = [number for number in mine if number + 1 not in mine]
        size = self._blocks.block_bytes
        return [
            (first * size, min((last + 1) * size, self._blocks.size) - first * size)
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def store(self, begin: int, size: int) -> None:
        """Write a run that was downloaded to the cache."""
        first = begin // self._blocks.block_bytes
        for number in range(first, first + -(-size // self._blocks.block_bytes)):
            claim = self._claims.pop(number, None)
            if claim is not None:
                try:
                    claim.publish(self._target(number))
                except OSError as error:
                    self.trouble = reason_of(error)
            self._missing.discard(number)

    def pause(self) -> float:
        """Return how many seconds to wait for other processes."""
        self._pause = min(_LONGEST_PAUSE, 1.5 * self._pause)
        return random.uniform(self._pause / 2, self._pause)  # noqa: S311  # no secret

    def close(self) -> None:
        """Give up what is claimed, and was not downloaded."""
        while self._claims:
            self._claims.popitem()[1].abandon()

    def _target(self, number: int) -> memoryview:
        start = number * self._blocks.block_bytes - self._begin
        return self._memory[start : start + self._blocks.size_of(number)]

    def _is_to_download(self, number: int) -> bool:
        """Return whether a block is to be downloaded now. Read it if it is cached."""
        if self._read_cached(number):
            self._missing.discard(number)
            return False
        return bool(self.trouble) or number in self._unusable or self._claim(number)

    def _read_cached(self, number: int) -> bool:
        """Read a block, and return whether the cache had it."""
        name = self._blocks.name(number)
        found = self._blocks.folder.open(name, self._blocks.size_of(number))
        if found is None:
            return False
        if found.read(np.frombuffer(self._target(number), np.uint8)):
            found.touch(time.monotonic())
            return True
        if not self._blocks.folder.discard(name):
            self._unusable.add(number)
        return False

    def _claim(self, number: int) -> bool:
        """Claim a block, and return whether it is to be downloaded now."""
        try:
            claim = self._blocks.folder.claim(
                self._blocks.name(number), self._blocks.size_of(number)
            )
        except CacheFullError:
            return True
        except OSError as error:
            self.trouble = reason_of(error)
            return True
        if claim is None:
            return time.monotonic() - self._waiting_since > _MOST_SECONDS
        self._claims[number] = claim
        return True


def reason_of(error: OSError) -> str:
    """Return why a cache cannot be written, in words."""
    return os.strerror(error.errno or errno.EIO)


_logged: dict[tuple[str, str], object] = {}


def log_trouble(directory: str, reason: str) -> None:
    """Log once that a cache cannot be written."""
    own = object()
    if _logged.setdefault((directory, reason), own) is own:  # of several threads, one logs
        logger.warning(
            "the cache %s cannot be written (%s): data is read without it", directory, reason
        )
