"""A random sample of a stream."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class RandomSample(Generic[T]):
    """A uniform random sample of all items that were offered, the same in each run.

    Args:
        size: Largest number of items.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._random = np.random.default_rng(0)
        self._offered = 0
        # A heap of items by minus their random number: the item with the largest one is dropped.
        self._kept: list[tuple[float, int, T]] = []

    def offer(self, count: int, item_at: Callable[[int], T]) -> None:
        """Offer items to the sample. Only items that the sample keeps are made."""
        numbers = self._random.random(count)
        limit = -self._kept[0][0] if len(self._kept) == self._size else 1.0
        for position in np.flatnonzero(numbers < limit).tolist():
            number = -float(numbers[position])
            if len(self._kept) == self._size and number < self._kept[0][0]:
                continue
            entry = (number, self._offered + position, item_at(position))
            if len(self._kept) < self._size:
                heapq.heappush(self._kept, entry)
            else:
                heapq.heapreplace(self._kept, entry)
        self._offered += count

    @property
    def items(self) -> list[T]:
        """The sample, in the order of the stream."""
        return [item for _, _, item in sorted(self._kept, key=lambda entry: entry[1])]
