"""One order over several datasets, by weight."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .orders import Order
from .shuffle import checked_seed

Numbers: TypeAlias = npt.NDArray[np.int64]

# When an epoch of a mix is over.
Stop: TypeAlias = Literal["first_exhausted", "all_exhausted", "endless"]

STOP_CHOICES: tuple[Stop, ...] = ("first_exhausted", "all_exhausted", "endless")

# The length of a mix without an end: more than anybody reads, and still a length to Python.
ENDLESS = 2**62

# Choices are arranged by cells of so many: any of them is found by computing one cell.
CELL_BITS = 16
CELL = 1 << CELL_BITS
# Cells of all mixes that are kept, about 650 KB each.
_CACHED_CELLS = 16


class MixedOrder:
    """Several orders in one, itself an :class:`Order`: at each position a part comes by its weight.

    Which part comes at a position depends on the seed, the weights and, where parts drop out, on
    how many records they have; it is the same in every epoch. What comes of the part does change:
    the i-th choice of a part gives position i of that part's own order of the epoch. In each
    stretch of 2**16 positions the parts come in fixed numbers, the nearest to their weights and at
    least 1, arranged at random.

    Ends of an epoch:

    - ``"first_exhausted"``: just before a part is chosen that has no record left. A part without
      records ends it just before the first choice of that part.
    - ``"all_exhausted"``: a part that is chosen and has no record left drops out, and the others go
      on by their weights until all are used up: each record comes exactly once.
    - ``"endless"``: never; a part that is used up begins again. Its cycle c, from 0, in epoch e of
      the mix is epoch ``e + c`` of its own order. The length is :data:`ENDLESS`.

    Instances may be used by several threads at once, and are pickled if their parts can be.

    Args:
        parts: The orders.
        weights: Of each part; positive, of any sum.
        seed: Any integer.
        stop: One of :data:`STOP_CHOICES`.
        bases: What is added to the record numbers of each part: the number of its first record
            among all.

    Raises:
        ValueError: there are no parts, or more than 2**16; a weight is not positive and finite;
            weights or bases are not one for each part; an endless mix has a part without records;
            or ``stop`` is none of those.
    """

    def __init__(
        self,
        parts: Sequence[Order],
        weights: Sequence[float],
        seed: int,
        stop: Stop,
        *,
        bases: Sequence[int],
    ) -> None:
        if stop not in STOP_CHOICES:
            raise ValueError(f"stop must be one of {STOP_CHOICES}, not {stop!r}")
        if not 1 <= len(parts) <= CELL:
            raise ValueError(f"a mix has from 1 to {CELL} parts, not {len(parts)}")
        if not len(parts) == len(weights) == len(bases):
            raise ValueError(
                f"{len(parts)} parts need as many weights and bases, "
                f"not {len(weights)} and {len(bases)}"
            )
        self._parts = tuple(parts)
        self._weights = tuple(float(weight) for weight in weights)
        for number, weight in enumerate(self._weights):
            if not (weight > 0 and math.isfinite(weight)):
                raise ValueError(f"weight {number} must be positive and finite, not {weight}")
        self._seed = checked_seed(seed)
        self._stop: Stop = stop
        self._bases = tuple(int(base) for base in bases)
        self._sizes = tuple(len(part) for part in self._parts)
        if stop == "endless" and 0 in self._sizes:
            raise ValueError(
                f"part {self._sizes.index(0)} has no records to give in an endless mix"
            )
        self._found_phases: tuple[_Phase, ...] | None = None
        self._size = self._count()

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._parts, self._weights, self._seed, self._stop, self._bases)

    @property
    def seed(self) -> int:
        """Of the choice between parts; theirs are in their orders."""
        return self._seed

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Record numbers at positions of an epoch's order.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.
            epoch: From 0.

        Returns:
            int64 ``[n]``.

        Raises:
            IndexError: a position is out of its range.
        """
        chosen, turns = self.choices(positions)
        numbers = np.empty(len(positions), np.int64)
        for part in np.unique(chosen).tolist():
            at = np.flatnonzero(chosen == part)
            numbers[at] = self._records_of(part, turns[at], epoch) + self._bases[part]
        return numbers

    def describe(self) -> dict[str, Any]:
        """All that the order depends on; see :meth:`Order.describe`."""
        return {
            "parts": {str(i): part.describe() for i, part in enumerate(self._parts)},
            "weights": list(self._weights),
            "seed": self._seed,
            "stop": self._stop,
        }

    def choices(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Which part comes at each position, and how many times it has come before.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.

        Returns:
            Two int64 ``[n]``.

        Raises:
            IndexError: a position is out of its range.
        """
        if len(positions) and not 0 <= positions.min() <= positions.max() < self._size:
            raise IndexError(f"a position lies outside 0..{self._size - 1}")
        chosen = np.empty(len(positions), np.int64)
        turns = np.empty(len(positions), np.int64)
        phases = self._phases()
        begins = [phase.begin for phase in phases]
        for at, number in _groups(np.searchsorted(begins, positions, side="right") - 1):
            phase = phases[number]
            of_alive, since = phase.mix.choices(positions[at] - phase.begin)
            chosen[at] = phase.parts[of_alive]
            turns[at] = since + phase.taken[of_alive]
        return chosen, turns

    def _records_of(self, part: int, turns: Numbers, epoch: int) -> Numbers:
        if self._stop != "endless":
            return self._parts[part].at(turns, epoch)
        numbers = np.empty(len(turns), np.int64)
        cycles, positions = np.divmod(turns, self._sizes[part])
        for at, cycle in _groups(cycles):
            numbers[at] = self._parts[part].at(positions[at], epoch + cycle)
        return numbers

    def _count(self) -> int:
        if self._stop == "endless":
            return ENDLESS
        if self._stop == "all_exhausted":
            return sum(self._sizes)
        return self._phases()[0].mix.end(self._sizes)

    def _phases(self) -> tuple[_Phase, ...]:
        # Two threads may both find them; they find the same.
        if self._found_phases is None:
            self._found_phases = self._find_phases()
        return self._found_phases

    def _find_phases(self) -> tuple[_Phase, ...]:
        """Stretches of the epoch in which no part drops out; the first alone if none ever does."""
        phases: list[_Phase] = []
        left = np.array(self._sizes, np.int64)
        parts = np.arange(len(left))
        begin = 0
        if self._stop == "all_exhausted":
            parts = parts[left > 0]
        while len(parts):
            weights = [self._weights[part] for part in parts]
            mix = _Mix(weights, f"mix:{self._seed}:{len(phases)}")
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
    """A stretch of an epoch in which the same parts are left.

    Attributes:
        begin: Its first position.
        parts: Which parts are left.
        taken: How many records of each of them came before.
        mix: Their choices.
    """

    begin: int
    parts: Numbers
    taken: Numbers
    mix: _Mix


class _Cell(NamedTuple):
    """Choices of one cell.

    Attributes:
        chosen: Which part comes at each place, uint16 ``[CELL]``.
        turns: How many times it has come before in the cell, int32 ``[CELL]``.
        places: Places of the first part, in order, then those of the second, and so on,
            int32 ``[CELL]``.
    """

    chosen: npt.NDArray[np.uint16]
    turns: npt.NDArray[np.int32]
    places: npt.NDArray[np.int32]


class _Mix:
    """Choices among parts that go on for ever."""

    def __init__(self, weights: Sequence[float], name: str) -> None:
        self._counts = np.array(cell_counts(weights), np.int64)
        self._begins = np.cumsum(self._counts) - self._counts
        self._name = name

    def choices(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Which part comes at each position, and how many times it has come before."""
        chosen = np.empty(len(positions), np.int64)
        turns = np.empty(len(positions), np.int64)
        for at, number in _groups(positions >> CELL_BITS):
            cell = _cell_of(self, number)
            places = positions[at] & (CELL - 1)
            chosen[at] = cell.chosen[places]
            turns[at] = cell.turns[places] + number * self._counts[chosen[at]]
        return chosen, turns

    def end(self, sizes: Sequence[int]) -> int:
        """The position of the first choice of a part that has come ``sizes`` times before."""
        cells, turns = np.divmod(np.array(sizes, np.int64), self._counts)
        number = int(cells.min())
        first = np.flatnonzero(cells == number)
        places = _cell_of(self, number).places[self._begins[first] + turns[first]]
        return number * CELL + int(places.min())

    def counts_before(self, position: int) -> Numbers:
        """How many times each part comes before a position: int64, one a part."""
        number, place = divmod(position, CELL)
        in_cell = np.bincount(_cell_of(self, number).chosen[:place], minlength=len(self._counts))
        return self._counts * number + in_cell

    def make_cell(self, number: int) -> _Cell:
        """The choices of a cell; :func:`_cell_of` keeps some of them."""
        text = f"{self._name}:{number}".encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
        dealt = np.repeat(np.arange(len(self._counts), dtype=np.uint16), self._counts)
        chosen = dealt[_core.permute(np.arange(CELL), CELL, key)]
        places = np.argsort(chosen, kind="stable").astype(np.int32)
        turns = np.empty(CELL, np.int32)
        turns[places] = np.arange(CELL) - np.repeat(self._begins, self._counts)
        return _Cell(chosen, turns, places)


# Shared by threads without a lock of ours, which a fork could leave locked.
@lru_cache(maxsize=_CACHED_CELLS)
def _cell_of(mix: _Mix, number: int) -> _Cell:
    return mix.make_cell(number)


def cell_counts(weights: Sequence[float]) -> list[int]:
    """How many of the choices of a cell are of each part.

    Each part's share of the cell is rounded down, and what is left goes to those that lost most by
    it; a part that has got none then takes one of the part that has most. Ties go to the first.

    Args:
        weights: Positive and finite, at most ``CELL`` of them.

    Returns:
        Positive numbers that sum to ``CELL``.
    """
    exact = [Fraction(weight) for weight in weights]
    share = CELL / sum(exact)
    counts = [math.floor(weight * share) for weight in exact]
    lost = [weight * share - count for weight, count in zip(exact, counts, strict=True)]
    by_loss = sorted(range(len(lost)), key=lambda part: -lost[part])
    for part in by_loss[: CELL - sum(counts)]:
        counts[part] += 1
    most = [(-count, part) for part, count in enumerate(counts)]
    heapq.heapify(most)
    for part in [part for part, count in enumerate(counts) if count == 0]:
        count, giver = most[0]
        heapq.heapreplace(most, (count + 1, giver))
        counts[giver] -= 1
        counts[part] = 1
    return counts


def _groups(values: Numbers) -> list[tuple[slice | Numbers, int]]:
    """Each value that there is, with where it stands."""
    if len(values) == 0:
        return []
    if (values == values[0]).all():
        return [(slice(None), int(values[0]))]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    return list(zip(np.split(order, starts[1:]), ordered[starts].tolist(), strict=True))


def _rebuild(
    parts: Sequence[Order], weights: Sequence[float], seed: int, stop: Stop, bases: Sequence[int]
) -> MixedOrder:
    return MixedOrder(parts, weights, seed, stop, bases=bases)
