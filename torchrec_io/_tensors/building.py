"""Columns that are copied into a new arena."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    RaggedColumn,
    SparseColumn,
    Texts,
)
from .arena import allocate_arena, allocate_for
from .columns import Columns
from .ragged import BytesArray, Ragged, Sparse
from .views import ArenaViews, name_dtype


class Stacked(list[Tensor]):
    """Tensors of one shape, which are stacked to one column."""


def in_arena(columns: Columns, allocate: Callable[[int], Tensor] = allocate_arena) -> Columns:
    """Return columns that share an arena in the memory of the CPU; the same ones if they do.

    Numbers of one dtype and shape are laid out together, except padded ones.

    Args:
        columns: The columns.
        allocate: Function that allocates the arena. Default: ordinary memory.

    Raises:
        TypeError: If a column is not made of Tensors.
        MemoryError: If there is not enough memory.
    """
    if columns.arena is not None:
        return columns.to("cpu", non_blocking=False)
    records = columns.count_records()
    _, names, padded, paths = columns.form
    room = _Room()
    dense: dict[tuple[str, tuple[int, ...], str], dict[str, Any]] = {}
    others: list[Column] = []
    for name, value in columns.views().items():
        if isinstance(value, (Tensor, Stacked)):
            # Padded columns and their lengths are looked up by their names.
            alone = name if name in padded or "\0" in name else ""
            dense.setdefault((*_form_of(value), alone), {})[name] = value
        else:
            others.append(room.column(name, value))
    same = [room.dense(dtype, shape, values) for (dtype, shape, _), values in dense.items()]
    layout = [*same, *others]
    arena = allocate_for(room.layout.size, layout, records, padded, allocate=allocate)
    views = ArenaViews(arena)
    for numbers, value in room.writes:
        to = numbers.view(views)
        if isinstance(value, Stacked):
            torch.stack(value, out=to)
        else:
            to.copy_(value)
    return Columns(arena, layout, names, padded, paths)


def _form_of(value: Tensor | Stacked) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and shape of a column of numbers."""
    if isinstance(value, Stacked):
        return name_dtype(value[0]), (len(value), *value[0].shape)
    return name_dtype(value), tuple(value.shape)


class _Room:
    """The layout of an arena, with the Tensors to write into it."""

    def __init__(self) -> None:
        self.layout = ArenaLayout()
        self.writes: list[tuple[Numbers, Any]] = []

    def dense(self, dtype: str, shape: tuple[int, ...], values: Mapping[str, Any]) -> DenseColumns:
        """Lay out columns of numbers of one dtype and shape."""
        columns = self.layout.reserve_dense(tuple(values), dtype, shape)
        arrays = (array for _, array in columns.arrays())
        self.writes += zip(arrays, values.values(), strict=True)
        return columns

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
        numbers = self.layout.reserve_numbers(*_form_of(values))
        self.writes.append((numbers, values))
        return numbers

    def _texts(self, array: BytesArray) -> Texts:
        count = array.data.numel()
        texts = self.layout.reserve_texts(array.shape, count)
        offsets = Numbers("int64", tuple(array.offsets.shape), texts.offsets_at)
        data = Numbers("uint8", (count,), texts.data_at)
        self.writes += [(offsets, array.offsets), (data, array.data)]
        return texts
