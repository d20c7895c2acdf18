"""Row partitions of a block: from their stored numbers to offsets of rows.

A *unit* has partitions of its own. It is a record, or a step of a feature list. The functions
work on all units of a block at once. The rules are those of ``tf.io.RaggedFeature``, except that
rows and values must agree in each unit, not only in the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._schema.row_partitions import (
    Partition,
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    UniformRowCount,
    UniformRowLength,
    ValueRowIds,
)
from ..arrays import Ints, offsets_of
from .base import LocatedBlock

# Larger numbers are not row splits of any array. Sums of smaller ones over a batch do not overflow.
_MAX_SPLIT = {"int32": np.iinfo(np.int32).max, "int64": 1 << 40}
# A row id, or a spec, can demand any number of rows. This is the limit for a unit of few values.
_MAX_ROWS = 1 << 12


class Units(NamedTuple):
    """The units of a block.

    Attributes:
        offsets: Position of the first value of each unit, and the end; int64 ``[units + 1]``.
        records: Position of the first unit of each record, and the end; int64 ``[B + 1]``.
    """

    offsets: Ints
    records: Ints


class StoredNumbers(NamedTuple):
    """Stored numbers of a partition.

    Attributes:
        values: Numbers of all units, one unit after another.
        offsets: Position of the first number of each unit, and the end; ``[units + 1]``.
    """

    values: Ints
    offsets: Ints

    @property
    def counts(self) -> Ints:
        """Number of numbers of each unit; ``[units]``."""
        return np.diff(self.offsets)

    def units(self) -> Ints:
        """Return the unit of each number."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def sums(self) -> Ints:
        """Return the sum of each unit's numbers."""
        total = np.concatenate(([0], np.cumsum(self.values)))
        return total[self.offsets[1:]] - total[self.offsets[:-1]]

    def firsts(self, default: int) -> Ints:
        """Return the first number of each unit, or the default for a unit without numbers."""
        return self._at(self.offsets[:-1], default)

    def lasts(self, default: int) -> Ints:
        """Return the last number of each unit, or the default for a unit without numbers."""
        return self._at(self.offsets[1:] - 1, default)

    def _at(self, positions: Ints, default: int) -> Ints:
        found = np.full(len(positions), default, np.int64)
        has_any = self.counts > 0
        found[has_any] = self.values[positions[has_any]]
        return found

    def without_firsts(self) -> StoredNumbers:
        """Return the numbers without the first one of each unit."""
        is_kept = np.ones(len(self.values), bool)
        is_kept[self.offsets[:-1][self.counts > 0]] = False
        counts = np.maximum(self.counts - 1, 0)
        return StoredNumbers(self.values[is_kept], offsets_of(counts))

    def have_negative(self) -> npt.NDArray[np.bool_]:
        """Return whether each unit has a negative number."""
        found = np.zeros(len(self.offsets) - 1, bool)
        found[self.units()[self.values < 0]] = True
        return found

    def have_decrease(self) -> npt.NDArray[np.bool_]:
        """Return whether each unit has a number smaller than the one before it, or than 0."""
        found = self.have_negative()
        units = self.units()
        decreases = (np.diff(self.values) < 0) & (np.diff(units) == 0)
        found[units[1:][decreases]] = True
        return found


class RowDivision(NamedTuple):
    """A division of values into rows.

    Attributes:
        splits: Offsets on each level, outermost first: of the units, then of each partition.
        inner: Shape of one value; not ``()`` only if the innermost rows have one length.
        faults: Units whose numbers are not valid, and the reasons.
    """

    splits: list[Ints]
    inner: tuple[int, ...]
    faults: list[tuple[int, str]]


