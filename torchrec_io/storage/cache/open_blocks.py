"""Reads of ranges of an object from its blocks that are cached."""

from __future__ import annotations

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from .block_file import CachedBlock
from .block_table import BlockTable
from .object_blocks import ObjectBlocks


class OpenBlocks:
    """The blocks of an object that are cached, opened when they are first used.

    Safe to use from several threads, and after a fork: there is no lock.

    Args:
        blocks: The blocks of the object.
    """

    def __init__(self, blocks: ObjectBlocks) -> None:
        self._blocks = blocks
        self._table = BlockTable(blocks)

    def read(self, ranges: Ints, out: ByteBuffer) -> Ints:
        """Read the ranges whose blocks are all cached; return the numbers of the others.

        Damaged blocks are removed from the cache.

        Args:
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.
        """
        size = self._blocks.block_bytes
        found = self._table.find(_core.block_numbers(ranges, size))
        held = [block for block in found if block is not None]
        missing = _NONE
        whole = np.arange(len(ranges))
        if len(held) < len(found):
            missing = self._ranges_of(found, ranges)
            whole = np.delete(whole, missing)
            ranges = ranges[whole]
            found = self._table.find(_core.block_numbers(ranges, size))
            held = [block for block in found if block is not None]
            if len(held) < len(found):  # another thread found damage meanwhile
                return np.append(missing, whole)
        failed = _core.read_blocks([block.file for block in held], ranges, size, out)
        if failed:
            damaged = {id(held[position]): held[position] for position in failed}
            for block in damaged.values():
                self._table.discard(block)
            kept = [None if id(block) in damaged else block for block in held]
            missing = np.append(missing, whole[self._ranges_of(kept, ranges)])
        return missing

    def discard(self, ranges: Ints) -> None:
        """Remove the blocks of ranges from the cache."""
        for block in self._table.find(_core.block_numbers(ranges, self._blocks.block_bytes)):
            if block is not None:
                self._table.discard(block)

    def _ranges_of(self, found: list[CachedBlock | None], ranges: Ints) -> Ints:
        """Return the numbers of the ranges that have a block that was not found."""
        size = self._blocks.block_bytes
        counts = -(-ranges[:, :2].sum(axis=1) // size) - ranges[:, 0] // size
        counts[ranges[:, 1] == 0] = 0
        owners = np.repeat(np.arange(len(ranges)), counts)
        return np.unique(owners[[block is None for block in found]])


_NONE: Ints = np.empty(0, np.int64)
