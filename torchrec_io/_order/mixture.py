"""One order of the records of several datasets, mixed by weight."""

from __future__ import annotations

import copy
import functools
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._records.repetitions import own_numbers, repeated
from .._storage.digest import digest_number
from ..checks import check_choice, check_integer, counted
from .continuation import Continuation, continue_parts
from .orders import ENDLESS, PositionOrder
from .selection import Mask, Numbers
from .shuffle import check_seed

# The rules for the end of an epoch of a mixture.
Stop: TypeAlias = Literal["first_exhausted", "all_exhausted", "each_once", "endless"]

STOP_CHOICES: tuple[Stop, ...] = ("first_exhausted", "all_exhausted", "each_once", "endless")

# One weight for each part; or such weights by the number of records of the epoch before them.
Weights: TypeAlias = Sequence[float] | Mapping[int, Sequence[float]]

# Choices are grouped into cells of this size: finding any of them takes computing one cell.
CELL_BITS = 16
CELL = 1 << CELL_BITS
# Number of cells kept in memory, about 650 KB each.
_CACHED_CELLS = 16
# Parts that are counted one by one.
_FEW_PARTS = 32


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
    - ``"all_exhausted"``: An exhausted part starts again, and an epoch ends with the last record
      of the part that is the last to be exhausted once. This is the rule of that name in
      ``interleave_datasets`` of Hugging Face Datasets: "stopped as soon as every samples of every
      dataset has been added at least once".
    - ``"each_once"``: A part that is chosen and has no record left drops out. The others
      continue by their weights, so each record comes exactly once (part i ``repeat[i]`` times).
    - ``"endless"``: An epoch never ends, and an exhausted part starts again. The length is
      :data:`~torchrec_io._order.orders.ENDLESS`.

    Each cycle of a part has an order of its own. In epoch e of the mixture, cycle c of a part,
    counted from 0, is epoch ``e * cycles + c`` of the part's own order, where ``cycles`` is its
    number of cycles in an epoch; ``e + c`` if epochs never end.

    Instances are thread-safe and can be pickled if their parts can.

    Args:
        parts: The orders. Mixed orders may be among them.
        weights: Weight of each part; positive, of any sum. Or weights by position: a mapping from
            the first position of an epoch at which they are used, the first of them 0, to the
            weights. These may be 0, but not always. If all records must come in an epoch, the last
            ones are positive.
        seed: Any integer.
        stop: One of :data:`STOP_CHOICES`.
        bases: Number added to the record numbers of each part: that of its first record among all.
        repeat: Number of cycles of each part in an epoch, for ``"each_once"``. Default: 1.
        continuation: Where the parts continue in one epoch. That epoch has the records that are
            left: a part that must not start again has those of its present cycle, and keys of
            ``weights`` count the records that came before, too. None if there is no such epoch.

    Attributes:
        bases: Number added to the record numbers of each part.
        source_bases: The same of each source. Sources are the parts, with the sources of a mixed
            part in its place.
        continuation: Where the parts continue in one epoch.

    Raises:
        ValueError: If there are no parts or more than 2**16, a weight is not positive and finite,
            weights or bases do not match the parts, a part that starts again has no records, one
            that must be exhausted is endless, or another argument is invalid.
    """

    def __init__(
        self,
        parts: Sequence[PositionOrder],
        weights: Weights,
        seed: int,
        stop: Stop,
        *,
        bases: Sequence[int],
        repeat: Sequence[int] | None = None,
        continuation: Continuation | None = None,
    ) -> None:
        check_choice("stop", stop, STOP_CHOICES)
        if not 1 <= len(parts) <= CELL:
            raise ValueError(f"the number of parts must be from 1 to {CELL}, got {len(parts)}")
        if len(bases) != len(parts):
            raise ValueError(
                f"bases must have one value for each of {counted(len(parts), 'part')}, "
                f"got {len(bases)}"
            )
        self._parts = tuple(parts)
        self._weights = _weights_by_position(weights, len(parts))
        self._seed = check_seed(seed)
        self._stop: Stop = stop
        self.bases = tuple(int(base) for base in bases)
        self.source_bases: tuple[int, ...] = tuple(
            base + inner
            for part, base in zip(parts, self.bases, strict=True)
            for inner in (part.source_bases if isinstance(part, MixedOrder) else (0,))
        )
        self._repeat = None if repeat is None else tuple(repeat)
        self.continuation = continuation
        self._sizes = tuple(len(part) for part in self._parts)
        self._check_parts()

    def _check_parts(self) -> None:
        """Raise ValueError if the weights or sizes of parts do not fit the end of an epoch."""
        used = [max(each) for each in zip(*self._weights.values(), strict=True)]
        last = [*self._weights.values()][-1]
        for number, (size, most) in enumerate(zip(self._sizes, used, strict=True)):
            if size > 0 and most == 0:
                raise ValueError(f"weight {number} must be positive and finite, got {most}")
            if size == 0 and most > 0 and self._stop in {"endless", "all_exhausted"}:
                raise ValueError(
                    f"with stop={self._stop!r} every part must have records, part {number} has none"
                )
            if self._stop not in {"each_once", "all_exhausted"}:
                continue
            if size == ENDLESS:
                raise ValueError(
                    f"part {number} is endless: stop must be 'endless' or 'first_exhausted', "
                    f"got {self._stop!r}"
                )
            if size > 0 and last[number] == 0:
                raise ValueError(
                    f"the last weights must be positive with stop={self._stop!r}, which takes all "
                    f"records, but weight {number} is 0"
                )

    def __len__(self) -> int:
        return self._size

    @property
    def rule(self) -> str:
        """Weights and end of an epoch, as they are written in a call of ``mix``."""
        if self._repeat is not None:
            return f"repeat={list(self._repeat)}"
        return f"weights={self._given_weights}, stop={self._stop!r}"

    @property
    def _given_weights(self) -> Any:
        """The weights as they were given: lists."""
        if len(self._weights) == 1:
            return list(self._weights[0])
        return {begin: list(weights) for begin, weights in self._weights.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        made = functools.partial(
            MixedOrder, bases=self.bases, repeat=self._repeat, continuation=self.continuation
        )
        return made, (self._parts, self._weights, self._seed, self._stop)

    def continued(self, continuation: Continuation | None) -> MixedOrder:
        """Return the same order whose parts continue in one epoch, or in none."""
        other = copy.copy(self)
        other.continuation = continuation
        return other

    def continued_after(self, state: Mapping[str, Any]) -> Continuation | None:
        """Return where the parts continue after a state of another mixture; None at an epoch's end.

        Raises:
            StateMismatchError: If the state does not tell that.
        """
        parts = [part.describe() for part in self._parts]
        return continue_parts(state, parts, self._start_of(state["epoch"]).epochs)

    @property
    def has_equal_epochs(self) -> bool:
        return self.continuation is None

    @property
    def seed(self) -> int:
        """Seed of the choice between parts. Their own seeds are in their orders."""
        return self._seed

    def contains(self, numbers: Numbers) -> Mask:
        """Return whether each record may come in an epoch; see :meth:`PositionOrder.contains`."""
        found = np.empty(len(numbers), np.bool_)
        for at, part in _groups(np.searchsorted(self.bases, numbers, side="right") - 1):
            found[at] = self._parts[part].contains(numbers[at] - self.bases[part])
        return found

    def source_of(self, numbers: Numbers) -> Numbers:
        """Return the source of each record number; int64 ``[n]``."""
        return np.searchsorted(self.source_bases, own_numbers(numbers), side="right") - 1

    def by_source(self, numbers: Numbers) -> list[tuple[int, Numbers, Numbers]]:
        """Return the records of each source that has any.

        Args:
            numbers: Record numbers; int64 ``[n]``.

        Returns:
            The source, the positions of its records in ``numbers``, ascending, and their numbers in
            the source; int64 ``[m]`` each.
        """
        found = self.source_of(numbers)
        places = [(source, np.flatnonzero(found == source)) for source in np.unique(found).tolist()]
        return [(source, at, numbers[at] - self.source_bases[source]) for source, at in places]

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Return the record numbers at positions of an epoch's order.

        Args:
            positions: int64 ``[n]``, each in ``0..count-1``.
            epoch: Number of the epoch.

        Returns:
            int64 ``[n]``.

        Raises:
            IndexError: If a position is out of its range.
        """
        chosen, ordinals = self.choices(positions, epoch)
        numbers = np.empty(len(positions), np.int64)
        for at, part in _groups(chosen):
            numbers[at] = self._records_of(part, ordinals[at], epoch) + self.bases[part]
        return numbers

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on."""
        weights = self._given_weights
        if isinstance(weights, dict):  # JSON has no other keys
            weights = {str(begin): each for begin, each in weights.items()}
        described = {
            "parts": {str(i): part.describe() for i, part in enumerate(self._parts)},
            "weights": weights,
            "seed": self._seed,
            "stop": self._stop,
        }
        if self._repeat is not None or self._stop == "all_exhausted":
            described["repeat"] = list(self._cycles)
        if self.continuation is not None:
            described["continued"] = self.continuation.describe()
        return described

    def describe_position(self, position: int, epoch: int) -> dict[str, Any]:
        """Return what a state holds about a position, in addition to it, as JSON values.

        Returns:
            ``sources``, the number of records of each source that came in the epoch; and ``parts``,
            from which a mixture of other weights or parts continues.
        """
        start = self._start_of(epoch)
        parts = {
            "position": start.position + position,
            "epochs": list(start.epochs),
            "taken": self.taken_before(position, epoch).tolist(),
            "has_ended": position >= self.count(epoch),
        }
        return {"sources": self.count_sources(position, epoch), "parts": parts}

    def count_sources(self, position: int, epoch: int) -> list[int]:
        """Return the number of records of each source before a position of an epoch."""
        counts: list[int] = []
        taken = self.taken_before(position, epoch).tolist()
        for part, size, first, count in zip(
            self._parts, self._sizes, self._start_of(epoch).epochs, taken, strict=True
        ):
            if not isinstance(part, MixedOrder):
                counts.append(count)
                continue
            cycles, rest = divmod(count, max(1, size))
            whole = part.count_sources(size, first) if cycles else [0] * len(part.source_bases)
            inner = part.count_sources(rest, first + cycles)
            counts += [cycles * each + more for each, more in zip(whole, inner, strict=True)]
        return counts

    def choices(self, positions: Numbers, epoch: int = 0) -> tuple[Numbers, Numbers]:
        """Return the part chosen at each position, and the number of its earlier choices.

        Args:
            positions: int64 ``[n]``, each in ``0..count-1``.
            epoch: Number of the epoch.

        Returns:
            Two int64 ``[n]``.

        Raises:
            IndexError: If a position is out of its range.
        """
        size = self.count(epoch)
        if len(positions) and not 0 <= positions.min() <= positions.max() < size:
            raise IndexError(f"a position lies outside 0..{size - 1}")
        chosen = np.empty(len(positions), np.int64)
        ordinals = np.empty(len(positions), np.int64)
        phases, _ = self._planned(epoch)
        begins = [phase.begin for phase in phases]
        for at, number in _groups(np.searchsorted(begins, positions, side="right") - 1):
            phase = phases[number]
            of_active, since = phase.mix.choices(positions[at] - phase.begin)
            chosen[at] = phase.parts[of_active]
            ordinals[at] = since + phase.taken[chosen[at]]
        return chosen, ordinals

    def _records_of(self, part: int, ordinals: Numbers, epoch: int) -> Numbers:
        first = self._start_of(epoch).epochs[part]
        numbers = np.empty(len(ordinals), np.int64)
        cycles, positions = np.divmod(ordinals, self._sizes[part])
        for at, cycle in _groups(cycles):
            records = self._parts[part].at(positions[at], first + cycle)
            numbers[at] = repeated(records, cycle)
        return numbers

    @functools.cached_property
    def _size(self) -> int:
        if self._stop == "endless":
            return ENDLESS
        if self._stop == "each_once":
            return sum(map(math.prod, zip(self._sizes, self._cycles, strict=True)))
        return self._regular[1]

    @functools.cached_property
    def _cycles(self) -> tuple[int, ...]:
        """Number of cycles of each part in an epoch that ends."""
        if self._stop != "all_exhausted":
            return self._repeat or (1,) * len(self._parts)
        taken = _taken_before(self._regular[0], len(self)).tolist()
        return tuple(
            -(-count // max(1, size)) for count, size in zip(taken, self._sizes, strict=True)
        )

    def _start_of(self, epoch: int) -> Continuation:
        """Return where the parts are at the start of an epoch."""
        if self.continuation is not None and self.continuation.epoch == epoch:
            return self.continuation
        epochs = tuple(epoch * cycles for cycles in self._cycles)
        return Continuation(epoch, 0, epochs, (0,) * len(epochs))

    def _is_continued(self, epoch: int) -> bool:
        return self.continuation is not None and self.continuation.epoch == epoch

    def count(self, epoch: int) -> int:
        """Return the number of records in an epoch: the same in all in which no part continues."""
        return self._planned(epoch)[1] if self._is_continued(epoch) else len(self)

    def taken_before(self, position: int, epoch: int = 0) -> Numbers:
        """Return the number of records of each part before a position of an epoch.

        Args:
            position: From 0 to the length of the epoch.
            epoch: Number of the epoch.

        Returns:
            int64 ``[parts]``. In an epoch in which parts continue, it starts with their numbers.
        """
        phases, _ = self._planned(epoch)
        if phases:
            return _taken_before(phases, position)
        return np.array(self._start_of(epoch).taken, np.int64)

    def _planned(self, epoch: int) -> tuple[tuple[_Phase, ...], int]:
        """Return the phases of an epoch, and its length."""
        return self._rest if self._is_continued(epoch) else self._regular

    @functools.cached_property
    def _regular(self) -> tuple[tuple[_Phase, ...], int]:
        """The phases of an epoch in which no part continues, and its length."""
        return self._plan(0, np.zeros(len(self._parts), np.int64))

    @functools.cached_property
    def _rest(self) -> tuple[tuple[_Phase, ...], int]:
        """The phases of the epoch in which parts continue, and its length."""
        assert self.continuation is not None
        return self._plan(self.continuation.position, np.array(self.continuation.taken, np.int64))

    def _plan(self, before: int, taken: Numbers) -> tuple[tuple[_Phase, ...], int]:
        """Return phases, and their length.

        Args:
            before: Number of records of the epoch that came before.
            taken: Number of records of each part that came before; int64 ``[parts]``.
        """
        limits = self._limits(taken)
        ends = [*(max(0, begin - before) for begin in [*self._weights][1:]), ENDLESS]
        phases: list[_Phase] = []
        begin = 0
        for end, weights in zip(ends, self._weights.values(), strict=True):
            while begin < end:
                is_active = np.array(weights) > 0
                if self._stop == "each_once":
                    is_active &= taken < limits
                parts = np.flatnonzero(is_active)
                if not len(parts):
                    break  # the next weights are used at once
                mix = _Choices([weights[part] for part in parts], f"mix:{self._seed}:{len(phases)}")
                phases.append(_Phase(begin, parts, taken, mix))
                length = self._length_of(phases[-1], limits - taken)
                is_end = length < end - begin and self._stop != "each_once"
                length = min(length, end - begin)
                begin += length
                if is_end or begin >= ENDLESS:
                    return tuple(phases), begin
                taken = taken.copy()
                taken[parts] += mix.counts_before(length)
        return tuple(phases), begin

    def _limits(self, taken: Numbers) -> Numbers:
        """Return the number of records of each part at which it is exhausted; int64 ``[parts]``.

        Args:
            taken: Number of its records that came before the epoch continues: whole cycles of them
                are over.
        """
        sizes = np.array(self._sizes, np.int64)
        if self._repeat is not None:
            return sizes * np.array(self._repeat, np.int64)
        if self._stop == "all_exhausted":
            return sizes
        return sizes * np.maximum(1, -(-taken // np.maximum(1, sizes)))

    def _length_of(self, phase: _Phase, left: Numbers) -> int:
        """Return the length of a phase whose weights do not change.

        Args:
            phase: The phase.
            left: Number of records that each part has left; int64 ``[parts]``.
        """
        if self._stop == "endless":
            return ENDLESS
        if self._stop != "all_exhausted":
            return phase.mix.end(left[phase.parts].tolist())
        if (np.delete(left, phase.parts) > 0).any():
            return ENDLESS
        return phase.mix.end_of_first(left[phase.parts])


def _taken_before(phases: Sequence[_Phase], position: int) -> Numbers:
    """Return the number of records of each part before a position."""
    phase = [each for each in phases if each.begin <= position][-1]
    taken = phase.taken.copy()
    taken[phase.parts] += phase.mix.counts_before(position - phase.begin)
    return taken


def _weights_by_position(weights: Weights, num_parts: int) -> dict[int, tuple[float, ...]]:
    """Return weights by the first position at which they are used, in order.

    Raises:
        ValueError: If they do not match the parts, or a value is invalid.
    """
    given = dict(weights) if isinstance(weights, Mapping) else {0: weights}
    begins = sorted(check_integer("the key of weights", begin) for begin in given)
    if begins[:1] != [0]:
        raise ValueError(f"the first key of weights must be 0, got {begins[0] if begins else {}}")
    found = {begin: tuple(float(weight) for weight in given[begin]) for begin in begins}
    for each in found.values():
        if len(each) != num_parts:
            raise ValueError(
                f"weights must have one number for each of {counted(num_parts, 'dataset')}, "
                f"got {len(each)}"
            )
        for number, weight in enumerate(each):
            if not (weight >= 0 and math.isfinite(weight)):
                raise ValueError(f"weight {number} must be positive and finite, got {weight}")
        if not any(each):
            raise ValueError(f"weights must hold a positive number, got {list(each)}")
    return found


@dataclass(frozen=True)
class _Phase:
    """A part of an epoch during which the same parts are chosen, by the same weights.

    Attributes:
        begin: First position of the phase.
        parts: Numbers of the parts that are chosen.
        taken: Number of records of each part, chosen or not, that came before.
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
        if len(self._counts) > _FEW_PARTS:
            in_cell = np.bincount(cell.chosen[:inside], minlength=len(self._counts))
        else:  # a state is taken after each batch
            by_part = np.split(cell.positions, self._begins[1:])
            in_cell = np.array([own.searchsorted(np.int32(inside)) for own in by_part], np.int64)
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
