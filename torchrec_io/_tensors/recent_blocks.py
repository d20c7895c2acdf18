"""Memory of samples that are kept longer than the iteration is near them."""

from __future__ import annotations

import weakref
from collections import deque
from sys import getrefcount
from typing import Any

from .sample import Sample

# Blocks of which samples are still in use are kept up to this number and size: a DataLoader that
# collects a batch uses samples of several blocks, and joins them faster if they are not copied.
_MOST_BLOCKS = 16
_MOST_BLOCK_BYTES = 16 << 20
# What getrefcount() counts for an object that is in one list alone. If that is less than it says
# for a sample, somebody may refer to the sample; weak references then tell.
_ALONE = sum(map(getrefcount, [object()]))


class RecentBlocks:
    """The last blocks of an iteration of which samples are still in use.

    Samples of blocks before these copy their own rows.
    """

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, list[weakref.ref[Sample]]]] = deque()
        self._size = 0

    def add(self, samples: list[Any]) -> None:
        """Add a block that the iteration moves past, and empty the list of its samples.

        Items that a function made are left alone, and samples among them.
        """
        if {*map(type, samples)} != {Sample}:
            return
        arena = samples[0].place[0].columns.arena
        size = 0 if arena is None else arena.numel()
        if sum(map(getrefcount, samples)) == _ALONE * len(samples):
            samples.clear()  # as usual: nobody else refers to them
            return
        kept = [*map(weakref.ref, samples)]
        samples.clear()
        kept = [reference for reference in kept if reference() is not None]
        if not kept:
            return
        self._blocks.append((size, kept))
        self._size += size
        while len(self._blocks) > _MOST_BLOCKS or self._size > _MOST_BLOCK_BYTES:
            size, kept = self._blocks.popleft()
            self._size -= size
            for reference in kept:
                sample = reference()
                if sample is not None:
                    sample.leave()
