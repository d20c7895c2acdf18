"""One order of the records of several datasets, mixed by weight."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from .. import _core
from .._records.repetitions import own_numbers, repeated
from ..checks import check_choice, check_integer, counted
from .choices import CELL, Choices
from .continuation import Continuation, continue_parts
from .cycles import Cycles, groups_of
from .orders import ENDLESS, Order, PositionOrder
from .selection import Mask, Numbers
from .shuffle import check_seed

# The rules for the end of an epoch of a mixture.
Stop: TypeAlias = Literal["first_exhausted", "all_exhausted", "each_once", "endless"]

STOP_CHOICES: tuple[Stop, ...] = ("first_exhausted", "all_exhausted", "each_once", "endless")

# One weight for each part; or such weights by the number of records of the epoch before them.
Weights: TypeAlias = Sequence[float] | Mapping[int, Sequence[float]]


# The latest plans of epochs that are kept, of which each may be another one.
_PLANS_KEPT = 4


class MixedOrder(Order):
    """Base of several orders mixed by weight.

    The units of the parts are mixed: records (:class:`MixedRecords`) or packed rows
    (:class:`MixedRows`). Where this text says records, it means them.

    The part chosen at a position depends on the seed, the weights and, if parts drop out, on their
    numbers of records. It is the same in every epoch in which these are. The record does change:
    the i-th choice of a part is position i of that part's own order of the epoch. Every cell of
    2**16 positions has a fixed number of choices of each part, as near to its weight as possible
    and at least 1, in a random order.

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
    number of cycles in epoch 0; ``e + c`` if epochs never end.

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
        continuation: Places of the parts in the one epoch in which they continue. It has the
            records that are left: a part that must not start again has those of its present cycle,
            and keys of ``weights`` count the records that came before, too. None if there is no
            such epoch.

    Attributes:
        bases: Number added to the record numbers of each part.
        source_bases: The same of each source. Sources are the parts, with the sources of a mixed
            part in its place.
        continuation: Places of the parts in the one epoch in which they continue.

    Raises:
        ValueError: If there are no parts or more than 2**16, a weight is not positive and finite,
            weights or bases do not match the parts, a part that starts again has no records, one
            that must be exhausted is endless, or another argument is invalid.
    """

    def __init__(
        self,
        parts: Sequence[Any],
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
        self._plans = functools.lru_cache(_PLANS_KEPT)(self._plan)
        self._check_parts()

    def _check_parts(self) -> None:
        """Raise ValueError if the weights or sizes of parts do not fit the end of an epoch."""
        used = [max(each) for each in zip(*self._weights.values(), strict=True)]
        last = [*self._weights.values()][-1]
        sizes = [part.count(0) for part in self._parts]
        for number, (size, most) in enumerate(zip(sizes, used, strict=True)):
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
        """Return the number of units in an epoch in which no part continues: the first one."""
        return self._plans(self._first_start)[1]

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
            type(self), bases=self.bases, repeat=self._repeat, continuation=self.continuation
        )
        return made, (self._parts, self._weights, self._seed, self._stop)

    def continued(self, continuation: Continuation | None) -> Self:
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
        return continue_parts(state, parts, lambda epoch: self._start_of(epoch).epochs)

    @property
    def has_equal_epochs(self) -> bool:
        return self.continuation is None and self._are_parts_equal

    @functools.cached_property
    def _are_parts_equal(self) -> bool:
        return all(part.has_equal_epochs for part in self._parts)

    @property
    def seed(self) -> int:
        """Seed of the choice between parts. Their own seeds are in their orders."""
        return self._seed

    def start_in(self, epoch: int) -> int:
        """Return the position of an epoch at which its parts continue; its end if none does."""
        return 0 if self._start_of(epoch) is self.continuation else self.count(epoch)

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
        found = groups_of(self.source_of(numbers))
        return [(source, at, numbers[at] - self.source_bases[source]) for at, source in found]

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
        taken = tuple(self.taken_before(position, epoch).tolist())
        place = Continuation(epoch, start.position + position, start.epochs, taken)
        parts = {**place.describe(), "has_ended": position >= self.count(epoch)}
        return {"sources": self.count_sources(position, epoch), "parts": parts}

    def count_sources(self, position: int, epoch: int) -> list[int]:
        """Return the number of records of each source before a position of an epoch."""
        counts: list[int] = []
        taken = self.taken_before(position, epoch).tolist()
        for part, first, count in zip(
            self._parts, self._start_of(epoch).epochs, taken, strict=True
        ):
            if not isinstance(part, MixedOrder):
                counts.append(count)
                continue
            [cycles], [rest] = Cycles(part, first).find(np.array([count]))
            found = np.array(part.count_sources(int(rest), first + int(cycles)))
            # Epochs that are equally long have equally many units of each source.
            times = cycles if part.has_equal_epochs else 1
            for cycle in range(first, first + int(cycles // max(1, times))):
                found += times * np.array(part.count_sources(part.count(cycle), cycle))
            counts += found.tolist()
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
        for at, number in groups_of(np.searchsorted(begins, positions, side="right") - 1):
            phase = phases[number]
            of_active, since = phase.mix.choices(positions[at] - phase.begin)
            chosen[at] = phase.parts[of_active]
            ordinals[at] = since + phase.taken[chosen[at]]
        return chosen, ordinals

    def _chosen_units(
        self, positions: Numbers, epoch: int
    ) -> Iterator[tuple[Numbers, int, Numbers, int]]:
        """Find the units at positions: yield the ones of each part and epoch together.

        Args:
            positions: int64 ``[n]``, each in ``0..count-1``.
            epoch: Number of the epoch.

        Yields:
            The indices of these units in ``positions``; the part; their positions in the part's
            order, int64 ``[m]``; and the epoch of that order.
        """
        chosen, ordinals = self.choices(positions, epoch)
        first = self._start_of(epoch).epochs
        for of_part, part in groups_of(chosen):
            epochs = Cycles(self._parts[part], first[part])
            cycles, inside = epochs.find(ordinals[of_part])
            for of_cycle, cycle in groups_of(cycles):
                yield of_part[of_cycle], part, inside[of_cycle], epochs.first + cycle

    @functools.cached_property
    def _cycles(self) -> tuple[int, ...]:
        """Number of cycles of each part in an epoch that ends."""
        if self._stop != "all_exhausted":
            return self._repeat or (1,) * len(self._parts)
        taken = _taken_before(*self._plans(self._first_start)).tolist()
        return tuple(
            _num_begun(Cycles(part), count) for part, count in zip(self._parts, taken, strict=True)
        )

    @functools.cached_property
    def _first_start(self) -> Continuation:
        zeros = (0,) * len(self._parts)
        return Continuation(0, 0, zeros, zeros)

    def _start_of(self, epoch: int) -> Continuation:
        """Return the epochs and positions of the parts at the start of an epoch."""
        if self.continuation is not None and self.continuation.epoch == epoch:
            return self.continuation
        return dataclasses.replace(
            self._first_start, epoch=epoch, epochs=tuple(epoch * each for each in self._cycles)
        )

    def count(self, epoch: int) -> int:
        """Return the number of units in an epoch."""
        return self._planned(epoch)[1]

    def taken_before(self, position: int, epoch: int = 0) -> Numbers:
        """Return the number of units of each part before a position of an epoch.

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
        start = self._start_of(epoch)
        is_own = start is self.continuation or not self._are_parts_equal
        return self._plans(start if is_own else self._first_start)

    def _plan(self, start: Continuation) -> tuple[tuple[_Phase, ...], int]:
        """Return the phases of an epoch, and its length. ``_plans`` keeps the latest results."""
        before, taken = start.position, np.array(start.taken, np.int64)
        limits = self._limits(start)
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
                mix = Choices([weights[part] for part in parts], f"mix:{self._seed}:{len(phases)}")
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

    def _limits(self, start: Continuation) -> Numbers:
        """Return the number of units of each part at which it is exhausted; int64 ``[parts]``."""
        limits = []
        for number, (part, first) in enumerate(zip(self._parts, start.epochs, strict=True)):
            epochs, cycles = Cycles(part, first), 1
            if self._repeat is not None:
                cycles = self._repeat[number]
            elif self._stop != "all_exhausted":  # whole cycles are over where it continues
                cycles = max(1, _num_begun(epochs, start.taken[number]))
            limits.append(epochs.before(cycles))
        return np.array(limits, np.int64)

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


