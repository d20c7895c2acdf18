"""Copies of rows of batches into a new arena.

Joining samples, selecting records, padding and steps of episodes all copy rows this way. A padded
column is copied cell by cell: its rows are cells of the sources, and cells of padding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._parsing.arrays import Arena, Ints, offsets_of, view_of
from .._parsing.layout import (
    ArenaLayout,
    BytesColumn,
    DenseColumns,
    ListColumn,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    names_of,
)
from .arena import allocate_arena, allocate_for
from .columns import Columns
from .padding import PaddedLength
from .row_copy import RowCopy

# The source of rows that are padding.
_PADDING = -1
_LONGEST = PaddedLength()


def spans_of(rows: Ints, source: int = 0) -> Ints:
    """Return single rows of a source as spans, int64 ``[n, 3]``.

    Args:
        rows: Numbers of the rows, int64 ``[n]``.
        source: Number of the source.
    """
    spans = np.ones((len(rows), 3), np.int64)
    spans[:, 0] = source
    spans[:, 1] = rows
    return spans


def gather_rows(
    sources: Sequence[Columns],
    spans: Any,
    to: PaddedLength | None = _LONGEST,
    allocate: Callable[[int], Tensor] = allocate_arena,
) -> Columns | None:
    """Return columns of rows of batches, in an arena of their own.

    Args:
        sources: Columns of batches that have arenas in the memory of the CPU.
        spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
        to: Length of padded rows. Default: that of the longest of these rows. None to keep the
            length of the only source.
        allocate: Function that allocates the arena.

    Returns:
        None if the records must be joined value by value: if the columns of the batches differ in
        form, or if they could differ from those of a batch of these records. Never for None.

    Raises:
        MemoryError: If there is not enough memory.
        OverflowError: If there are too many values for offsets of 32 bits.
    """
    first = sources[0]
    if _differ(sources):
        return None
    # Some of the records alone may have arrays of equal shapes, or smaller images.
    if to is not None and (
        any(isinstance(column, ListColumn) for column in first.layout)
        or any(padding.axes != (0,) for padding in first.padded.values())
    ):
        return None
    copy = copy_rows(sources, spans, ArenaLayout(), to)
    return _written(copy, first, _count(spans), first.padded, allocate=allocate)


def copy_rows(
    sources: Sequence[Columns], spans: Any, room: ArenaLayout, to: PaddedLength | None = _LONGEST
) -> RowCopy:
    """Return a copy of rows of batches of one form, which is not laid out yet.

    Args:
        sources: Columns of batches that have arenas in the memory of the CPU.
        spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
        room: Layout of the new arena.
        to: Length of rows that are padded at their end; None to keep that of the only source.
    """
    copy = RowCopy([data_of(source) for source in sources], room)
    rows = copy.select(spans)
    padded = {} if to is None else sources[0].padded
    for columns in zip(*(source.layout for source in sources), strict=True):
        padding = padded.get(names_of(columns[0])[0])
        if to is None or padding is None or padding.axes != (0,):
            copy.add(columns, rows)
            continue
        _add_padded(copy, sources, columns, spans, to)
    return copy


def pad_rows(
    source: Columns,
    fill: float,
    to: PaddedLength,
    allocate: Callable[[int], Tensor],
    unpadded: Collection[str] = (),
) -> Columns:
    """Return columns whose Raggeds are padded, and whose padded columns have another length.

    Args:
        source: Columns that have an arena in the memory of the CPU. Those of other kinds are
            copied, and so are padded images, which have other axes.
        fill: Fill value after the end of shorter rows of a Ragged of numbers.
        to: Length of padded rows.
        allocate: Function that allocates an arena of a number of bytes.
        unpadded: Names of Raggeds that are copied.

    Raises:
        ValueError: If a row is longer than the last bucket.
        TypeError: If a Ragged has rows of rows of bytes.
        MemoryError: If there is not enough memory.
    """
    copy = RowCopy([data_of(source)], ArenaLayout())
    count = source.count_records()
    spans = [(0, 0, count)]
    rows = copy.select(spans)
    padded = dict(source.padded)
    lengths = {each.lengths: each for each in padded.values() if each.axes == (0,)}
    order = {name: number for number, name in enumerate(source.names)}
    for column in sorted(source.layout, key=lambda each: order.get(names_of(each)[0], len(order))):
        name = names_of(column)[0]
        padding = padded.get(name)
        if isinstance(column, RaggedColumn) and name not in unpadded:
            padded[name] = Padding(f"{name}\0lengths", fill)
            copy.add_lengths(padded[name].lengths, _pad(copy, source, column, fill, to))
        elif padding is not None and padding.axes == (0,):
            _add_padded(copy, [source], [column], spans, to)
        elif name in lengths:
            found = lengths_in(source, lengths[name])
            copy.add_lengths(name, found if to.max_len is None else found.clip(max=to.max_len))
        else:
            copy.add([column], rows)
    advice = "a smaller max_len"
    return _written(copy, source, count, padded, allocate=allocate, if_padded=advice)


def _written(
    copy: RowCopy,
    like: Columns,
    count: int,
    padded: Mapping[str, Padding],
    *,
    allocate: Callable[[int], Tensor],
    if_padded: str = "a VarLenFeature, which is not padded to the longest record",
) -> Columns:
    """Allocate the arena of a copy, write it, and return its columns."""
    layout = copy.lay_out()
    arena = allocate_for(
        copy.room.size, layout, count, padded, if_padded=if_padded, allocate=allocate
    )
    copy.write(arena.numpy())
    return Columns(arena, layout, like.names, padded, like.paths)


def _add_padded(
    copy: RowCopy,
    sources: Sequence[Columns],
    columns: Sequence[Any],
    spans: Any,
    to: PaddedLength,
) -> None:
    """Add a column that is padded already, with another length."""
    name = names_of(columns[0])[0]
    padding = sources[0].padded[name]
    lengths = [lengths_in(source, padding) for source in sources]
    runs = np.asarray(spans, np.int64).tolist()
    found = [lengths[source][begin : begin + count] for source, begin, count in runs]
    longest = max((int(each.max()) for each in found if len(each)), default=0)
    length, kept = to.length(longest, name), to.cut(longest)
    widths = [_shape_of(column)[1] for column in columns]
    rows, count, fill = np.array(spans, np.int64), _count(spans), b""
    if all(width == kept == length for width in widths):
        cells = rows * (1, length, length)
    else:
        fill = _item(padding.fill, getattr(columns[0], "dtype", "string"))
        counts = rows[:, 2]
        begins = np.arange(count) + np.repeat(rows[:, 1] - offsets_of(counts)[:-1], counts)
        of_row = np.repeat(rows[:, 0], counts)
        width = np.array(widths)[of_row]
        cells = _cells(of_row, begins * width, np.minimum(width, kept), length)
    copy.add([cells_of(column) for column in columns], copy.select(cells, (count, length)), fill)


def _pad(
    copy: RowCopy, source: Columns, column: RaggedColumn, fill: float, to: PaddedLength
) -> Ints:
    """Add a Ragged as a padded column, and return the lengths of its outermost rows after cutting.

    The outermost rows are padded to their length, and the other levels to their longest row.
    """
    values = column.values
    if isinstance(values, Texts) and len(column.splits) > 1:
        raise TypeError("rows of bytes cannot be padded to a Tensor")
    arena = data_of(source)
    totals = [*(inner.shape[0] - 1 for inner in column.splits[1:]), values.shape[0]]
    begins, counts = _bounds(arena, column.splits[0], totals[0])
    longest = int(counts.max(initial=0))
    lengths = counts = np.minimum(counts, to.cut(longest))
    shape = [column.num_records, to.length(longest, column.name)]
    for level, total in zip(column.splits[1:], totals[1:], strict=True):
        positions = np.arange(shape[-1])
        cells = np.where(positions < counts[:, None], begins[:, None] + positions, -1).reshape(-1)
        begins, counts = _bounds(arena, level, total)
        shape.append(int(counts.max(initial=0)))
        # Padding has no values: the last one of these.
        begins, counts = np.append(begins, 0)[cells], np.append(counts, 0)[cells]
    spans = _cells(0, begins, counts, shape[-1])
    rows = copy.select(spans, tuple(shape))
    if isinstance(values, Texts):
        copy.add([BytesColumn(column.name, values)], rows)
    else:
        flat = DenseColumns((column.name,), *values, 0)
        copy.add([flat], rows, _item(fill, values.dtype))
    return lengths


def _bounds(arena: Arena, level: Numbers, total: int) -> tuple[Ints, Ints]:
    """Return the begins and lengths of rows, which are cut to the values that are there."""
    offsets = np.minimum(np.maximum(view_of(arena, level), 0, dtype=np.int64), total)
    return offsets[:-1], np.maximum(offsets[1:] - offsets[:-1], 0)


def _cells(sources: Ints | int, begins: Ints, counts: Ints, length: int) -> Ints:
    """Return the cells of rows that are padded to a length, as spans."""
    spans = np.zeros((len(counts), 6), np.int64)
    spans[:, 0] = sources
    spans[:, 1] = begins
    spans[:, 2] = counts
    spans[:, 3] = _PADDING
    spans[:, 5] = length - counts
    return spans.reshape(-1, 3)


def cells_of(column: Any) -> Any:
    """Return the values in the rows of an array as a column."""
    rows, width, *inner = _shape_of(column)
    shape = (rows * width, *inner)
    if isinstance(column, DenseColumns):
        return column._replace(shape=shape)
    return BytesColumn(column.name, column.values._replace(shape=shape))


def _shape_of(column: DenseColumns | BytesColumn) -> tuple[int, ...]:
    return column.shape if isinstance(column, DenseColumns) else column.values.shape


def _item(fill: Any, dtype: str) -> bytes:
    """Return the padding of a column as bytes."""
    if dtype == "string":
        return fill if isinstance(fill, bytes) else b""
    return _number(fill, str(fill), dtype)


@functools.lru_cache(64)
def _number(fill: Any, shown: str, dtype: str) -> bytes:
    """Return a number as bytes; ``shown`` tells -0.0 from 0.0."""
    del shown
    item = torch.full((1,), fill, dtype=getattr(torch, dtype))
    return item.view(torch.uint8).numpy().tobytes()


def data_of(source: Columns) -> Arena:
    """Return an arena in the memory of the CPU, uint8 ``[n]``."""
    assert source.arena is not None
    data: Arena = source.arena.numpy()
    return data


def lengths_in(source: Columns, padding: Padding) -> Ints:
    """Return the lengths of the records of a padded column; int64 ``[B]``."""
    column = next(c for c in source.layout if padding.lengths in names_of(c))
    assert isinstance(column, DenseColumns)
    found: Ints = view_of(data_of(source), Numbers(column.dtype, column.shape, column.at))
    return found


def _differ(sources: Sequence[Columns]) -> bool:
    """Return whether the rows of batches cannot be joined, because their columns differ."""
    first = sources[0]
    others = [each for each in sources[1:] if each.form is not first.form]
    if not others:
        return False
    forms = [_form(column, first.padded) for column in first.layout]
    return any(
        each.form[1:] != first.form[1:]
        or [_form(column, first.padded) for column in each.layout] != forms
        for each in others
    )


def _form(column: Any, padded: Mapping[str, Padding]) -> tuple[Any, ...]:
    """Return the kind, dtypes and shape of a column, without the number of records."""
    axes = 2 if names_of(column)[0] in padded else 1  # that may have other sizes
    if isinstance(column, DenseColumns):
        return DenseColumns, column.names, column.dtype, column.shape[axes:]
    if isinstance(column, BytesColumn):
        return BytesColumn, column.name, column.values.shape[axes:]
    if isinstance(column, ListColumn):
        return ListColumn, column.name
    values = column.values
    form = (column.name, values.shape[1:], getattr(values, "dtype", "string"))
    if isinstance(column, SparseColumn):
        return SparseColumn, column.shape[1:], *form
    return RaggedColumn, *form, *(level.dtype for level in column.splits)


def _count(spans: Any) -> int:
    return int(np.asarray(spans)[:, 2].sum()) if len(spans) else 0
