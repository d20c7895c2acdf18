"""Arenas for batches, and what is said where there is no memory for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from torch import Tensor

from ..parsing.layout import (
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    RaggedColumn,
    SparseColumn,
    Values,
)
from ..schema.dtypes import item_bytes
from .batch import allocate_arena

# No address space has so many.
_MOST_BYTES = 1 << 62


def allocate_for(
    size: int,
    columns: Sequence[Column],
    records: int,
    padded: Collection[str] = (),
    *,
    if_padded: str = "a VarLenFeature, which is not padded to the longest record",
    allocate: Callable[[int], Tensor] | None = None,
) -> Tensor:
    """The arena of a batch.

    Args:
        size: Of the arena, in bytes.
        columns: What goes there.
        records: Of the batch.
        padded: Names of the columns that are padded.
        if_padded: What would need less in the place of such a column.
        allocate: Allocates it; by default in plain memory.

    Raises:
        MemoryError: there is no such memory; it tells what it would be needed for.
    """
    try:
        if size <= _MOST_BYTES:
            return (allocate or allocate_arena)(size)
    except MemoryError:
        pass
    reason = f"there is no memory for a batch of {records} records, which needs {_bytes(size)}"
    advice = "a smaller batch_size needs less"
    parts = [part for column in columns for part in _parts(column)]
    if parts:
        most = max(parts, key=lambda part: part.size)
        reason += f"; its column {most.name!r}, {most.form}, needs {_bytes(most.size)} of that"
        if most.name in padded:
            advice += f", and so does {if_padded}"
    raise MemoryError(f"{reason}: {advice}")


def _bytes(size: int) -> str:
    power = min(6, max(1, (size.bit_length() - 1) // 10))
    return f"{size} bytes ({size / 1024**power:.1f} {'KMGTPE'[power - 1]}iB)"


class _Part(NamedTuple):
    """A column: its name, dtype and shape, and the bytes that it needs."""

    name: str
    form: str
    size: int


def _parts(column: Column) -> list[_Part]:
    if isinstance(column, DenseColumns):
        form = f"{column.dtype}{list(column.shape)}"
        # The lengths of a padded column are one of their own, of a hidden name.
        return [_Part(name.partition("\0")[0], form, column.stride) for name in column.names]
    if isinstance(column, BytesColumn):
        form = f"bytes{list(column.values.shape)}"
        return [_Part(column.name, form, _size(column.values))]
    if isinstance(column, ListColumn):
        size = sum(map(_size_of_one, column.arrays))
        return [_Part(column.name, f"a list of {len(column.arrays)} arrays", size)]
    values = column.values
    held = values.dtype if isinstance(values, Numbers) else "bytes"
    form = f"{math.prod(values.shape)} values of {held}"
    if isinstance(column, RaggedColumn):
        return [_Part(column.name, form, _size_of_one(column))]
    assert isinstance(column, SparseColumn)
    return [_Part(column.name, form, _size(column.indices) + _size(values))]


def _size_of_one(array: Values | RaggedColumn) -> int:
    if isinstance(array, RaggedColumn):
        return sum(map(_size, array.splits)) + _size(array.values)
    return _size(array)


def _size(values: Values) -> int:
    count = math.prod(values.shape)
    if isinstance(values, Numbers):
        return count * item_bytes(values.dtype)
    return 8 * (count + 1) + values.data_bytes
