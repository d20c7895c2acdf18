"""Positions of the columns of a batch in its arena.

These classes are plain tuples, because they are sent with every batch between processes. Every kind
of column has the same methods:

* ``name``: Its name. Only :class:`DenseColumns` has ``names``; see :func:`names_of`.
* ``size``: Size of its data in bytes.
* ``num_records``: Number of records of the batch.
* ``add_views(arena, views)``: Adds a view of each column to the dict ``views``. ``arena`` makes the
  views; see :class:`torchrec_io._tensors.views.ArenaViews`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from .._schema.dtypes import item_bytes

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

    @property
    def size(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)

    def moved(self, by: int) -> Numbers:
        return self._replace(at=self.at + by)

    def view(self, arena: Any) -> Any:
        return arena.numbers(self.dtype, self.shape, self.at)


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

    @property
    def size(self) -> int:
        return 8 * (math.prod(self.shape) + 1) + self.data_bytes

    def moved(self, by: int) -> Texts:
        return self._replace(offsets_at=self.offsets_at + by, data_at=self.data_at + by)

    def view(self, arena: Any) -> Any:
        return arena.texts(self)


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

    @property
    def size(self) -> int:
        return self.stride * len(self.names)

    @property
    def num_records(self) -> int:
        return self.shape[0]

    def arrays(self) -> Iterator[tuple[str, Numbers]]:
        """Yield the name and the array of each column."""
        for number, name in enumerate(self.names):
            yield name, Numbers(self.dtype, self.shape, self.at + number * self.stride)

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views.update(zip(self.names, arena.dense(self), strict=True))


class BytesColumn(NamedTuple):
    """A column of bytes values. Its shape starts with the batch size."""

    name: str
    values: Texts

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def num_records(self) -> int:
        return self.values.shape[0]

    def arrays(self) -> Iterator[tuple[str, Texts]]:
        """Yield the name and the array of the column."""
        yield self.name, self.values

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = arena.texts(self.values)


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

    @property
    def size(self) -> int:
        return sum(level.size for level in self.splits) + self.values.size

    @property
    def num_records(self) -> int:
        return self.splits[0].shape[0] - 1

    def view(self, arena: Any) -> Any:
        rows = self.values.view(arena)
        for level in reversed(self.splits):
            rows = arena.ragged(rows, level.view(arena))
        return rows

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = self.view(arena)


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

    @property
    def size(self) -> int:
        return self.indices.size + self.values.size

    @property
    def num_records(self) -> int:
        return self.shape[0]

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = arena.sparse(
            self.indices.view(arena), self.values.view(arena), self.shape
        )


class ListColumn(NamedTuple):
    """A column of one array for each record, each of its own shape, or of rows of arrays."""

    name: str
    arrays: tuple[Values | RaggedColumn, ...]

    @property
    def size(self) -> int:
        return sum(array.size for array in self.arrays)

    @property
    def num_records(self) -> int:
        return len(self.arrays)

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = [array.view(arena) for array in self.arrays]


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


def names_of(column: Column) -> tuple[str, ...]:
    """Return the names of the columns that are laid out as one."""
    return column.names if isinstance(column, DenseColumns) else (column.name,)


def grouped(column: Column, splits: Numbers, at: int) -> list[RaggedColumn]:
    """Return columns of rows as columns of groups of these rows.

    Args:
        column: Columns of arrays, or a Ragged.
        splits: Offsets of the groups among the rows.
        at: Offset in the arena, in bytes, of the part that holds the columns.
    """
    if isinstance(column, RaggedColumn):
        levels = [level.moved(at) for level in column.splits]
        return [RaggedColumn(column.name, (splits, *levels), column.values.moved(at))]
    assert isinstance(column, (DenseColumns, BytesColumn))  # others are refused before
    return [RaggedColumn(name, (splits,), array.moved(at)) for name, array in column.arrays()]


class ArenaLayout:
    """The layout of an arena that is not allocated yet.

    Args:
        size: Size of the columns that the arena begins with, in bytes.

    Attributes:
        size: Size of the arena so far, in bytes.
    """

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def reserve(self, size: int) -> int:
        """Reserve that many bytes and return their offset, which is aligned."""
        at = self.size + -self.size % ALIGNMENT_BYTES
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

    def reserve_column(
        self, name: str, dtype: str, shape: tuple[int, ...], data_bytes: int = 0
    ) -> tuple[DenseColumns | BytesColumn, Values]:
        """Reserve a column of numbers, or of bytes values ("string"); return its array, too."""
        if dtype == "string":
            texts = self.reserve_texts(shape, data_bytes)
            return BytesColumn(name, texts), texts
        column = self.reserve_dense((name,), dtype, shape)
        return column, Numbers(dtype, shape, column.at)

    def reserve_dense(
        self, names: tuple[str, ...], dtype: str, shape: tuple[int, ...]
    ) -> DenseColumns:
        """Reserve numeric columns of one dtype and shape."""
        size = math.prod(shape) * item_bytes(dtype)
        stride = size + -size % ALIGNMENT_BYTES
        return DenseColumns(names, dtype, shape, self.reserve(stride * len(names)), stride)