def partition_units(
    block: LocatedBlock,
    spec: int,
    partitions: Sequence[Partition],
    units: Units,
    splits_dtype: str,
    *,
    first_key: int | None = None,
    validate: bool = False,
) -> RowDivision | None:
    """Divide the values of a block into rows; fail records whose numbers are not valid.

    Args:
        block: The records.
        spec: Position of the native spec that reads the values.
        partitions: Partitions, outermost first.
        units: Units of the values.
        splits_dtype: Dtype of the row splits: "int32" or "int64".
        first_key: Position of the native spec of the first stored partition, which the others
            follow; by default the one after ``spec``.
        validate: Whether to check that rows do not overlap and are in order.

    Returns:
        The rows; None if records have failed.
    """
    key = spec + 1 if first_key is None else first_key
    stored: list[tuple[Partition, StoredNumbers | None]] = []
    is_valid = True
    for partition in partitions:
        if partition.stored_key is None:
            stored.append((partition, None))
            continue
        values, starts, records = block.integers(key)
        key += 1
        stored.append((partition, StoredNumbers(values, starts)))
        for record in np.flatnonzero(np.diff(records) != np.diff(units.records)).tolist():
            reason = f"its partition {partition.stored_key!r} has another number of steps"
            block.fail(record, spec, reason)
            is_valid = False
    if not is_valid or block.failures:
        return None
    rows = divide(np.diff(units.offsets), stored, splits_dtype, validate=validate)
    for unit, reason in rows.faults:
        record = int(np.searchsorted(units.records, unit, "right")) - 1
        block.fail(record, spec, reason)
    return None if rows.faults else rows


def divide(
    counts: Ints,
    partitions: list[tuple[Partition, StoredNumbers | None]],
    splits_dtype: str,
    *,
    validate: bool,
) -> RowDivision:
    """Divide values into rows.

    Args:
        counts: Number of values of each unit; int64 ``[units]``.
        partitions: Partitions, outermost first, with their stored numbers if they have any.
        splits_dtype: Dtype of the row splits: "int32" or "int64".
        validate: Whether to check that rows do not overlap and are in order.
    """
    divider = _Divider(counts, _MAX_SPLIT[splits_dtype], validate=validate)
    for partition, stored in reversed(partitions):
        divider.apply(partition, stored)
        if divider.faults:
            break  # outer partitions divide the rows of this one
    return RowDivision([offsets_of(divider.counts), *divider.splits], divider.inner, divider.faults)


