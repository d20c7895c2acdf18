"""Positions of the columns of a batch in its arena.

These are plain tuples, because every batch takes them along between processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..schema.dtypes import item_bytes

# Every column starts at a multiple of this: the size of a cache line.
ALIGNMENT_BYTES = 64


class Numbers(NamedTuple):
    """A numeric array in an arena.

    Attributes:
        dtype: Dtype of the elements.
        shape: Shape of the array.
        at: Offset of the array in the arena, in bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    at: int

    @property
    def target(self) -> tuple[int, int]:
        """Offset of no offsets, 0, and offset of the data, as the native core takes them."""
        return 0, self.at


class Texts(NamedTuple):
    """An array of bytes values in an arena: int64 offsets ``[n + 1]`` into uint8 data.

    Attributes:
        shape: Shape of the array.
        offsets_at: Offset of the int64 offsets in the arena, in bytes.
        data_at: Offset of the data in the arena, in bytes.
        data_bytes: Size of the data, in bytes.
    """

    shape: tuple[int, ...]
    offsets_at: int
    data_at: int
    data_bytes: int

    @property
    def target(self) -> tuple[int, int]:
        """Offset of the offsets and offset of the data, as the native core takes them."""
        return self.offsets_at, self.data_at


Values: TypeAlias = Numbers | Texts


class DenseColumns(NamedTuple):
    """Numeric columns of one dtype and shape, which are viewed all at once.

    Attributes:
        names: Names of the columns.
        dtype: Dtype of all columns.
        shape: Shape of each column, including the batch size.
        at: Offset of the first column in the arena, in bytes.
        stride: Distance from one column to the next, in bytes.
    """

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    at: int
    stride: int


class BytesColumn(NamedTuple):
    """A column of bytes values. Its shape starts with the batch size."""

    name: str
    values: Texts


class RaggedColumn(NamedTuple):
    """A column of rows of any length, or of rows of rows.

    Attributes:
        name: Name of the column.
        splits: Offsets of the rows on each level, outermost first.
        values: Values of all rows.
    """

    name: str
    splits: tuple[Numbers, ...]
    values: Values


class SparseColumn(NamedTuple):
    """A column of values and their indices.

    Attributes:
        name: Name of the column.
        shape: Dense shape, including the batch size.
        indices: Indices of the values; int64 ``[n, rank]``.
        values: Values; ``[n]``.
    """

    name: str
    shape: tuple[int, ...]
    indices: Numbers
    values: Values


class ListColumn(NamedTuple):
    """A column of one array for each record, each of its own shape, or of rows of arrays."""

    name: str
    arrays: tuple[Values | RaggedColumn, ...]


class Padding(NamedTuple):
    """The padding of a column.

    Attributes:
        lengths: Name of the hidden column of each record's own length: ``[B]``, or ``[B, axes]``
            if axes other than the first are padded.
        fill: Padding value.
        axes: Axes of a record's value that are padded.
    """

    lengths: str
    fill: Any
    axes: tuple[int, ...] = (0,)


Column: TypeAlias = DenseColumns | BytesColumn | RaggedColumn | SparseColumn | ListColumn


class ArenaLayout:
    """The layout of an arena that is not allocated yet.

    Attributes:
        size: Size of the arena so far, in bytes.
    """

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def reserve(self, size: int) -> int:
        """Reserve that many bytes and return their offset, which is aligned."""
        at = self.size
        self.size = at + size + -size % ALIGNMENT_BYTES
        return at

    def reserve_numbers(self, dtype: str, shape: tuple[int, ...]) -> Numbers:
        """Reserve a numeric array."""
        return Numbers(dtype, shape, self.reserve(math.prod(shape) * item_bytes(dtype)))

    def reserve_texts(self, shape: tuple[int, ...], data_bytes: int) -> Texts:
        """Reserve an array of bytes values."""
        offsets_at = self.reserve(8 * (math.prod(shape) + 1))
        return Texts(shape, offsets_at, self.reserve(data_bytes), data_bytes)

    def reserve_values(self, dtype: str, shape: tuple[int, ...], data_bytes: int) -> Values:
        """Reserve an array of numbers, or of bytes values ("string")."""
        if dtype == "string":
            return self.reserve_texts(shape, data_bytes)
        return self.reserve_numbers(dtype, shape)

    def reserve_splits(self, counts: Sequence[int], dtype: str) -> tuple[Numbers, ...]:
        """Reserve offsets of rows, for each number of rows; outermost level first."""
        return tuple(self.reserve_numbers(dtype, (count + 1,)) for count in counts)

    def reserve_dense(
        self, names: tuple[str, ...], dtype: str, shape: tuple[int, ...]
    ) -> DenseColumns:
        """Reserve numeric columns of one dtype and shape."""
        stride = -(-math.prod(shape) * item_bytes(dtype) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return DenseColumns(names, dtype, shape, self.reserve(stride * len(names)), stride)
