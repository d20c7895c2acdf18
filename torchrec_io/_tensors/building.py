"""Columns that are copied into a new arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

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
)
from .._schema.nesting import Path
from .arena import allocate_arena, allocate_for
from .columns import Columns
from .ragged import BytesArray, Ragged, Sparse
from .views import ArenaViews, name_dtype

_Write: TypeAlias = Callable[[Tensor], Any]


class ColumnsBuilder:
    """Columns that are being copied into a new arena.

    The arena is allocated once, with its exact size, when all columns are known. Numbers of one
    dtype and shape are laid out together, except padded ones.

    Args:
        padded: Padding of padded columns that are added with their hidden columns of lengths.
    """

    def __init__(self, padded: Mapping[str, Padding] | None = None) -> None:
        self._padded = dict(padded or {})
        # Names of columns of numbers, and the functions that write them.
        self._dense: dict[tuple[torch.dtype, tuple[int, ...], str], dict[str, _Write]] = {}
        self._others: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Add a column that is a Tensor, BytesArray, Ragged or Sparse, or a list of these."""
        if isinstance(value, Tensor):
            self.add_numbers(name, value.dtype, tuple(value.shape), lambda to: to.copy_(value))
        else:
            self._others[name] = value

    def add_numbers(
        self, name: str, dtype: torch.dtype, shape: tuple[int, ...], write: _Write
    ) -> None:
        """Add a column of numbers that ``write`` writes into a Tensor of this dtype and shape."""
        # Padded columns and their lengths are looked up by their names.
        alone = name if name in self._padded or "\0" in name else ""
        self._dense.setdefault((dtype, shape, alone), {})[name] = write

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
        self._padded[name] = padding
        self.add(padding.lengths, lengths)

    def build(
        self,
        records: int,
        names: Sequence[str],
        paths: Mapping[str, Path] | None = None,
        allocate: Callable[[int], Tensor] = allocate_arena,
    ) -> Columns:
        """Allocate the arena, write all columns and return them.

        Args:
            records: Number of records in the batch.
            names: Flat names of the columns, in their order.
            paths: Keys of the dicts that lead to each nested column.
            allocate: Function that allocates the arena. Default: ordinary memory.

        Raises:
            MemoryError: If there is not enough memory.
        """
        room = _Room()
        dense = [
            room.layout.reserve_dense(tuple(writes), str(dtype).removeprefix("torch."), shape)
            for (dtype, shape, _), writes in self._dense.items()
        ]
        layout = [*dense, *(room.column(name, value) for name, value in self._others.items())]
        arena = allocate_for(room.layout.size, layout, records, self._padded, allocate=allocate)
        views = ArenaViews(arena)
        for columns, writes in zip(dense, self._dense.values(), strict=True):
            for write, to in zip(writes.values(), views.dense(columns), strict=True):
                write(to)
        for numbers, values in room.writes:
            numbers.view(views).copy_(values)
        return Columns(arena, layout, names, self._padded, paths)


class _Room:
    """The layout of an arena, with the Tensors to write into it."""

    def __init__(self) -> None:
        self.layout = ArenaLayout()
        self.writes: list[tuple[Numbers, Tensor]] = []

    def column(self, name: str, value: Any) -> Column:
        """Lay out a column that is not a Tensor."""
        if isinstance(value, BytesArray):
            return BytesColumn(name, self._texts(value))
        if isinstance(value, Ragged):
            return self._rows(name, value)
        if isinstance(value, Sparse):
            indices, values = self._numbers(value.indices), self._part(value.values)
            return SparseColumn(name, value.dense_shape, indices, values)
        return ListColumn(name, tuple(map(self._part, value)))

    def _part(self, value: Any) -> Any:
        if isinstance(value, Ragged):
            return self._rows("", value)
        return self._texts(value) if isinstance(value, BytesArray) else self._numbers(value)

    def _rows(self, name: str, rows: Ragged) -> RaggedColumn:
        splits = []
        values: Any = rows
        while isinstance(values, Ragged):
            splits.append(self._numbers(values.offsets))
            values = values.values
        return RaggedColumn(name, tuple(splits), self._part(values))

    def _numbers(self, values: Tensor) -> Numbers:
        numbers = self.layout.reserve_numbers(name_dtype(values), tuple(values.shape))
        self.writes.append((numbers, values))
        return numbers

    def _texts(self, array: BytesArray) -> Texts:
        count = array.data.numel()
        texts = self.layout.reserve_texts(array.shape, count)
        offsets = Numbers("int64", tuple(array.offsets.shape), texts.offsets_at)
        data = Numbers("uint8", (count,), texts.data_at)
        self.writes += [(offsets, array.offsets), (data, array.data)]
        return texts


def in_arena(columns: Columns) -> Columns:
    """Return columns that share an arena in the memory of the CPU; the same ones if they do.

    Raises:
        TypeError: If a column is not made of Tensors.
        MemoryError: If there is not enough memory.
    """
    if columns.arena is not None:
        return columns.to("cpu", non_blocking=False)
    records = columns.count_records()
    builder = ColumnsBuilder(columns.padded)
    for name, value in columns.views().items():
        builder.add(name, value)
    return builder.build(records, columns.names, columns.paths)
