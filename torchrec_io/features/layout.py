"""Where the columns of a batch lie in its arena.

These are plain tuples: they travel with every batch between processes.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

from .schema import item_bytes

# Every column starts at a multiple of this: a cache line, and more than any element needs.
ALIGNMENT_BYTES = 64


class DenseColumns(NamedTuple):
    """Numeric columns of one dtype and shape, ``stride`` bytes apart, viewed all at once."""

    names: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]  # with the batch size first
    at: int
    stride: int


class BytesColumn(NamedTuple):
    """An array of bytes values: int64 offsets ``[n + 1]`` into uint8 data."""

    name: str
    shape: tuple[int, ...]  # with the batch size first
    offsets_at: int
    data_at: int
    data_bytes: int


class RaggedColumn(NamedTuple):
    """Rows of numbers of any length: int64 offsets ``[rows + 1]`` into the values."""

    name: str
    dtype: str
    rows: int
    offsets_at: int
    values: int
    values_at: int


class RaggedBytesColumn(NamedTuple):
    """Rows of bytes values: int64 offsets ``[rows + 1]`` into the values."""

    name: str
    rows: int
    offsets_at: int
    values: BytesColumn


class ListColumn(NamedTuple):
    """One array a record, each of its own shape."""

    name: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    at: tuple[int, ...]


Column: TypeAlias = DenseColumns | BytesColumn | RaggedColumn | RaggedBytesColumn | ListColumn


class Room:
    """Hands out places in an arena that is still to be allocated."""

    def __init__(self, taken: int = 0) -> None:
        self.size = taken

    def take(self, size: int) -> int:
        """Reserves ``size`` bytes and returns where they start, aligned."""
        at = self.size
        self.size += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return at

    def take_dense(
        self, names: tuple[str, ...], dtype: str, shape: tuple[int, ...]
    ) -> DenseColumns:
        """Reserves numeric columns of one dtype and shape."""
        stride = -(-math.prod(shape) * item_bytes(dtype) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return DenseColumns(names, dtype, shape, self.take(stride * len(names)), stride)

    def take_bytes(self, name: str, shape: tuple[int, ...], data_bytes: int) -> BytesColumn:
        """Reserves an array of bytes values."""
        offsets_at = self.take(8 * (math.prod(shape) + 1))
        return BytesColumn(name, shape, offsets_at, self.take(data_bytes), data_bytes)

    def take_ragged(self, name: str, dtype: str, rows: int, values: int) -> RaggedColumn:
        """Reserves rows of numbers."""
        offsets_at = self.take(8 * (rows + 1))
        return RaggedColumn(
            name, dtype, rows, offsets_at, values, self.take(values * item_bytes(dtype))
        )

    def take_ragged_bytes(
        self, name: str, rows: int, values: int, data_bytes: int
    ) -> RaggedBytesColumn:
        """Reserves rows of bytes values."""
        offsets_at = self.take(8 * (rows + 1))
        return RaggedBytesColumn(
            name, rows, offsets_at, self.take_bytes(name, (values,), data_bytes)
        )

    def take_list(self, name: str, dtype: str, shapes: tuple[tuple[int, ...], ...]) -> ListColumn:
        """Reserves arrays of their own shapes."""
        at = tuple(self.take(math.prod(shape) * item_bytes(dtype)) for shape in shapes)
        return ListColumn(name, dtype, shapes, at)
