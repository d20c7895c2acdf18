"""Builder of batches whose columns are copied into a new arena."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    ListColumn,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from .._schema.nesting import Path
from .arena import allocate_for
from .batch import Batch, allocate_arena
from .ragged import BytesArray, Ragged, Sparse
from .views import name_dtype


class BatchBuilder:
    """Columns of a batch that is being built.

    Columns are laid out first and written by :meth:`build`, so that the arena is allocated once
    with its exact size.

    Args:
        size: Size of the columns that the arena begins with, which the caller lays out, in bytes.

    Attributes:
        room: Space of the arena that is taken.
        columns: Columns that were added.
        padded: Padding of each padded column, by name.
        writes: Functions that write a part of the arena.
    """

    def __init__(self, size: int = 0) -> None:
        self.room = ArenaLayout(size)
        self.columns: list[Column] = []
        self.padded: dict[str, Padding] = {}
        self.writes: list[Callable[[Tensor], Any]] = []

    def add_dense(self, name: str, values: Tensor) -> None:
        """Add a column of numbers."""
        self.add_dense_later(name, values.dtype, tuple(values.shape), lambda to: to.copy_(values))

    def add_dense_later(
        self, name: str, dtype: torch.dtype, shape: tuple[int, ...], write: Callable[[Tensor], Any]
    ) -> None:
        """Add a column of numbers that ``write`` writes into a Tensor of this dtype and shape."""
        column = self.room.reserve_dense((name,), str(dtype).removeprefix("torch."), shape)
        self.columns.append(column)
        self.writes.append(lambda arena: write(_part(arena, dtype, shape, column.at)))

    def add_bytes(self, name: str, array: BytesArray) -> None:
        """Add a column of bytes values."""
        self.columns.append(BytesColumn(name, self._take_texts(array)))

    def add_values(self, name: str, value: Any) -> None:
        """Add a column that is a Tensor, BytesArray, Ragged or Sparse, or a list of these."""
        if isinstance(value, Tensor):
            self.add_dense(name, value)
        elif isinstance(value, BytesArray):
            self.add_bytes(name, value)
        elif isinstance(value, Ragged):
            self.columns.append(self._take_rows(name, value))
        elif isinstance(value, Sparse):
            indices, values = self.take_numbers(value.indices), self.take_values(value.values)
            self.columns.append(SparseColumn(name, value.dense_shape, indices, values))
        else:
            self.columns.append(ListColumn(name, tuple(map(self._take_value, value))))

    def add_lengths(
        self, name: str, lengths: Tensor, fill: Any, axes: tuple[int, ...] = (0,)
    ) -> None:
        """Add the hidden column of the lengths of a padded column.

        Args:
            name: Name of the padded column.
            lengths: int64 ``[B]``, or ``[B, len(axes)]`` for other axes than the first.
            fill: Fill value of the padding.
            axes: Axes of a record's value that are padded.
        """
        padding = Padding(f"{name}\0lengths", fill, axes)
        self.padded[name] = padding
        self.add_dense(padding.lengths, lengths)

    def take_numbers(self, values: Tensor) -> Numbers:
        """Lay out numbers that are a part of a column, and return their position."""
        numbers = self.room.reserve_numbers(name_dtype(values), tuple(values.shape))
        self._write_at(numbers.at, values)
        return numbers

    def take_values(self, values: Tensor | BytesArray) -> Values:
        """Lay out numbers or bytes values that are a part of a column; return their position."""
        if isinstance(values, BytesArray):
            return self._take_texts(values)
        return self.take_numbers(values)

    def build(
        self,
        records: int,
        names: Sequence[str],
        paths: Mapping[str, Path] | None = None,
        allocate: Callable[[int], Tensor] = allocate_arena,
        *,
        has_views: bool = True,
    ) -> Batch:
        """Allocate the arena, write all columns and return the batch.

        Args:
            records: Number of records in the batch.
            names: Flat names of the columns, in their order.
            paths: Keys of the dicts that lead to each nested column.
            allocate: Function that allocates the arena. Default: ordinary memory.
            has_views: Whether to create the views now rather than on first use.

        Raises:
            MemoryError: If there is not enough memory.
        """
        arena = allocate_for(
            self.room.size,
            self.columns,
            records,
            self.padded,
            if_padded="a smaller max_len",
            allocate=allocate,
        )
        for write in self.writes:
            write(arena)
        return Batch(arena, self.columns, names, self.padded, paths, has_views=has_views)

    def _take_value(self, value: Any) -> Values | RaggedColumn:
        if isinstance(value, Ragged):
            return self._take_rows("", value)
        return self.take_values(value)

    def _take_rows(self, name: str, rows: Ragged) -> RaggedColumn:
        splits = []
        values: Any = rows
        while isinstance(values, Ragged):
            splits.append(self.take_numbers(values.offsets))
            values = values.values
        return RaggedColumn(name, tuple(splits), self.take_values(values))

    def _take_texts(self, array: BytesArray) -> Texts:
        texts = self.room.reserve_texts(array.shape, array.data.numel())
        self._write_at(texts.offsets_at, array.offsets)
        self._write_at(texts.data_at, array.data)
        return texts

    def _write_at(self, at: int, values: Tensor) -> None:
        shape = tuple(values.shape)
        self.writes.append(lambda arena: _part(arena, values.dtype, shape, at).copy_(values))


def gathered(batch: Batch, device: torch.device) -> Batch:
    """Return a copy of a batch whose columns share an arena.

    Args:
        batch: Batch whose columns are made of Tensors.
        device: Device of the arena.

    Raises:
        MemoryError: If there is not enough memory.
    """
    builder = BatchBuilder()
    _, names, padded, paths = batch.layout
    builder.padded |= padded
    for name, value in batch.all_columns().items():
        builder.add_values(name, value)

    def allocate(size: int) -> Tensor:
        if device.type == "cpu":
            return allocate_arena(size)
        return torch.empty(size, dtype=torch.uint8, device=device)

    return builder.build(batch.num_records, names, paths, allocate)


def _part(arena: Tensor, dtype: torch.dtype, shape: tuple[int, ...], at: int) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return arena[at : at + size].view(dtype).view(shape)
