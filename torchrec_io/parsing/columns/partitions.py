"""Row partitions of a RaggedFeature: from the stored numbers to offsets of rows.

A *unit* is what has partitions of its own: a record, or a step of a feature list. Everything here
works on all units of a batch at once. The rules are those of ``tf.io.RaggedFeature``, but that rows
and values must tally in each unit, not just in the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...schema.specs import (
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    UniformRowCount,
    UniformRowLength,
    ValueRowIds,
)

_Ints: TypeAlias = npt.NDArray[np.int64]

# Numbers beyond these are no row splits of any array; within, sums over a batch do not wrap around.
_MOST = {"int32": np.iinfo(np.int32).max, "int64": 1 << 40}
# A row id stands for as many rows as it says, and so does a spec. A unit of few values may have so
# many at most.
_MOST_ROWS = 1 << 12


class Stored(NamedTuple):
    """Numbers of a partition: those of unit i are ``values[offsets[i] : offsets[i + 1]]``."""

    values: _Ints
    offsets: _Ints

    @property
    def counts(self) -> _Ints:
        """Of each unit; ``[units]``."""
        return np.diff(self.offsets)

    def units(self) -> _Ints:
        """Which unit each number is of."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def sums(self) -> _Ints:
        """Of each unit."""
        total = np.concatenate(([0], np.cumsum(self.values)))
        return total[self.offsets[1:]] - total[self.offsets[:-1]]

    def firsts(self, default: int) -> _Ints:
        """The first number of each unit, or ``default``."""
        return self._pick(self.offsets[:-1], default)

    def lasts(self, default: int) -> _Ints:
        """The last number of each unit, or ``default``."""
        return self._pick(self.offsets[1:] - 1, default)

    def _pick(self, places: _Ints, default: int) -> _Ints:
        picked = np.full(len(places), default, np.int64)
        has_any = self.counts > 0
        picked[has_any] = self.values[places[has_any]]
        return picked

    def without_firsts(self) -> Stored:
        """Each unit less its first number, if it has any."""
        keep = np.ones(len(self.values), bool)
        keep[self.offsets[:-1][self.counts > 0]] = False
        counts = np.maximum(self.counts - 1, 0)
        return Stored(self.values[keep], offsets_of(counts))

    def falls(self) -> npt.NDArray[np.bool_]:
        """Units in which some number is smaller than the one before it, or than 0."""
        fall = np.zeros(len(self.offsets) - 1, bool)
        units = self.units()
        fall[units[self.values < 0]] = True
        drops = (np.diff(self.values) < 0) & (np.diff(units) == 0)
        fall[units[1:][drops]] = True
        return fall


class Rows(NamedTuple):
    """What the values are parted into.

    Attributes:
        splits: Offsets on each level, outermost first: of the units, then of each partition.
        inner: Shape of one value; not ``()`` only where the innermost rows are of one length.
        faults: Units whose numbers do not tally, and why.
    """

    splits: list[_Ints]
    inner: tuple[int, ...]
    faults: list[tuple[int, str]]


