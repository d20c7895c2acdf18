"""A random sample of a stream."""

from __future__ import annotations

import bisect
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
        # Items by their random numbers: the one with the largest number is dropped.
        self._kept: list[tuple[float, int, T]] = []

    def offer(self, count: int, item_at: Callable[[int], T]) -> None:
        """Offer items to the sample. Few items are made that the sample does not keep."""
        numbers = self._random.random(count)
        limit = self._kept[-1][0] if len(self._kept) == self._size else 1.0
        for position in np.flatnonzero(numbers < limit).tolist():
            entry = float(numbers[position]), self._offered + position, item_at(position)
            bisect.insort(self._kept, entry)
            del self._kept[self._size :]
        self._offered += count

    @property
    def items(self) -> list[T]:
        """The sample, in the order of the stream."""
        return [item for _, _, item in sorted(self._kept, key=lambda entry: entry[1])]