class MixedRecords(MixedOrder, PositionOrder):
    """Records of several orders, mixed by weight."""

    def contains(self, numbers: Numbers) -> Mask:
        """Return whether each record may come in an epoch; see :meth:`PositionOrder.contains`."""
        found = np.empty(len(numbers), np.bool_)
        for at, part in groups_of(np.searchsorted(self.bases, numbers, side="right") - 1):
            found[at] = self._parts[part].contains(numbers[at] - self.bases[part])
        return found

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
        numbers = np.empty(len(positions), np.int64)
        first = self._start_of(epoch).epochs
        for indices, part, inside, cycle in self._chosen_units(positions, epoch):
            records = repeated(self._parts[part].at(inside, cycle), cycle - first[part])
            numbers[indices] = records + self.bases[part]
        return numbers


class MixedRows(MixedOrder):
    """Packed rows of several orders, mixed by weight. The rows of all have the same form."""

    has_rows = True

    @property
    def total(self) -> int:
        return sum(part.total for part in self._parts)

    def plan_units(self, units: Numbers, epoch: int) -> _core.RowPlan:
        joined, at = _core.RowPlan(), [np.empty(0, np.int64)]
        for indices, part, positions, cycle in self._chosen_units(units, epoch):
            joined.append(self._parts[part].plan_units(positions, cycle), self.bases[part])
            at.append(indices)
        return joined.take(np.argsort(np.concatenate(at)))

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        rows: _core.RowPlan = self.plan_units(units, epoch)
        return rows.numbers


def _num_begun(epochs: Cycles, count: int) -> int:
    """Return the number of epochs in which the first units of some epochs lie."""
    if count == 0:
        return 0
    return int(epochs.find(np.array([count - 1]))[0][0]) + 1


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
    mix: Choices
