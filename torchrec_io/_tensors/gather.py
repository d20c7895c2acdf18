"""Copies of rows of batches into a new arena.

Joining samples, selecting records, padding and steps of episodes all copy rows this way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._parsing.arrays import Arena, Ints, view_of
from .._parsing.layout import (
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
from .row_copy import PaddedRows, RowCopy, arrays_of
from .views import number_bytes

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
        or any(padding.axes != (0,) for padding in first.form.padded.values())
    ):
        return None
    return _gathered(sources, spans, to, {}, allocate)


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
    new = {
        column.name: Padding(f"{column.name}\0lengths", fill)
        for column in source.layout
        if isinstance(column, RaggedColumn) and column.name not in unpadded
    }
    spans = [(0, 0, source.count_records())]
    made = _gathered([source], spans, to, new, allocate)
    if to.max_len is not None:
        for padding in source.form.padded.values():
            if padding.axes == (0,):
                lengths = lengths_in(made, padding)
                np.minimum(lengths, to.max_len, out=lengths)
    return made


def _gathered(
    sources: Sequence[Columns],
    spans: Any,
    to: PaddedLength | None,
    new: Mapping[str, Padding],
    allocate: Callable[[int], Tensor],
) -> Columns:
    """Return a copy of rows in a new arena; see :func:`copy_rows`."""
    copy = copy_rows(sources, spans, to, new)
    layout = copy.plan()
    first = sources[0]
    padded = {**first.form.padded, **new} if new else first.form.padded
    count = int(np.asarray(spans)[:, 2].sum()) if len(spans) else 0
    arena = allocate_for(copy.size, layout, count, allocate)
    copy.write(arena.numpy())
    return Columns(arena, layout, first.form._replace(padded=padded))


def copy_rows(
    sources: Sequence[Columns],
    spans: Any,
    to: PaddedLength | None = _LONGEST,
    new: Mapping[str, Padding] | None = None,
) -> RowCopy:
    """Return a copy of rows of batches of one form, which is not laid out yet.

    Args:
        sources: Columns of batches that have arenas in the memory of the CPU.
        spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
        to: Length of rows that are padded at their end; None to keep that of the only source.
        new: Padding of each Ragged of the only source that becomes a padded column.
    """
    copy = RowCopy([data_of(source) for source in sources])
    rows = copy.select(spans)
    padded = sources[0].form.padded
    for columns in zip(*(source.layout for source in sources), strict=True):
        column, name = columns[0], names_of(columns[0])[0]
        padding = padded.get(name)
        if new and to is not None and name in new:
            assert isinstance(column, RaggedColumn)
            outer, inner = _padding_of_ragged(sources[0], column, new[name].fill, to)
            copy.add_padded(column, rows, outer, inner, new[name].lengths)
        elif to is None or padding is None or padding.axes != (0,):
            copy.add(columns, rows)
        else:
            copy.add(columns, rows, _padding_of(sources, column, spans, to))
    return copy


def _padding_of(
    sources: Sequence[Columns], column: Any, spans: Any, to: PaddedLength
) -> PaddedRows:
    """Return the padding of rows of a column that is padded already, with another length."""
    [name] = names_of(column)
    padding = sources[0].form.padded[name]
    lengths = [lengths_in(source, padding) for source in sources]
    runs = np.asarray(spans, np.int64).tolist()
    found = [lengths[source][begin : begin + count] for source, begin, count in runs]
    longest = int(np.concatenate([*found, np.zeros(1, np.int64)]).max())
    fill = _item(padding.fill, getattr(column, "dtype", "string"))
    return PaddedRows(to.length(longest, name), to.cut(longest), fill)


def _padding_of_ragged(
    source: Columns, column: RaggedColumn, fill: float, to: PaddedLength
) -> tuple[PaddedRows, list[int]]:
    """Return the padding of the outermost rows of a Ragged, and the lengths of the other ones.

    The rows of each other level are padded to the longest one.
    """
    values = column.values
    if isinstance(values, Texts) and len(column.splits) > 1:
        raise TypeError("rows of bytes cannot be padded to a Tensor")
    totals = [*(inner.shape[0] - 1 for inner in column.splits[1:]), values.shape[0]]
    levels = zip(column.splits, totals, strict=True)
    longest, *others = [_longest(data_of(source), level, total) for level, total in levels]
    item = b"" if isinstance(values, Texts) else _item(fill, values.dtype)
    return PaddedRows(to.length(longest, column.name), to.cut(longest), item), others


def _longest(arena: Arena, level: Numbers, total: int) -> int:
    """Return the length of the longest row, when rows are cut to the values that are there."""
    offsets = np.minimum(np.maximum(view_of(arena, level), 0, dtype=np.int64), total)
    return int((offsets[1:] - offsets[:-1]).max(initial=0))


def _item(fill: Any, dtype: str) -> bytes:
    """Return the padding of a column as bytes."""
    if dtype == "string":
        return fill if isinstance(fill, bytes) else b""
    return number_bytes(fill, dtype)


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
    others = [
        each
        for each in sources[1:]
        if each.layout is not first.layout or each.form is not first.form
    ]
    if not others:
        return False
    forms = [_form(column, first.form.padded) for column in first.layout]
    return any(
        each.form != first.form
        or [_form(column, first.form.padded) for column in each.layout] != forms
        for each in others
    )


def _form(column: Any, padded: Mapping[str, Padding]) -> tuple[Any, ...]:
    """Return the kind, dtypes and shapes of a column, without the number of records."""
    if isinstance(column, ListColumn):
        return ListColumn, names_of(column)
    first = 2 if names_of(column)[0] in padded else 1  # axis that must have the same size
    dense_shape = column.shape[1:] if isinstance(column, SparseColumn) else ()
    arrays = [
        (getattr(array, "dtype", "string"), array.shape[first:]) for _, array in arrays_of(column)
    ]
    return type(column), names_of(column), dense_shape, arrays


def find_difference(first: Columns, other: Columns) -> str | None:
    """Return the name of a column in which the forms of two batches differ; None if they do not.

    A list of arrays has the form of any other column.
    """
    mine, others = (
        {
            name: (kind, rest)
            for kind, names, *rest in (_form(column, each.form.padded) for column in each.layout)
            for name in names
        }
        for each in (first, other)
    )
    for name in {**mine, **others}:
        forms = [each.get(name, (None,)) for each in (mine, others)]
        kinds = [form[0] for form in forms]
        if None in kinds or (ListColumn not in kinds and forms[0] != forms[1]):
            return str(name.partition("\0")[0])
    return None
