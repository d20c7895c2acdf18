"""Values of finished columns that are outside of their valid range."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._schema.valid_range import as_numbers
from .arrays import Arena, Ints, flat_view_of, offsets_of, view_of
from .columns.base import ColumnBuilder
from .layout import Column, DenseColumns, ListColumn, Numbers, RaggedColumn, SparseColumn, names_of


def first_outside(
    arena: Arena, columns: Iterable[Column], builder: ColumnBuilder
) -> tuple[Ints, npt.NDArray[Any]]:
    """Return the records of a column that have a value out of range, and the first such values.

    Args:
        arena: Arena of the columns.
        columns: All columns of a block, finished.
        builder: Builder of the column, which has limits.

    Returns:
        Positions of the records; int64 ``[n]``, ascending; and the values; ``[n]``.
    """
    assert builder.limits is not None
    lengths = None
    if builder.padding is not None:
        lengths = view_of(arena, array_of(columns, builder.padding.lengths))
    values, starts = _values_of(arena, array_of(columns, builder.name), lengths)
    checked = as_numbers(values, builder.feature.column_dtype)
    outside = builder.limits.outside(checked)
    records = np.searchsorted(starts, outside, "right") - 1
    is_first = np.ones(len(records), bool)
    np.not_equal(records[1:], records[:-1], out=is_first[1:])
    return records[is_first], checked[outside[is_first]]


def array_of(columns: Iterable[Column], name: str) -> Any:
    """Return the column of a name, or the array of one of several dense columns."""
    column = next(each for each in columns if name in names_of(each))
    return dict(column.arrays())[name] if isinstance(column, DenseColumns) else column


def _values_of(arena: Arena, column: Any, lengths: Ints | None) -> tuple[npt.NDArray[Any], Ints]:
    """Return the values of a column, one record after another, without padding.

    Returns:
        The values in one dimension, as they are stored in the arena; and the position of the first
        value of each record, ``[B]`` or one more.
    """
    if isinstance(column, ListColumn):  # of one array for each record
        parts = [flat_view_of(arena, numbers_of(array)) for array in column.arrays]
        sizes = np.array([part.size for part in parts], np.int64)
        return np.concatenate(parts or [np.empty(0, np.uint8)]), offsets_of(sizes)
    numbers = numbers_of(column)
    values = flat_view_of(arena, numbers)
    if isinstance(column, SparseColumn):  # in the order of the records
        records = view_of(arena, column.indices)[:, 0]
        return values, np.searchsorted(records, np.arange(column.shape[0]))
    if isinstance(column, RaggedColumn):
        starts: Ints = np.arange(column.num_records)
        for level in column.splits:
            starts = view_of(arena, level)[starts].astype(np.int64)
        return values, starts * math.prod(numbers.shape[1:])
    count, *inner = numbers.shape
    if lengths is None:
        return values, np.arange(count) * math.prod(inner)
    is_stored = np.arange(inner[0]) < lengths[:, np.newaxis]
    kept = view_of(arena, numbers)[is_stored].reshape(-1)
    return kept, offsets_of(lengths * math.prod(inner[1:]))


def numbers_of(column: Any) -> Numbers:
    """Return the array of the values of a column."""
    numbers: Numbers = column if isinstance(column, Numbers) else column.values
    return numbers