class _Divider:
    """Applies partitions, from the innermost one outwards.

    Attributes:
        counts: Number of values, or of rows so far, of each unit.
        splits: Offsets on each level so far, outermost first.
        inner: Shape of one value.
        faults: Units whose numbers are not valid, and the reasons.
    """

    def __init__(self, counts: Ints, max_split: int, *, validate: bool) -> None:
        self.counts = counts
        self.splits: list[Ints] = []
        self.inner: tuple[int, ...] = ()
        self.faults: list[tuple[int, str]] = []
        self._max_split = max_split
        self._validate = validate

    def apply(self, partition: Partition, stored: StoredNumbers | None) -> None:
        """Divide the values, or the rows so far, by a partition."""
        if stored is not None:
            beyond = np.zeros(len(self.counts), bool)
            is_beyond = (stored.values > self._max_split) | (stored.values < -self._max_split)
            beyond[stored.units()[is_beyond]] = True
            self._fail(beyond, "a number of its partition is not a row split")
        if not self.faults:
            _RULES[type(partition)](self, partition if stored is None else stored)

    # ---- one rule for each kind of partition ----

    def by_uniform_length(self, partition: UniformRowLength) -> None:
        length = partition.length
        self._fail(self.counts % length != 0, f"its values cannot be divided into rows of {length}")
        if self.splits:
            rows = int(self.counts.sum()) // length
            self.splits.insert(0, np.arange(rows + 1) * length)
        else:
            self.inner = (length, *self.inner)
        self.counts = self.counts // length

    def by_uniform_count(self, partition: UniformRowCount) -> None:
        rows = partition.rows
        reason = f"its values cannot be divided into {rows} rows of one length"
        self._fail(self.counts % rows != 0, reason)
        most = np.maximum(_MAX_ROWS, 16 * self.counts)
        self._fail(rows > most, f"{rows} rows are far more than there are values")
        if not self.faults:
            lengths = np.repeat(self.counts // rows, rows)
            self._add(offsets_of(lengths), np.full(len(self.counts), rows, np.int64))

    def by_splits(self, stored: StoredNumbers) -> None:
        self._fail(stored.firsts(0) != 0, "its row splits do not start with 0")
        self.by_limits(stored.without_firsts())

    def by_limits(self, stored: StoredNumbers) -> None:
        self._fail(stored.lasts(0) != self.counts, "its rows do not end where its values end")
        self._check_order(stored)
        ends = stored.values + self._bases(stored)
        self._add(np.concatenate((np.zeros(1, np.int64), ends)), stored.counts)

    def by_starts(self, stored: StoredNumbers) -> None:
        uncovered = (stored.counts == 0) & (self.counts > 0)
        self._fail((stored.firsts(0) != 0) | uncovered, "its first row does not start with 0")
        self._check_order(stored)
        if self._validate:
            self._fail(stored.lasts(0) > self.counts, "a row starts after the end of its values")
        starts = stored.values + self._bases(stored)
        self._add(np.concatenate((starts, [self.counts.sum()])), stored.counts)

    def by_lengths(self, stored: StoredNumbers) -> None:
        self._fail(stored.sums() != self.counts, "its row lengths do not add up to its values")
        if self._validate:
            self._fail(stored.have_negative(), "a row length is negative")
        self._add(offsets_of(stored.values), stored.counts)

    def by_row_ids(self, stored: StoredNumbers) -> None:
        self._fail(stored.counts != self.counts, "it does not have one row id for each value")
        self._fail(stored.have_negative(), "a row id is negative")
        rows = np.zeros(len(self.counts), np.int64)
        np.maximum.at(rows, stored.units(), stored.values + 1)
        most = np.maximum(_MAX_ROWS, 16 * stored.counts)
        self._fail(rows > most, "a row id demands far more rows than there are values")
        if self.faults:
            return
        self._check_order(stored)
        bases = np.repeat(np.cumsum(rows) - rows, stored.counts)
        lengths = np.bincount(stored.values + bases, minlength=int(rows.sum()))
        self._add(offsets_of(lengths), rows)

    # ---- shared steps ----

    def _bases(self, stored: StoredNumbers) -> Ints:
        """Return the position of the first value of each number's unit."""
        return np.repeat(np.cumsum(self.counts) - self.counts, stored.counts)

    def _check_order(self, stored: StoredNumbers) -> None:
        if self._validate:
            self._fail(stored.have_decrease(), "its rows overlap or are out of order")

    def _fail(self, is_bad: npt.NDArray[np.bool_], reason: str) -> None:
        known = {unit for unit, _ in self.faults}
        self.faults += [(u, reason) for u in np.flatnonzero(is_bad).tolist() if u not in known]

    def _add(self, splits: Ints, counts: Ints) -> None:
        # Each unit's numbers are in range, but may leave it when those of other units are added.
        beyond = np.abs(splits) > self._max_split
        if beyond.any():
            units = np.repeat(np.arange(len(counts)), counts)
            reaches = np.zeros(len(counts), bool)
            reaches[units[beyond[:-1] | beyond[1:]]] = True
            self._fail(reaches, "its rows are beyond the range of the batch's row splits")
        self.splits.insert(0, splits)
        self.counts = counts


_RULES: dict[type[Partition], Callable[[_Divider, Any], None]] = {
    RowSplits: _Divider.by_splits,
    RowLimits: _Divider.by_limits,
    RowStarts: _Divider.by_starts,
    RowLengths: _Divider.by_lengths,
    ValueRowIds: _Divider.by_row_ids,
    UniformRowLength: _Divider.by_uniform_length,
    UniformRowCount: _Divider.by_uniform_count,
}
