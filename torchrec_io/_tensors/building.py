"""Columns that are copied into a new arena."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    ListColumn,
    RaggedColumn,
    SparseColumn,
)
from .arena import allocate_arena, allocate_for
from .columns import Columns
from .ragged import BytesArray, Ragged, Sparse, name_dtype


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
    values = columns.views()
    room = ArenaLayout()
    dense: dict[tuple[str, tuple[int, ...], str], list[str]] = {}
    others: list[Column] = []
    for name, value in values.items():
        if isinstance(value, (Tensor, Stacked)):
            # Padded columns and their lengths are looked up by their names.
            alone = name if name in columns.form.padded or "\0" in name else ""
            dense.setdefault((*_form_of(value), alone), []).append(name)
        else:
            others.append(_lay_out_column(room, name, value))
    same = [
        room.reserve_dense(tuple(group), dtype, shape) for (dtype, shape, _), group in dense.items()
    ]
    layout = [*same, *others]
    arena = allocate_for(room.size, layout, records, allocate)
    made = Columns(arena, layout, columns.form)
    for name, view in made.views().items():
        _copy(values[name], view)
    return made


def _form_of(value: Tensor | Stacked) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and shape of a column of numbers."""
    if isinstance(value, Stacked):
        return name_dtype(value[0]), (len(value), *value[0].shape)
    return name_dtype(value), tuple(value.shape)


def _lay_out_column(room: ArenaLayout, name: str, value: Any) -> Column:
    """Lay out a column that is not a Tensor."""
    if isinstance(value, BytesArray):
        return BytesColumn(name, _lay_out(room, value))
    if isinstance(value, Ragged):
        return _lay_out_rows(room, name, value)
    if isinstance(value, Sparse):
        indices, values = _lay_out(room, value.indices), _lay_out(room, value.values)
        return SparseColumn(name, value.dense_shape, indices, values)
    return ListColumn(name, tuple(_lay_out(room, each) for each in value))


def _lay_out_rows(room: ArenaLayout, name: str, rows: Any) -> RaggedColumn:
    splits = []
    while isinstance(rows, Ragged):
        splits.append(_lay_out(room, rows.offsets))
        rows = rows.values
    return RaggedColumn(name, tuple(splits), _lay_out(room, rows))


def _lay_out(room: ArenaLayout, value: Any) -> Any:
    """Lay out a Tensor, a BytesArray or a Ragged."""
    if isinstance(value, Ragged):
        return _lay_out_rows(room, "", value)
    if isinstance(value, BytesArray):
        return room.reserve_texts(value.shape, value.data.numel())
    return room.reserve_numbers(*_form_of(value))


def _copy(value: Any, to: Any) -> None:
    """Copy a column, or a part of it, into its view of the arena."""
    if isinstance(value, Stacked):
        torch.stack(value, out=to)
    elif isinstance(value, Tensor):
        to.detach().copy_(value.detach())  # an arena has no gradients
    else:
        parts = (value, to) if isinstance(value, list) else (value.parts, to.parts)
        for part, view in zip(*parts, strict=True):
            _copy(part, view)
