"""Columns of steps, gathered from columns of whole episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._parsing.columns.base import Arena, Ints, offsets_of, view_of
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
    Values,
    names_of,
)
from .._tensors.arena import allocate_for
from .._tensors.batch import Batch


class StepRows(NamedTuple):
    """The steps that samples take of the rows of a batch.

    Attributes:
        rows: Row of each sample; int64 ``[n]``.
        steps: Steps that the sample takes of its row; int64 ``[n]``, or ``[n, window]``.
    """

    rows: Ints
    steps: Ints

    def entries(self, firsts: Ints) -> Ints:
        """Return the index of each step; ``firsts`` is that of the first step of each row."""
        return (firsts.reshape(-1, *(1,) * (self.steps.ndim - 1)) + self.steps).reshape(-1)


def count_steps(batch: Batch, names: Collection[str]) -> dict[str, Ints]:
    """Return the number of steps of each row in some columns; int64 ``[B]``, by name."""
    columns, _, padded, _ = batch.layout
    arena = batch.arena.numpy()
    counts = {
        name: _steps_in(arena, column)
        for column in columns
        for name in names_of(column)
        if name in names
    }
    lengths = batch.lengths
    counts |= {name: lengths[name].numpy() for name in padded if name in names}
    return counts


def _steps_in(arena: Arena, column: Column) -> Ints:
    if isinstance(column, DenseColumns):
        return np.full(column.shape[0], column.shape[1])
    if isinstance(column, BytesColumn):
        return np.full(column.values.shape[0], column.values.shape[1])
    if isinstance(column, RaggedColumn):
        return np.diff(view_of(arena, column.splits[0])).astype(np.int64)
    assert isinstance(column, ListColumn)
    return np.array([*map(_rows_in, column.arrays)], np.int64)


def _rows_in(value: Values | RaggedColumn) -> int:
    return value.splits[0].shape[0] - 1 if isinstance(value, RaggedColumn) else value.shape[0]


def gather(batch: Batch, names: Iterable[str], rows: Ints, steps: Mapping[str, StepRows]) -> Batch:
    """Return a batch of rows of the columns of a batch, or of steps of the columns in ``steps``.

    Args:
        batch: Batch of whole episodes.
        names: Names of the columns, in order.
        rows: Row of each sample in ``batch``.
        steps: Steps of each sample, by the name of the column.
    """
    old_columns, _, old_padded, paths = batch.layout
    gathering = _Gathering(batch.arena.numpy())
    columns: list[Column] = []
    for column in old_columns:
        if isinstance(column, DenseColumns):
            columns += gathering.dense(column, rows, steps)
        elif column.name in steps:
            columns.append(gathering.steps_of(column, steps[column.name]))
        else:
            columns.append(gathering.rows_of(column, rows))
    padded = {name: how for name, how in old_padded.items() if name not in steps}
    tensor = allocate_for(gathering.room.size, columns, len(rows), padded)
    arena = tensor.numpy()
    for fill in gathering.fills:
        fill(arena)
    return Batch.without_views(tensor, columns, tuple(names), padded, dict(paths))


class _Gathering:
    """Columns that are gathered from an arena: laid out first, then filled in one arena.

    Args:
        source: Arena of the columns that are gathered from.

    Attributes:
        room: Layout of the new arena.
        fills: Functions that fill the new arena.
    """

    def __init__(self, source: Arena) -> None:
        self._source = source
        self.room = ArenaLayout()
        self.fills: list[Callable[[Arena], None]] = []

    def dense(
        self, column: DenseColumns, rows: Ints, steps: Mapping[str, StepRows]
    ) -> list[DenseColumns]:
        """Gather rows of the columns without steps, and steps of the columns with steps."""
        arrays = dict(column.arrays())
        stepped = {name: array for name, array in arrays.items() if name in steps}
        whole = {
            name: array
            for name, array in arrays.items()
            if name.partition("\0")[0] not in steps  # steps have no padding
        }
        found = []
        if whole:
            found.append(self._take_dense(whole, rows, rows.shape))
        if stepped:
            taken = steps[next(iter(stepped))]  # equal for all columns of one dtype and shape
            count, size, *inner = column.shape
            shape = (count * size, *inner)
            joined = {name: array._replace(shape=shape) for name, array in stepped.items()}
            entries = taken.entries(taken.rows * size)
            found.append(self._take_dense(joined, entries, taken.steps.shape))
        return found

    def _take_dense(
        self, sources: dict[str, Numbers], index: Ints, lead: tuple[int, ...]
    ) -> DenseColumns:
        """Gather the same rows of columns of one dtype and shape."""
        alike = next(iter(sources.values()))
        shape = (*lead, *alike.shape[1:])
        column = self.room.reserve_dense(tuple(sources), alike.dtype, shape)
        for source, (_, target) in zip(sources.values(), column.arrays(), strict=True):
            self._copy(view_of(self._source, source), index, target)
        return column

    def rows_of(self, column: Column, rows: Ints) -> Column:
        """Gather rows of a column that is not dense."""
        if isinstance(column, BytesColumn):
            return BytesColumn(column.name, self._take_texts(column.values, rows, rows.shape))
        if isinstance(column, RaggedColumn):
            return self._take_ragged(column, rows)
        if isinstance(column, ListColumn):
            arrays = [self._take_whole(column.arrays[row]) for row in rows.tolist()]
            return ListColumn(column.name, tuple(arrays))
        assert isinstance(column, SparseColumn)
        return self._take_sparse(column, rows)

    def steps_of(self, column: Column, taken: StepRows) -> Column:
        """Gather steps of a column that is not dense."""
        if isinstance(column, BytesColumn):
            rows, size, *inner = column.values.shape
            joined = column.values._replace(shape=(rows * size, *inner))
            entries = taken.entries(taken.rows * size)
            return BytesColumn(column.name, self._take_texts(joined, entries, taken.steps.shape))
        if isinstance(column, RaggedColumn):
            return self._ragged_steps(column, taken)
        assert isinstance(column, ListColumn)
        arrays = [
            self._steps_of_one(column.arrays[row], steps)
            for row, steps in zip(taken.rows.tolist(), taken.steps, strict=True)
        ]
        return ListColumn(column.name, tuple(arrays))

    def _steps_of_one(self, value: Values | RaggedColumn, steps: Ints) -> Values | RaggedColumn:
        """Gather a step, or a window of steps, of one record's array."""
        if not isinstance(value, RaggedColumn):
            return self._take(value, steps.reshape(-1), steps.shape)
        if steps.ndim:
            return self._take_ragged(value, steps)
        edges = view_of(self._source, value.splits[0])
        entries = np.arange(int(edges[steps]), int(edges[steps + 1]))
        if len(value.splits) == 1:
            return self._take(value.values, entries, entries.shape)
        return self._take_ragged(value._replace(splits=value.splits[1:]), entries)

    def _ragged_steps(self, column: RaggedColumn, taken: StepRows) -> Column:
        firsts = view_of(self._source, column.splits[0])[taken.rows].astype(np.int64)
        entries = taken.entries(firsts)
        shape = taken.steps.shape
        if len(column.splits) > 1:
            outer = [np.arange(shape[0] + 1) * shape[1]] if len(shape) > 1 else []
            return self._take_ragged(column._replace(splits=column.splits[1:]), entries, outer)
        if isinstance(column.values, Texts):
            return BytesColumn(column.name, self._take_texts(column.values, entries, shape))
        return self._take_dense({column.name: column.values}, entries, shape)

    def _take_ragged(
        self, column: RaggedColumn, rows: Ints, outer: Sequence[Ints] = ()
    ) -> RaggedColumn:
        """Gather rows of a column; ``outer`` has the offsets of levels above these rows."""
        splits = column.splits
        levels = list(outer)
        below = [level.shape[0] - 1 for level in splits[1:]] + [column.values.shape[0]]
        for level, most in zip(splits, below, strict=True):
            # Offsets that were not validated may have any values.
            edges = np.clip(view_of(self._source, level).astype(np.int64), 0, most)
            sizes = np.maximum(edges[rows + 1] - edges[rows], 0)
            ends = offsets_of(sizes)
            levels.append(ends)
            rows = np.repeat(edges[rows] - ends[:-1], sizes) + np.arange(ends[-1])
        places = self.room.reserve_splits([len(level) - 1 for level in levels], splits[0].dtype)
        for place, ends in zip(places, levels, strict=True):
            self._write(place, ends)
        return RaggedColumn(column.name, places, self._take(column.values, rows, rows.shape))

    def _take_sparse(self, column: SparseColumn, rows: Ints) -> SparseColumn:
        indices = view_of(self._source, column.indices)
        # Entries are sorted by record, but not necessarily within a record.
        edges = np.searchsorted(indices[:, 0], np.arange(column.shape[0] + 1))
        starts, sizes = edges[rows], edges[rows + 1] - edges[rows]
        ends = offsets_of(sizes)
        entries = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
        taken = indices[entries]
        taken[:, 0] = np.repeat(np.arange(len(rows)), sizes)
        place = self.room.reserve_numbers("int64", taken.shape)
        self._write(place, taken)
        values = self._take(column.values, entries, entries.shape)
        return SparseColumn(column.name, (len(rows), *column.shape[1:]), place, values)

    # ---- values ----

    def _take(self, values: Values, index: Ints, lead: tuple[int, ...]) -> Values:
        """Gather rows of an array into one whose first dimensions are ``lead``."""
        if isinstance(values, Texts):
            return self._take_texts(values, index, lead)
        place = self.room.reserve_numbers(values.dtype, (*lead, *values.shape[1:]))
        self._copy(view_of(self._source, values), index, place)
        return place

    def _take_whole(self, value: Values | RaggedColumn) -> Values | RaggedColumn:
        if isinstance(value, RaggedColumn):
            return self._take_ragged(value, np.arange(value.splits[0].shape[0] - 1))
        joined = value._replace(shape=(1, *value.shape))
        return self._take(joined, np.zeros(1, np.int64), ())

    def _take_texts(self, texts: Texts, index: Ints, lead: tuple[int, ...]) -> Texts:
        inner = texts.shape[1:]
        count = math.prod(inner)
        offsets = Numbers("int64", (count * texts.shape[0] + 1,), texts.offsets_at)
        starts = view_of(self._source, offsets)
        values = (index[:, np.newaxis] * count + np.arange(count)).reshape(-1)
        ends = offsets_of(starts[values + 1] - starts[values])
        place = self.room.reserve_texts((*lead, *inner), int(ends[-1]))
        self._write(Numbers("int64", ends.shape, place.offsets_at), ends)
        data = self._source[texts.data_at : texts.data_at + texts.data_bytes]
        # Consecutive values are copied together.
        cuts = np.flatnonzero(np.diff(values, prepend=-2, append=-2) != 1)
        runs = zip(
            starts[values[cuts[:-1]]].tolist(),
            starts[values[cuts[1:] - 1] + 1].tolist(),
            ends[cuts[:-1]].tolist(),
            strict=True,
        )

        def fill(target: Arena) -> None:
            bytes_of_place = target[place.data_at :]
            for begin, end, at in runs:
                bytes_of_place[at : at + end - begin] = data[begin:end]

        self.fills.append(fill)
        return place

    def _copy(self, source: npt.NDArray[Any], index: Ints, place: Numbers) -> None:
        def fill(target: Arena) -> None:
            out = view_of(target, place).reshape(len(index), *source.shape[1:])
            np.take(source, index, axis=0, out=out, mode="clip")  # mode="raise" copies twice

        self.fills.append(fill)

    def _write(self, place: Numbers, values: Ints) -> None:
        def fill(target: Arena) -> None:
            view_of(target, place)[...] = values

        self.fills.append(fill)
