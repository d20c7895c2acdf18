"""Where the columns of a batch lie in its arena.

These are plain tuples: they travel with every batch between processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from ..schema.dtypes import item_bytes

# Every column starts at a multiple of this: a cache line, and more than any element needs.
ALIGNMENT_BYTES = 64


class Numbers(NamedTuple):
    """A numeric array."""

    dtype: str
    shape: tuple[int, ...]
    at: int


class Texts(NamedTuple):
    """An array of bytes values: int64 offsets ``[n + 1]`` into uint8 data."""

    shape: tuple[int, ...]
    offsets_at: int
    data_at: int
    data_bytes: int


Values: TypeAlias = Numbers | Texts


class DenseColumns(NamedTuple):
    """Numeric columns of one dtype and shape, ``stride`` bytes apart, viewed all at once."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]  # with the batch size first
    at: int
    stride: int


class BytesColumn(NamedTuple):
    """An array of bytes values."""

    name: str
    values: Texts  # of a shape with the batch size first


class RaggedColumn(NamedTuple):
    """Rows of any length, or rows of rows; offsets of each level, outermost first."""

    name: str
    splits: tuple[Numbers, ...]
    values: Values


class SparseColumn(NamedTuple):
    """Values and their indices, int64 ``[n, rank]``, in an array of ``shape``."""

    name: str
    shape: tuple[int, ...]
    indices: Numbers
    values: Values


class ListColumn(NamedTuple):
    """One array a record, each of its own shape, or rows of such."""

    name: str
    arrays: tuple[Values | RaggedColumn, ...]


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
