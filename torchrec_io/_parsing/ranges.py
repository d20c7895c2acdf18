"""Values of finished columns that are outside of their valid range."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._schema.valid_range import Limits, as_numbers
from .arrays import Arena, Ints, flat_view_of, offsets_of, view_of
from .layout import Column, DenseColumns, ListColumn, Numbers, RaggedColumn, SparseColumn, names_of


class _RecordValues(NamedTuple):
    """The values of a column, one record after another, without padding.

    Attributes:
        values: The values in one dimension, as they are stored in the arena.
        starts: Position of the first value of each record; ``[B]``, or one more.
    """

    values: npt.NDArray[Any]
    starts: Ints


def first_outside(
    arena: Arena, columns: Iterable[Column], name: str, limits: Limits, lengths: str | None
) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the records of a column that have a value out of range, and the first such values.

    Args:
        arena: Arena of the columns.
        columns: All columns of a block, finished.
        name: Name of the column.
        limits: The valid range.
        lengths: Name of the hidden column of lengths, if the column is padded.

    Returns:
        Positions of the records; int64 ``[n]``, ascending; and the values; ``[n]``.
    """
    found = _array_of(columns, name)
    own_lengths = None
    if lengths is not None:
        numbers = _array_of(columns, lengths)
        assert isinstance(numbers, Numbers)
        own_lengths = view_of(arena, numbers)
    values, starts = _values_of(arena, found, own_lengths)
    checked = as_numbers(values, _numbers_of(found).dtype)
    outside = limits.outside(checked)
    records = np.searchsorted(starts, outside, "right") - 1
    is_first = np.ones(len(records), bool)
    np.not_equal(records[1:], records[:-1], out=is_first[1:])
    return records[is_first], checked[outside[is_first]]


def _array_of(columns: Iterable[Column], name: str) -> Any:
    """Return the column of a name, or the array of one of several dense columns."""
    column = next(each for each in columns if name in names_of(each))
    return dict(column.arrays())[name] if isinstance(column, DenseColumns) else column


def _numbers_of(column: Any) -> Numbers:
    """Return an array with the dtype of a column."""
    if isinstance(column, ListColumn):
        return _numbers_of(column.arrays[0]) if column.arrays else Numbers("int64", (0,), 0)
    numbers: Numbers = column if isinstance(column, Numbers) else column.values
    return numbers


def _values_of(arena: Arena, column: Any, lengths: Ints | None) -> _RecordValues:
    if isinstance(column, ListColumn):  # of one array for each record
        parts = [flat_view_of(arena, _numbers_of(array)) for array in column.arrays]
        sizes = np.array([part.size for part in parts], np.int64)
        return _RecordValues(np.concatenate(parts or [np.empty(0)]), offsets_of(sizes))
    numbers = _numbers_of(column)
    values = flat_view_of(arena, numbers)
    if isinstance(column, SparseColumn):  # in the order of the records
        records = view_of(arena, column.indices)[:, 0]
        return _RecordValues(values, np.searchsorted(records, np.arange(column.shape[0])))
    if isinstance(column, RaggedColumn):
        starts: Ints = np.arange(column.num_records)
        for level in column.splits:
            starts = view_of(arena, level)[starts].astype(np.int64)
        return _RecordValues(values, starts * math.prod(numbers.shape[1:]))
    count, *inner = numbers.shape
    if lengths is None:
        return _RecordValues(values, np.arange(count) * math.prod(inner))
    is_stored = np.arange(inner[0]) < lengths[:, np.newaxis]
    kept = view_of(arena, numbers)[is_stored].reshape(-1)
    return _RecordValues(kept, offsets_of(lengths * math.prod(inner[1:])))
