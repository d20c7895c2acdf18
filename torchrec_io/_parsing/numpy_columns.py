"""Columns of an arena as NumPy arrays, without torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Arena, Ints, view_of
from .layout import Column, DenseColumns, Numbers, Texts


class TextArray(NamedTuple):
    """An array of bytes values.

    Attributes:
        data: Bytes of all values.
        offsets: Offsets of the values in ``data``, one more than there are values.
        shape: Shape of the array.
    """

    data: npt.NDArray[np.uint8]
    offsets: Ints
    shape: tuple[int, ...]

    def reshape(self, shape: tuple[int, ...]) -> TextArray:
        """Return the values in another shape, as ``numpy.reshape`` does."""
        return self._replace(shape=shape)

    def items(self, begin: int, end: int) -> list[bytes]:
        """Return some of the values, in the order of ``data``."""
        edges = self.offsets[begin : end + 1].tolist()
        return [self.data[start:stop].tobytes() for start, stop in itertools.pairwise(edges)]


class RaggedRows(NamedTuple):
    """Rows of any length.

    Attributes:
        values: Values of all rows.
        offsets: Offsets of the rows, one more than there are rows.
    """

    values: Any
    offsets: npt.NDArray[Any]


class Entries(NamedTuple):
    """The entries of a sparse array.

    Attributes:
        indices: Indices of each entry, the record first; int64 ``[n, rank]``.
        values: Values.
        shape: Dense shape.
    """

    indices: Ints
    values: Any
    shape: tuple[int, ...]


class _NumpyViews:
    """Maker of arrays of the columns of an arena, in the place of ``ArenaViews``."""

    ragged = RaggedRows
    sparse = Entries

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def numbers(self, dtype: str, shape: tuple[int, ...], at: int) -> npt.NDArray[Any]:
        array = view_of(self._arena, Numbers(dtype, shape, at))
        if dtype == "bfloat16":  # NumPy has none: the upper half of a float32
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def texts(self, texts: Texts) -> TextArray:
        count = math.prod(texts.shape)
        data = self._arena[texts.data_at : texts.data_at + texts.data_bytes]
        offsets = self.numbers("int64", (count + 1,), texts.offsets_at)
        return TextArray(data, offsets, texts.shape)

    def dense(self, columns: DenseColumns) -> list[npt.NDArray[Any]]:
        return [self.numbers(*numbers) for _, numbers in columns.arrays()]


def numpy_columns(arena: Arena, columns: Iterable[Column]) -> dict[str, Any]:
    """Return the columns of an arena by flat name, including the hidden ones of lengths.

    A column is an array, a :class:`TextArray`, :class:`RaggedRows`, :class:`Entries`, or a list
    with a value for each record.
    """
    views: dict[str, Any] = {}
    maker = _NumpyViews(arena)
    for column in columns:
        column.add_views(maker, views)
    return views


def stored_values(column: Any, record: int) -> Any:
    """Return the values of a record in a column of a FixedLenFeature or VarLenFeature.

    Returns:
        An array of numbers, or a list of bytes; for a feature list, a list with those of each step.
    """
    if isinstance(column, RaggedRows):
        begin, end = column.offsets[record : record + 2].tolist()
        if isinstance(column.values, RaggedRows):
            return [stored_values(column.values, step) for step in range(begin, end)]
        if isinstance(column.values, TextArray):
            return column.values.items(begin, end)
        return column.values[begin:end]
    if isinstance(column, TextArray):
        count = math.prod(column.shape[1:])
        return column.items(record * count, (record + 1) * count)
    return column[record, ...]
