"""One order of the records of several datasets, mixed by weight."""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number
from ..checks import check_choice, counted
from .orders import ENDLESS, PositionOrder
from .selection import Mask, Numbers
from .shuffle import check_seed

# The rules for the end of an epoch of a mixture.
Stop: TypeAlias = Literal["first_exhausted", "all_exhausted", "endless"]

STOP_CHOICES: tuple[Stop, ...] = ("first_exhausted", "all_exhausted", "endless")

# Choices are grouped into cells of this size: finding any of them takes computing one cell.
CELL_BITS = 16
CELL = 1 << CELL_BITS
# Number of cells kept in memory, about 650 KB each.
_CACHED_CELLS = 16


class MixedOrder(PositionOrder):
    """Several orders mixed by weight.

    The part chosen at a position depends on the seed, the weights and, if parts drop out, on their
    numbers of records. It is the same in every epoch. The record does change: the i-th choice of a
    part is position i of that part's own order of the epoch. Every cell of 2**16 positions has a
    fixed number of choices of each part, as near to its weight as possible and at least 1, in a
    random order.

    End of an epoch:

    - ``"first_exhausted"``: An epoch ends before the first choice of a part that has no record
      left.
    - ``"all_exhausted"``: A part that is chosen and has no record left drops out. The others
      continue by their weights, so each record comes exactly once.
    - ``"endless"``: An epoch never ends. An exhausted part starts again: its cycle c, counted from
      0, in epoch e of the mixture is epoch ``e + c`` of its own order. The length is
      :data:`~torchrec_io._order.orders.ENDLESS`.

    Instances are thread-safe and can be pickled if their parts can.

    Args:
        parts: The orders.
        weights: Weight of each part; positive, of any sum.
        seed: Any integer.
        stop: One of :data:`STOP_CHOICES`.
        bases: Number added to the record numbers of each part: that of its first record among all.

    Attributes:
        bases: Number added to the record numbers of each part.

    Raises:
        ValueError: If there are no parts or more than 2**16, a weight is not positive and finite,
            weights or bases do not match the parts, a part of an endless mixture has no records, or
            ``stop`` is not one of its choices.
    """

    def __init__(
        self,
        parts: Sequence[PositionOrder],
        weights: Sequence[float],
        seed: int,
        stop: Stop,
        bases: Sequence[int],
    ) -> None:
        check_choice("stop", stop, STOP_CHOICES)
        if not 1 <= len(parts) <= CELL:
            raise ValueError(f"the number of parts must be from 1 to {CELL}, got {len(parts)}")
        if not len(parts) == len(weights) == len(bases):
            raise ValueError(
                f"weights and bases must have one value for each of {counted(len(parts), 'part')}, "
                f"got {len(weights)} and {len(bases)}"
            )
        self._parts = tuple(parts)
        self._weights = tuple(float(weight) for weight in weights)
        for number, weight in enumerate(self._weights):
            if not (weight > 0 and math.isfinite(weight)):
                raise ValueError(f"weight {number} must be positive and finite, got {weight}")
        self._seed = check_seed(seed)
        self._stop: Stop = stop
        self.bases = tuple(int(base) for base in bases)
        self._sizes = tuple(len(part) for part in self._parts)
        if stop == "endless" and 0 in self._sizes:
            raise ValueError(
                f"every part of an endless mixture must have records, part {self._sizes.index(0)} "
                "has none"
            )
        self._size = self._count()

    def __len__(self) -> int:
        return self._size

    @property
    def rule(self) -> str:
        """Weights and end of an epoch, as they are written in a call of ``mix``."""
        return f"weights={list(self._weights)}, stop={self._stop!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return MixedOrder, (self._parts, self._weights, self._seed, self._stop, self.bases)

    @property
    def seed(self) -> int:
        """Seed of the choice between parts. Their own seeds are in their orders."""
        return self._seed

    def contains(self, numbers: Numbers) -> Mask:
        """Return whether each record may come in an epoch; see :meth:`PositionOrder.contains`."""
        found = np.empty(len(numbers), np.bool_)
        for part, at, own in self.by_part(numbers):
            found[at] = self._parts[part].contains(own)
        return found

    def part_of(self, numbers: Numbers) -> Numbers:
        """Return the part of each record number; int64 ``[n]``."""
        return np.searchsorted(self.bases, numbers, side="right") - 1

    def by_part(self, numbers: Numbers) -> list[tuple[int, Numbers, Numbers]]:
        """Return the records of each part that has any.

        Args:
            numbers: Record numbers; int64 ``[n]``.

        Returns:
            The part, the positions of its records in ``numbers``, ascending, and their numbers in
            the part; int64 ``[m]`` each.
        """
        part_of = self.part_of(numbers)
        places = [(part, np.flatnonzero(part_of == part)) for part in np.unique(part_of).tolist()]
        return [(part, at, numbers[at] - self.bases[part]) for part, at in places]

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Return the record numbers at positions of an epoch's order.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.
            epoch: Number of the epoch.

        Returns:
            int64 ``[n]``.

        Raises:
            IndexError: If a position is out of its range.
        """
        chosen, ordinals = self.choices(positions)
        numbers = np.empty(len(positions), np.int64)
        for part in np.unique(chosen).tolist():
            at = np.flatnonzero(chosen == part)
            numbers[at] = self._records_of(part, ordinals[at], epoch) + self.bases[part]
        return numbers

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on."""
        return {
            "parts": {str(i): part.describe() for i, part in enumerate(self._parts)},
            "weights": list(self._weights),
            "seed": self._seed,
            "stop": self._stop,
        }

    def choices(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Return the part chosen at each position, and the number of its earlier choices.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.

        Returns:
            Two int64 ``[n]``.

        Raises:
            IndexError: If a position is out of its range.
        """
        if len(positions) and not 0 <= positions.min() <= positions.max() < self._size:
            raise IndexError(f"a position lies outside 0..{self._size - 1}")
        chosen = np.empty(len(positions), np.int64)
        ordinals = np.empty(len(positions), np.int64)
        phases = self._phases
        begins = [phase.begin for phase in phases]
        for at, number in _groups(np.searchsorted(begins, positions, side="right") - 1):
            phase = phases[number]
            of_alive, since = phase.mix.choices(positions[at] - phase.begin)
            chosen[at] = phase.parts[of_alive]
            ordinals[at] = since + phase.taken[of_alive]
        return chosen, ordinals

    def _records_of(self, part: int, ordinals: Numbers, epoch: int) -> Numbers:
        if self._stop != "endless":
            return self._parts[part].at(ordinals, epoch)
        numbers = np.empty(len(ordinals), np.int64)
        cycles, positions = np.divmod(ordinals, self._sizes[part])
        for at, cycle in _groups(cycles):
            numbers[at] = self._parts[part].at(positions[at], epoch + cycle)
        return numbers

    def _count(self) -> int:
        if self._stop == "endless":
            return ENDLESS
        if self._stop == "all_exhausted":
            return sum(self._sizes)
        return self._phases[0].mix.end(self._sizes)

    @functools.cached_property
    def _phases(self) -> tuple[_Phase, ...]:
        """The phases of an epoch; there is one unless parts drop out."""
        phases: list[_Phase] = []
        left = np.array(self._sizes, np.int64)
        parts = np.arange(len(left))
        begin = 0
        if self._stop == "all_exhausted":
            parts = parts[left > 0]
        while len(parts):
            weights = [self._weights[part] for part in parts]
            mix = _Choices(weights, f"mix:{self._seed}:{len(phases)}")
            phases.append(_Phase(begin, parts, np.array(self._sizes)[parts] - left[parts], mix))
            if self._stop != "all_exhausted":
                break
            end = mix.end(left[parts].tolist())
            left[parts] -= mix.counts_before(end)
            begin += end
            parts = parts[left[parts] > 0]
        return tuple(phases)


@dataclass(frozen=True)
class _Phase:
    """A part of an epoch during which the same parts have records left.

    Attributes:
        begin: First position of the phase.
        parts: Numbers of the parts that have records left.
        taken: Number of records of each of them that came before.
        mix: The choices among them.
    """

    begin: int
    parts: Numbers
    taken: Numbers
    mix: _Choices


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


class _Choices:
    """An endless sequence of choices among parts."""

    def __init__(self, weights: Sequence[float], name: str) -> None:
        self._counts = np.array(cell_counts(weights), np.int64)
        self._begins = np.cumsum(self._counts) - self._counts
        self._name = name

    def choices(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Return the part chosen at each position, and the number of its earlier choices."""
        chosen = np.empty(len(positions), np.int64)
        ordinals = np.empty(len(positions), np.int64)
        for at, number in _groups(positions >> CELL_BITS):
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

    def counts_before(self, position: int) -> Numbers:
        """Return the number of choices of each part before a position; int64 ``[parts]``."""
        number, inside = divmod(position, CELL)
        in_cell = np.bincount(_cell_of(self, number).chosen[:inside], minlength=len(self._counts))
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
def _cell_of(choices: _Choices, number: int) -> _Cell:
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


def _groups(values: Numbers) -> list[tuple[slice | Numbers, int]]:
    """Return each distinct value with the indices at which it occurs."""
    if len(values) == 0:
        return []
    if (values == values[0]).all():
        return [(slice(None), int(values[0]))]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    return list(zip(np.split(order, starts[1:]), ordered[starts].tolist(), strict=True))