def offsets_of(counts: _Ints) -> _Ints:
    """Where each starts, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


def part(
    counts: _Ints,
    partitions: list[tuple[object, Stored | None]],
    splits_dtype: str,
    *,
    validate: bool,
) -> Rows:
    """Parts values into rows.

    Args:
        counts: Values of each unit; int64 ``[units]``.
        partitions: Outermost first, each with its stored numbers.
        splits_dtype: "int32" or "int64".
        validate: Whether rows are checked to neither overlap nor run backwards.
    """
    parting = _Parting(counts, _MOST[splits_dtype], validate=validate)
    for partition, stored in reversed(partitions):
        if isinstance(partition, UniformRowLength):
            parting.part_evenly(partition.length)
        elif isinstance(partition, UniformRowCount):
            parting.part_into(partition.rows)
        else:
            assert stored is not None
            parting.part_by(type(partition), stored)
        if parting.faults:
            break  # what is further out has nothing to stand on
    return Rows([offsets_of(parting.counts), *parting.splits], parting.inner, parting.faults)


class _Parting:
    """The work of :func:`part`, from the innermost partition outwards."""

    def __init__(self, counts: _Ints, most: int, *, validate: bool) -> None:
        self.counts = counts  # values, then rows, of each unit
        self.splits: list[_Ints] = []
        self.inner: tuple[int, ...] = ()
        self.faults: list[tuple[int, str]] = []
        self._most = most
        self._validate = validate

    def part_evenly(self, length: int) -> None:
        self._refuse(self.counts % length != 0, f"its values do not make rows of {length}")
        if self.splits:
            rows = int(self.counts.sum()) // length
            self.splits.insert(0, np.arange(rows + 1) * length)
        else:
            self.inner = (length, *self.inner)
        self.counts = self.counts // length

    def part_into(self, rows: int) -> None:
        self._refuse(self.counts % rows != 0, f"its values do not make {rows} rows of one length")
        most = np.maximum(_MOST_ROWS, 16 * self.counts)
        self._refuse(rows > most, f"{rows} rows are far more than there are values")
        if not self.faults:
            lengths = np.repeat(self.counts // rows, rows)
            self._add(offsets_of(lengths), np.full(len(self.counts), rows, np.int64))

    def part_by(self, partition: type, stored: Stored) -> None:
        beyond = np.zeros(len(self.counts), bool)
        beyond[stored.units()[(stored.values > self._most) | (stored.values < -self._most)]] = True
        self._refuse(beyond, "a number of its partition is no row split")
        if not self.faults:
            _RULES[partition](self, stored)

    # ---- one rule for each kind of partition ----

    def by_splits(self, stored: Stored) -> None:
        self._refuse(stored.firsts(0) != 0, "its row splits do not start with 0")
        self.by_limits(stored.without_firsts())

    def by_limits(self, stored: Stored) -> None:
        self._refuse(stored.lasts(0) != self.counts, "its rows do not end where its values end")
        self._check_order(stored)
        ends = stored.values + self._bases(stored)
        self._add(np.concatenate((np.zeros(1, np.int64), ends)), stored.counts)

    def by_starts(self, stored: Stored) -> None:
        uncovered = (stored.counts == 0) & (self.counts > 0)
        self._refuse((stored.firsts(0) != 0) | uncovered, "its first row does not start with 0")
        self._check_order(stored)
        if self._validate:
            self._refuse(stored.lasts(0) > self.counts, "a row starts behind its values")
        starts = stored.values + self._bases(stored)
        self._add(np.concatenate((starts, [self.counts.sum()])), stored.counts)

    def by_lengths(self, stored: Stored) -> None:
        self._refuse(stored.sums() != self.counts, "its row lengths do not add up to its values")
        if self._validate:
            negative = np.zeros(len(self.counts), bool)
            negative[stored.units()[stored.values < 0]] = True
            self._refuse(negative, "a row length is negative")
        self._add(offsets_of(stored.values), stored.counts)

    def by_row_ids(self, stored: Stored) -> None:
        self._refuse(stored.counts != self.counts, "it has not one row id for each value")
        negative = np.zeros(len(self.counts), bool)
        negative[stored.units()[stored.values < 0]] = True
        self._refuse(negative, "a row id is negative")
        rows = np.zeros(len(self.counts), np.int64)
        np.maximum.at(rows, stored.units(), stored.values + 1)
        most = np.maximum(_MOST_ROWS, 16 * stored.counts)
        self._refuse(rows > most, "a row id stands for far more rows than there are values")
        if self.faults:
            return
        self._check_order(stored)
        bases = np.repeat(np.cumsum(rows) - rows, stored.counts)
        lengths = np.bincount(stored.values + bases, minlength=int(rows.sum()))
        self._add(offsets_of(lengths), rows)

    # ---- what they share ----

    def _bases(self, stored: Stored) -> _Ints:
        """For each stored number, where the values of its unit start."""
        return np.repeat(np.cumsum(self.counts) - self.counts, stored.counts)

    def _check_order(self, stored: Stored) -> None:
        if self._validate:
            self._refuse(stored.falls(), "its rows overlap or run backwards")

    def _refuse(self, bad: npt.NDArray[np.bool_], reason: str) -> None:
        known = {unit for unit, _ in self.faults}
        self.faults += [(u, reason) for u in np.flatnonzero(bad).tolist() if u not in known]

    def _add(self, splits: _Ints, counts: _Ints) -> None:
        # Each unit's numbers are in range, but may leave it where the batch counts on from others.
        far = np.abs(splits) > self._most
        if far.any():
            units = np.repeat(np.arange(len(counts)), counts)
            reaches = np.zeros(len(counts), bool)
            reaches[units[far[:-1] | far[1:]]] = True
            self._refuse(reaches, "its rows lie behind what the row splits of a batch can count")
        self.splits.insert(0, splits)
        self.counts = counts


_RULES: dict[type, Callable[[_Parting, Stored], None]] = {
    RowSplits: _Parting.by_splits,
    RowLimits: _Parting.by_limits,
    RowStarts: _Parting.by_starts,
    RowLengths: _Parting.by_lengths,
    ValueRowIds: _Parting.by_row_ids,
}
