"""Positions of the columns of a batch in its arena.

These classes are plain tuples, because they are sent with every batch between processes. Every kind
of column has the same methods:

* ``names``: Names of its columns; only :class:`DenseColumns` has several.
* ``form``: Its dtype and shape in words, for error messages.
* ``size``: Size of its data in bytes.
* ``moved(move)``: The column with its arrays at other offsets. ``move`` is called with the offset
  and the size of each array, and returns the new offset.
* ``add_views(arena, views)``: Adds a view of each column to the dict ``views``. ``arena`` makes the
  views; see :class:`torchrec_io.tensors.views.ArenaViews`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..schema.dtypes import item_bytes

# Every column starts at a multiple of this: a cache line, and more than any element needs.
ALIGNMENT_BYTES = 64

Move: TypeAlias = "Callable[[int, int], int]"


class Numbers(NamedTuple):
    """A numeric array."""

    dtype: str
    shape: tuple[int, ...]
    at: int

    @property
    def form(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def size(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)

    def moved(self, move: Move) -> Numbers:
        return Numbers(self.dtype, self.shape, move(self.at, self.size))

    def view(self, arena: Any) -> Any:
        return arena.numbers(self.dtype, self.shape, self.at)


class Texts(NamedTuple):
    """An array of bytes values: int64 offsets ``[n + 1]`` into uint8 data."""

    shape: tuple[int, ...]
    offsets_at: int
    data_at: int
    data_bytes: int

    @property
    def form(self) -> str:
        return f"bytes{list(self.shape)}"

    @property
    def size(self) -> int:
        return 8 * (math.prod(self.shape) + 1) + self.data_bytes

    def moved(self, move: Move) -> Texts:
        offsets_at = move(self.offsets_at, self.size - self.data_bytes)
        return Texts(self.shape, offsets_at, move(self.data_at, self.data_bytes), self.data_bytes)

    def view(self, arena: Any) -> Any:
        return arena.texts(self)


Values: TypeAlias = Numbers | Texts


class DenseColumns(NamedTuple):
    """Numeric columns of one dtype and shape, ``stride`` bytes apart, viewed all at once."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]  # with the batch size first
    at: int
    stride: int

    @property
    def form(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    @property
    def size(self) -> int:
        return self.stride * len(self.names)

    def moved(self, move: Move) -> DenseColumns:
        at = move(self.at, self.size)
        return DenseColumns(self.names, self.dtype, self.shape, at, self.stride)

    def arrays(self) -> Iterator[tuple[str, Numbers]]:
        """Yield the name and the array of each column."""
        for number, name in enumerate(self.names):
            yield name, Numbers(self.dtype, self.shape, self.at + number * self.stride)

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views.update(zip(self.names, arena.dense(self), strict=True))


class BytesColumn(NamedTuple):
    """An array of bytes values."""

    name: str
    values: Texts  # of a shape with the batch size first

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def form(self) -> str:
        return self.values.form

    @property
    def size(self) -> int:
        return self.values.size

    def moved(self, move: Move) -> BytesColumn:
        return BytesColumn(self.name, self.values.moved(move))

    def arrays(self) -> Iterator[tuple[str, Texts]]:
        """Yield the name and the array of the column."""
        yield self.name, self.values

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = arena.texts(self.values)


class RaggedColumn(NamedTuple):
    """Rows of any length, or rows of rows; offsets of each level, outermost first."""

    name: str
    splits: tuple[Numbers, ...]
    values: Values

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def form(self) -> str:
        return f"rows of {self.values.form}"

    @property
    def size(self) -> int:
        return sum(level.size for level in self.splits) + self.values.size

    def moved(self, move: Move) -> RaggedColumn:
        splits = tuple(level.moved(move) for level in self.splits)
        return RaggedColumn(self.name, splits, self.values.moved(move))

    def view(self, arena: Any) -> Any:
        rows = self.values.view(arena)
        for level in reversed(self.splits):
            rows = arena.ragged(rows, level.view(arena))
        return rows

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = self.view(arena)


class SparseColumn(NamedTuple):
    """Values and their indices, int64 ``[n, rank]``, in an array of ``shape``."""

    name: str
    shape: tuple[int, ...]
    indices: Numbers
    values: Values

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def form(self) -> str:
        return f"sparse {self.values.form}"

    @property
    def size(self) -> int:
        return self.indices.size + self.values.size

    def moved(self, move: Move) -> SparseColumn:
        indices = self.indices.moved(move)
        return SparseColumn(self.name, self.shape, indices, self.values.moved(move))

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = arena.sparse(
            self.indices.view(arena), self.values.view(arena), self.shape
        )


class ListColumn(NamedTuple):
    """One array a record, each of its own shape, or rows of such."""

    name: str
    arrays: tuple[Values | RaggedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def form(self) -> str:
        return f"a list of {len(self.arrays)} arrays"

    @property
    def size(self) -> int:
        return sum(array.size for array in self.arrays)

    def moved(self, move: Move) -> ListColumn:
        return ListColumn(self.name, tuple(array.moved(move) for array in self.arrays))

    def add_views(self, arena: Any, views: dict[str, Any]) -> None:
        views[self.name] = [array.view(arena) for array in self.arrays]


class Padding(NamedTuple):
    """How a column is padded.

    Attributes:
        lengths: The hidden column of each record's own length: ``[B]``, or ``[B, axes]`` where
            other axes than the first are padded.
        fill: What it is padded with.
        axes: Which axes of a record's value are padded.
    """

    lengths: str
    fill: Any
    axes: tuple[int, ...] = (0,)


Column: TypeAlias = DenseColumns | BytesColumn | RaggedColumn | SparseColumn | ListColumn


class Room:
    """Hands out places in an arena that is still to be allocated."""

    def __init__(self, taken: int = 0) -> None:
        self.size = taken

    def take(self, size: int) -> int:
        """Reserves ``size`` bytes and returns where they start, aligned."""
        at = self.size
        self.size = at + size + -size % ALIGNMENT_BYTES
        return at

    def take_numbers(self, dtype: str, shape: tuple[int, ...]) -> Numbers:
        """Reserves a numeric array."""
        return Numbers(dtype, shape, self.take(math.prod(shape) * item_bytes(dtype)))

    def take_texts(self, shape: tuple[int, ...], data_bytes: int) -> Texts:
        """Reserves an array of bytes values."""
        offsets_at = self.take(8 * (math.prod(shape) + 1))
        return Texts(shape, offsets_at, self.take(data_bytes), data_bytes)

    def take_values(self, dtype: str, shape: tuple[int, ...], data_bytes: int) -> Values:
        """Reserves an array of numbers, or of bytes values ("string")."""
        if dtype == "string":
            return self.take_texts(shape, data_bytes)
        return self.take_numbers(dtype, shape)

    def take_splits(self, counts: Sequence[int], dtype: str) -> tuple[Numbers, ...]:
        """Reserves offsets of rows: so many rows on each level, outermost first."""
        return tuple(self.take_numbers(dtype, (count + 1,)) for count in counts)

    def take_dense(
        self, names: tuple[str, ...], dtype: str, shape: tuple[int, ...]
    ) -> DenseColumns:
        """Reserves numeric columns of one dtype and shape."""
        stride = -(-math.prod(shape) * item_bytes(dtype) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return DenseColumns(names, dtype, shape, self.take(stride * len(names)), stride)
