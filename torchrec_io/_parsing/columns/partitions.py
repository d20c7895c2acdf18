"""Row partitions of a block: from their stored numbers to offsets of rows.

A *unit* has partitions of its own. It is a record, or a step of a feature list. The functions
work on all units of a block at once. The rules are those of ``tf.io.RaggedFeature``, except that
rows and values must agree in each unit, not only in the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
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
from .base import ColumnBuilder, LocatedBlock

# Larger numbers are not row splits of any array. Sums of smaller ones over a batch do not overflow.
_MAX_SPLIT = {"int32": np.iinfo(np.int32).max, "int64": 1 << 40}
# A row id, or a spec, can demand any number of rows. This is the limit for a unit of few values.
_MAX_ROWS = 1 << 12

_OUT_OF_ORDER = "its rows overlap or are out of order"
_WRONG_END = "its rows do not end where its values end"


class RowDivision(NamedTuple):
    """A division of values into rows.

    Attributes:
        splits: Offsets on each level, outermost first: of the records, of the steps of a feature
            list, then of each partition.
        inner: Shape of one value; not ``()`` only if the innermost rows have one length.
    """

    splits: list[Ints]
    inner: tuple[int, ...] = ()


def divide_rows(
    block: LocatedBlock, builder: ColumnBuilder, first_key: int = 1, *, validate: bool = False
) -> RowDivision | None:
    """Divide the values of a block into rows; fail records whose numbers are not valid.

    Args:
        block: The records.
        builder: Builder of the column, whose feature has partitions.
        first_key: Position of the first stored partition, which the others follow, among the native
            specs of the builder.
        validate: Whether to check that rows do not overlap and are in order.

    Returns:
        The rows; None if records have failed.
    """
    spec, partitions = builder.first_spec, builder.feature.partitions
    units = block.located.units(spec)
    key = spec + first_key
    stored: list[_StoredNumbers | None] = []
    for partition in partitions:
        if partition.key is None:
            stored.append(None)
            continue
        values, starts, steps = block.integers(key)
        key += 1
        stored.append(_StoredNumbers(values, np.diff(starts)))
        for record in np.flatnonzero(np.diff(steps) != np.diff(units.records)).tolist():
            reason = f"its partition {partition.key!r} has another number of steps"
            block.fail(record, spec, reason)
    if block.failures:
        return None
    max_split = _MAX_SPLIT[builder.feature.row_splits_dtype]
    divider = _Divider(np.diff(units.values), max_split, validate=validate)
    for partition, numbers in zip(reversed(partitions), reversed(stored), strict=True):
        divider.apply(partition, numbers)
        if divider.faults:
            break  # outer partitions divide the rows of this one
    for unit, reason in divider.faults.items():
        block.fail(int(np.searchsorted(units.records, unit, "right")) - 1, spec, reason)
    if divider.faults:
        return None
    steps_of_records = [units.records] if builder.in_lists else []
    splits = [*steps_of_records, offsets_of(divider.counts), *divider.splits]
    return RowDivision(splits, divider.inner)


class _StoredNumbers(NamedTuple):
    """Stored numbers of a partition.

    Attributes:
        values: Numbers of all units, one unit after another.
        counts: Number of numbers of each unit; ``[units]``.
    """

    values: Ints
    counts: Ints

    @property
    def firsts(self) -> Ints:
        """Positions of the first number of each unit that has numbers."""
        return (np.cumsum(self.counts) - self.counts)[self.counts > 0]

    def differences(self) -> Ints:
        """Return each number less the one before it in its unit, or less 0."""
        found = np.diff(self.values, prepend=0)
        found[self.firsts] = self.values[self.firsts]
        return found


class _Divider:
    """Applies partitions, from the innermost one outwards, as lengths of rows.

    Attributes:
        counts: Number of values, or of rows so far, of each unit.
        splits: Offsets on each level so far, outermost first.
        inner: Shape of one value.
        faults: Reason of each unit whose numbers are not valid.
    """

    def __init__(self, counts: Ints, max_split: int, *, validate: bool) -> None:
        self.counts = counts
        self.splits: list[Ints] = []
        self.inner: tuple[int, ...] = ()
        self.faults: dict[int, str] = {}
        self._max_split = max_split
        self._validate = validate

    def apply(self, partition: Partition, stored: _StoredNumbers | None) -> None:
        """Divide the values, or the rows so far, by a partition."""
        if stored is not None:
            is_beyond = (stored.values > self._max_split) | (stored.values < -self._max_split)
            reason = "a number of its partition is not a row split"
            self._fail_of(is_beyond, stored.counts, reason)
        if not self.faults:
            _RULES[type(partition)](self, partition if stored is None else stored)

    # ---- one rule for each kind of partition ----

    def by_uniform_length(self, partition: UniformRowLength) -> None:
        length = partition.length
        rows = self.counts // length
        reason = f"its values cannot be divided into rows of {length}"
        if self.splits:
            self._divide(np.full(int(rows.sum()), length), rows, reason)
        else:
            self._fail(self.counts % length != 0, reason)
            self.inner = (length, *self.inner)
            self.counts = rows

    def by_uniform_count(self, partition: UniformRowCount) -> None:
        rows = partition.rows
        most = np.maximum(_MAX_ROWS, 16 * self.counts)
        self._fail(rows > most, f"{rows} rows are far more than there are values")
        if not self.faults:
            reason = f"its values cannot be divided into {rows} rows of one length"
            counts = np.full(len(self.counts), rows, np.int64)
            self._divide(np.repeat(self.counts // rows, rows), counts, reason)

    def by_splits(self, stored: _StoredNumbers) -> None:
        is_first = np.zeros(len(stored.values), bool)
        is_first[stored.firsts] = True
        reason = "its row splits do not start with 0"
        self._fail_of(is_first & (stored.values != 0), stored.counts, reason)
        lengths = np.diff(stored.values, prepend=0)[~is_first]
        self._divide(lengths, np.maximum(stored.counts - 1, 0), _WRONG_END)

    def by_limits(self, stored: _StoredNumbers) -> None:
        self._divide(stored.differences(), stored.counts, _WRONG_END)

    def by_starts(self, stored: _StoredNumbers) -> None:
        ends = np.roll(stored.values, -1)
        ends[np.cumsum(stored.counts)[stored.counts > 0] - 1] = self.counts[stored.counts > 0]
        self._divide(ends - stored.values, stored.counts, "its first row does not start with 0")

    def by_lengths(self, stored: _StoredNumbers) -> None:
        reason = "its row lengths do not add up to its values"
        self._divide(stored.values, stored.counts, reason)

    def by_row_ids(self, stored: _StoredNumbers) -> None:
        self._fail_of(stored.values < 0, stored.counts, "a row id is negative")
        rows = np.zeros(len(self.counts), np.int64)
        units = np.repeat(np.arange(len(self.counts)), stored.counts)
        np.maximum.at(rows, units, stored.values + 1)
        most = np.maximum(_MAX_ROWS, 16 * stored.counts)
        self._fail(rows > most, "a row id demands far more rows than there are values")
        if self.faults:
            return
        if self._validate:
            self._fail_of(stored.differences() < 0, stored.counts, _OUT_OF_ORDER)
        bases = np.repeat(np.cumsum(rows) - rows, stored.counts)
        lengths = np.bincount(stored.values + bases, minlength=int(rows.sum()))
        self._divide(lengths, rows, "it does not have one row id for each value")

    # ---- shared steps ----

    def _divide(self, lengths: Ints, rows: Ints, reason: str) -> None:
        """Divide the values of each unit into rows.

        Args:
            lengths: Length of each row, one unit after another.
            rows: Number of rows of each unit.
            reason: Reason of the units whose rows do not have all of their values.
        """
        splits = offsets_of(lengths)
        self._fail(np.diff(splits[offsets_of(rows)]) != self.counts, reason)
        if self._validate:
            self._fail_of(lengths < 0, rows, _OUT_OF_ORDER)
        if self.faults:
            return  # they shift the rows of other units
        # Each unit's numbers are in range, but may leave it when those of other units are added.
        is_beyond = np.abs(splits) > self._max_split
        reason = "its rows are beyond the range of the batch's row splits"
        self._fail_of(is_beyond[:-1] | is_beyond[1:], rows, reason)
        self.splits.insert(0, splits)
        self.counts = rows

    def _fail_of(self, is_bad: npt.NDArray[np.bool_], counts: Ints, reason: str) -> None:
        """Fail the units of some numbers.

        Args:
            is_bad: Whether each number is not valid, one unit after another.
            counts: Number of numbers of each unit.
            reason: The reason.
        """
        if not is_bad.any():
            return
        found = np.zeros(len(counts), bool)
        found[np.repeat(np.arange(len(counts)), counts)[is_bad]] = True
        self._fail(found, reason)

    def _fail(self, is_bad: npt.NDArray[np.bool_], reason: str) -> None:
        """Fail some units, unless they have failed for another reason."""
        for unit in np.flatnonzero(is_bad).tolist():
            self.faults.setdefault(unit, reason)


_RULES: dict[type[Partition], Callable[[_Divider, Any], None]] = {
    RowSplits: _Divider.by_splits,
    RowLimits: _Divider.by_limits,
    RowStarts: _Divider.by_starts,
    RowLengths: _Divider.by_lengths,
    ValueRowIds: _Divider.by_row_ids,
    UniformRowLength: _Divider.by_uniform_length,
    UniformRowCount: _Divider.by_uniform_count,
}
