"""The blocks of an object or file that a process has open."""

from __future__ import annotations

import time
import weakref
from typing import Protocol

from .block_file import SECONDS_BETWEEN_TOUCHES, CachedBlock
from .folder import CacheFolder


class NamedBlocks(Protocol):
    """Names and sizes of the blocks of an object or file."""

    @property
    def folder(self) -> CacheFolder:
        """The folder of the cache."""

    def name(self, number: int) -> str:
        """Return the name of a block."""

    def size_of(self, number: int) -> int:
        """Return the size of a block."""


class BlockTable:
    """Blocks that are cached, opened when they are first used.

    Safe to use from several threads, and after a fork: there is no lock.

    Args:
        blocks: Names and sizes of the blocks.
    """

    def __init__(self, blocks: NamedBlocks) -> None:
        self._named = blocks
        self._open: dict[int, CachedBlock] = {}
        self._self = weakref.ref(self)

    def find(self, numbers: list[int]) -> list[CachedBlock | None]:
        """Return blocks, None for each that is not cached. They count as used now."""
        get = self._open.get
        found = [get(number) for number in numbers]
        if None in found:
            found = [get(number) or self.open(number) for number in numbers]
        now = time.monotonic()
        before = now - SECONDS_BETWEEN_TOUCHES
        for block in found:
            if block is not None and block.touched < before:
                block.touch(now)
        return found

    def open(self, number: int) -> CachedBlock | None:
        """Open a block, and return it if it is cached."""
        block = self._named.folder.open(self._named.name(number), self._named.size_of(number))
        if block is not None:
            self._open[number] = block
            # Among those of all objects, the one that was opened first is closed.
            opened = self._named.folder.opened
            opened.append((self._self, number))
            while len(opened) > self._named.folder.most_open:
                other, oldest = opened.popleft()
                if (table := other()) is not None:
                    table._open.pop(oldest, None)  # noqa: SLF001  # of this class
        return block

    def discard(self, block: CachedBlock) -> bool:
        """Remove a damaged block from the cache; return whether it is gone."""
        is_gone = self._named.folder.discard(block.name)
        for number, each in list(self._open.items()):
            if each is block:
                self._open.pop(number, None)
        return is_gone
