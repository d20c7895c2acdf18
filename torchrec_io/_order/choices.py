"""An endless sequence of choices among parts, by weight."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number
from .cycles import groups_of
from .selection import Numbers

# Choices are grouped into cells of this size: finding any of them takes computing one cell.
CELL_BITS = 16
CELL = 1 << CELL_BITS
# Number of cells kept in memory, about 650 KB each.
_CACHED_CELLS = 16


class _Cell(NamedTuple):
    """The choices of one cell.

    Attributes:
        chosen: Part chosen at each position of the cell, uint16 ``[CELL]``.
        ordinals: Number of its earlier choices in the cell, int32 ``[CELL]``.
        positions: Positions of the first part, in order, then those of the second, and so on;
            int32 ``[CELL]``.
    """

    chosen: npt.NDArray[np.uint16]
    ordinals: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]


class Choices:
    """An endless sequence of choices among parts."""

    def __init__(self, weights: Sequence[float], name: str) -> None:
        self._counts = np.array(cell_counts(weights), np.int64)
        self._begins = np.cumsum(self._counts) - self._counts
        self._name = name

    def choices(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Return the part chosen at each position, and the number of its earlier choices."""
        chosen = np.empty(len(positions), np.int64)
        ordinals = np.empty(len(positions), np.int64)
        for at, number in groups_of(positions >> CELL_BITS):
            cell = _cell_of(self, number)
            inside = positions[at] & (CELL - 1)
            chosen[at] = cell.chosen[inside]
            ordinals[at] = cell.ordinals[inside] + number * self._counts[chosen[at]]
        return chosen, ordinals

    def end(self, sizes: Sequence[int]) -> int:
        """Return the first position that chooses a part more than ``sizes[part]`` times."""
        cells, ordinals = np.divmod(np.array(sizes, np.int64), self._counts)
        number = int(cells.min())
        first = np.flatnonzero(cells == number)
        positions = _cell_of(self, number).positions[self._begins[first] + ordinals[first]]
        return number * CELL + int(positions.min())

    def end_of_first(self, sizes: Numbers) -> int:
        """Return the first position before which each part was chosen ``sizes[part]`` times."""
        cells, ordinals = np.divmod(sizes - 1, self._counts)
        number = int(cells.max(initial=-1))
        if number < 0:  # all sizes are at most 0
            return 0
        last = np.flatnonzero(cells == number)
        positions = _cell_of(self, number).positions[self._begins[last] + ordinals[last]]
        return number * CELL + int(positions.max()) + 1

    def counts_before(self, position: int) -> Numbers:
        """Return the number of choices of each part before a position; int64 ``[parts]``."""
        number, inside = divmod(position, CELL)
        cell = _cell_of(self, number)
        in_cell = np.bincount(cell.chosen[:inside], minlength=len(self._counts))
        return self._counts * number + in_cell

    def make_cell(self, number: int) -> _Cell:
        """Compute the choices of a cell; :func:`_cell_of` caches some of them."""
        key = digest_number(f"{self._name}:{number}")
        in_parts = np.repeat(np.arange(len(self._counts), dtype=np.uint16), self._counts)
        chosen = in_parts[_core.permute(np.arange(CELL), CELL, key)]
        positions = np.argsort(chosen, kind="stable").astype(np.int32)
        ordinals = np.empty(CELL, np.int32)
        ordinals[positions] = np.arange(CELL) - np.repeat(self._begins, self._counts)
        return _Cell(chosen, ordinals, positions)


# A function cache needs no lock of our own, which a fork could leave locked.
@functools.lru_cache(maxsize=_CACHED_CELLS)
def _cell_of(choices: Choices, number: int) -> _Cell:
    return choices.make_cell(number)


def cell_counts(weights: Sequence[float]) -> list[int]:
    """Return the number of choices of each part in a cell.

    Each part's exact number is rounded down, and the rest goes to the parts that lost most by
    rounding. A part without any then takes one from the part that has most. Ties go to the first.

    Args:
        weights: Positive and finite weights, at most ``CELL`` of them.

    Returns:
        Positive numbers that sum to ``CELL``.
    """
    exact = [Fraction(weight) for weight in weights]
    scale = CELL / sum(exact)
    counts = [math.floor(weight * scale) for weight in exact]
    lost = [weight * scale - count for weight, count in zip(exact, counts, strict=True)]
    by_loss = sorted(range(len(lost)), key=lambda part: -lost[part])
    for part in by_loss[: CELL - sum(counts)]:
        counts[part] += 1
    most = [(-count, part) for part, count in enumerate(counts)]
    heapq.heapify(most)
    for part in [part for part, count in enumerate(counts) if count == 0]:
        count, largest = most[0]
        heapq.heapreplace(most, (count + 1, largest))
        counts[largest] -= 1
        counts[part] = 1
    return counts
