"""Columns of steps, gathered from columns of whole episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..parsing.columns.base import Arena, Ints, offsets_of, view_of
from ..parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from ..schema.nesting import Path
from ..tensors.arena import allocate_for
from ..tensors.batch import Batch


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
    counts: dict[str, Ints] = {}
    for column in columns:
        if isinstance(column, DenseColumns):
            rows = column.shape[0]
            known = dict.fromkeys(column.names, column.shape[1:2])
            counts |= {
                name: np.full(rows, size[0]) for name, size in known.items() if name in names
            }
        elif column.name not in names:
            continue
        elif isinstance(column, BytesColumn):
            counts[column.name] = np.full(column.values.shape[0], column.values.shape[1])
        elif isinstance(column, RaggedColumn):
            counts[column.name] = np.diff(view_of(arena, column.splits[0])).astype(np.int64)
        else:
            assert isinstance(column, ListColumn)
            counts[column.name] = np.array([*map(_rows_in, column.arrays)], np.int64)
    lengths = batch.lengths
    counts |= {name: lengths[name].numpy() for name in padded if name in names}
    return counts


def _rows_in(value: Values | RaggedColumn) -> int:
    return value.splits[0].shape[0] - 1 if isinstance(value, RaggedColumn) else value.shape[0]


class Gathering:
    """Columns that are gathered from batches: laid out first, then filled in one arena."""

    def __init__(self) -> None:
        self._room = ArenaLayout()
        self._columns: list[Column] = []
        self._fills: list[Callable[[Arena], None]] = []
        self._padded: dict[str, Padding] = {}
        self._paths: dict[str, Path] = {}

    def add(self, batch: Batch, rows: Ints, steps: Mapping[str, StepRows]) -> None:
        """Gather rows of the columns of a batch, or steps of the columns in ``steps``."""
        columns, _, padded, paths = batch.layout
        self._paths |= paths
        arena = batch.arena.numpy()
        self._padded |= {name: how for name, how in padded.items() if name not in steps}
        for column in columns:
            if isinstance(column, DenseColumns):
                self._add_dense(arena, column, rows, steps)
            elif column.name not in steps:
                self._columns.append(self._rows_of(arena, column, rows))
            elif isinstance(column, RaggedColumn):
                self._add_ragged_steps(arena, column, steps[column.name])
            else:
                self._columns.append(self._steps_of(arena, column, steps[column.name]))

    def finish(self, names: Iterable[str], samples: int) -> Batch:
        """Return the batch of all columns."""
        tensor = allocate_for(self._room.size, self._columns, samples, self._padded)
        arena = tensor.numpy()
        for fill in self._fills:
            fill(arena)
        return Batch.without_views(tensor, self._columns, tuple(names), self._padded, self._paths)

    # ---- columns ----

    def _add_dense(
        self, arena: Arena, column: DenseColumns, rows: Ints, steps: Mapping[str, StepRows]
    ) -> None:
        whole: dict[str, Numbers] = {}
        stepped: dict[str, Numbers] = {}
        for number, name in enumerate(column.names):
            place = Numbers(column.dtype, column.shape, column.at + number * column.stride)
            if name in steps:
                count, size, *inner = column.shape
                stepped[name] = place._replace(shape=(count * size, *inner))
            elif name.partition("\0")[0] not in steps:  # steps have no padding
                whole[name] = place
        if whole:
            self._take_dense(arena, whole, rows, rows.shape)
        if stepped:
            taken = steps[next(iter(stepped))]  # equal for all columns of one dtype and shape
            entries = taken.entries(taken.rows * column.shape[1])
            self._take_dense(arena, stepped, entries, taken.steps.shape)

    def _take_dense(
        self, arena: Arena, sources: dict[str, Numbers], index: Ints, lead: tuple[int, ...]
    ) -> None:
        """Gather the same rows of columns of one dtype and shape."""
        alike = next(iter(sources.values()))
        shape = (*lead, *alike.shape[1:])
        column = self._room.reserve_dense(tuple(sources), alike.dtype, shape)
        self._columns.append(column)
        for number, source in enumerate(sources.values()):
            target = Numbers(alike.dtype, shape, column.at + number * column.stride)
            self._copy(view_of(arena, source), index, target)

    def _rows_of(self, arena: Arena, column: Column, rows: Ints) -> Column:
        if isinstance(column, BytesColumn):
            return BytesColumn(
                column.name, self._take_texts(arena, column.values, rows, rows.shape)
            )
        if isinstance(column, RaggedColumn):
            return self._take_ragged(arena, column, rows)
        if isinstance(column, ListColumn):
            arrays = [self._take_whole(arena, column.arrays[row]) for row in rows.tolist()]
            return ListColumn(column.name, tuple(arrays))
        assert isinstance(column, SparseColumn)
        return self._take_sparse(arena, column, rows)

    def _steps_of(self, arena: Arena, column: Column, taken: StepRows) -> Column:
        if isinstance(column, BytesColumn):
            rows, size, *inner = column.values.shape
            joined = column.values._replace(shape=(rows * size, *inner))
            entries = taken.entries(taken.rows * size)
            texts = self._take_texts(arena, joined, entries, taken.steps.shape)
            return BytesColumn(column.name, texts)
        assert isinstance(column, ListColumn)
        arrays = [
            self._steps_of_one(arena, column.arrays[row], steps)
            for row, steps in zip(taken.rows.tolist(), taken.steps, strict=True)
        ]
        return ListColumn(column.name, tuple(arrays))

    def _steps_of_one(
        self, arena: Arena, value: Values | RaggedColumn, steps: Ints
    ) -> Values | RaggedColumn:
        """Gather a step, or a window of steps, of one record's array."""
        if not isinstance(value, RaggedColumn):
            return self._take(arena, value, steps.reshape(-1), steps.shape)
        if steps.ndim:
            return self._take_ragged(arena, value, steps)
        edges = view_of(arena, value.splits[0])
        entries = np.arange(int(edges[steps]), int(edges[steps + 1]))
        if len(value.splits) == 1:
            return self._take(arena, value.values, entries, entries.shape)
        return self._take_ragged(arena, value._replace(splits=value.splits[1:]), entries)

    def _add_ragged_steps(self, arena: Arena, column: RaggedColumn, taken: StepRows) -> None:
        firsts = view_of(arena, column.splits[0])[taken.rows].astype(np.int64)
        entries = taken.entries(firsts)
        shape = taken.steps.shape
        if len(column.splits) > 1:
            outer: tuple[Ints, ...] = ()
            if len(shape) > 1:
                outer = (np.arange(shape[0] + 1) * shape[1],)
            inner = column._replace(splits=column.splits[1:])
            self._columns.append(self._take_ragged(arena, inner, entries, outer))
        elif isinstance(column.values, Texts):
            texts = self._take_texts(arena, column.values, entries, shape)
            self._columns.append(BytesColumn(column.name, texts))
        else:
            self._take_dense(arena, {column.name: column.values}, entries, shape)

    def _take_ragged(
        self,
        arena: Arena,
        column: RaggedColumn,
        rows: Ints,
        outer: tuple[Ints, ...] = (),
    ) -> RaggedColumn:
        """Gather rows of a column; ``outer`` has the offsets of levels above these rows."""
        splits = column.splits
        levels = list(outer)
        below = [level.shape[0] - 1 for level in splits[1:]] + [column.values.shape[0]]
        for level, most in zip(splits, below, strict=True):
            # Offsets that were not validated may have any values.
            edges = np.clip(view_of(arena, level).astype(np.int64), 0, most)
            sizes = np.maximum(edges[rows + 1] - edges[rows], 0)
            ends = offsets_of(sizes)
            levels.append(ends)
            rows = np.repeat(edges[rows] - ends[:-1], sizes) + np.arange(ends[-1])
        places = self._room.reserve_splits([len(level) - 1 for level in levels], splits[0].dtype)
        for place, ends in zip(places, levels, strict=True):
            self._write(place, ends)
        return RaggedColumn(column.name, places, self._take(arena, column.values, rows, rows.shape))

    def _take_sparse(self, arena: Arena, column: SparseColumn, rows: Ints) -> SparseColumn:
        indices = view_of(arena, column.indices)
        # Entries are sorted by record, but not necessarily within a record.
        edges = np.searchsorted(indices[:, 0], np.arange(column.shape[0] + 1))
        starts, sizes = edges[rows], edges[rows + 1] - edges[rows]
        ends = offsets_of(sizes)
        entries = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
        taken = indices[entries]
        taken[:, 0] = np.repeat(np.arange(len(rows)), sizes)
        place = self._room.reserve_numbers("int64", taken.shape)
        self._write(place, taken)
        values = self._take(arena, column.values, entries, entries.shape)
        return SparseColumn(column.name, (len(rows), *column.shape[1:]), place, values)

    # ---- values ----

    def _take(self, arena: Arena, values: Values, index: Ints, lead: tuple[int, ...]) -> Values:
        """Gather rows of an array into one whose first dimensions are ``lead``."""
        if isinstance(values, Texts):
            return self._take_texts(arena, values, index, lead)
        place = self._room.reserve_numbers(values.dtype, (*lead, *values.shape[1:]))
        self._copy(view_of(arena, values), index, place)
        return place

    def _take_whole(self, arena: Arena, value: Values | RaggedColumn) -> Values | RaggedColumn:
        if isinstance(value, RaggedColumn):
            return self._take_ragged(arena, value, np.arange(value.splits[0].shape[0] - 1))
        joined = value._replace(shape=(1, *value.shape))
        return self._take(arena, joined, np.zeros(1, np.int64), ())

    def _take_texts(self, arena: Arena, texts: Texts, index: Ints, lead: tuple[int, ...]) -> Texts:
        inner = texts.shape[1:]
        count = math.prod(inner)
        starts = view_of(arena, Numbers("int64", (count * texts.shape[0] + 1,), texts.offsets_at))
        values = (index[:, np.newaxis] * count + np.arange(count)).reshape(-1)
        ends = offsets_of(starts[values + 1] - starts[values])
        place = self._room.reserve_texts((*lead, *inner), int(ends[-1]))
        self._write(Numbers("int64", ends.shape, place.offsets_at), ends)
        data = arena[texts.data_at : texts.data_at + texts.data_bytes]
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

        self._fills.append(fill)
        return place

    def _copy(self, source: npt.NDArray[Any], index: Ints, place: Numbers) -> None:
        def fill(target: Arena) -> None:
            out = view_of(target, place).reshape(len(index), *source.shape[1:])
            np.take(source, index, axis=0, out=out, mode="clip")  # mode="raise" copies twice

        self._fills.append(fill)

    def _write(self, place: Numbers, values: Ints) -> None:
        def fill(target: Arena) -> None:
            view_of(target, place)[...] = values

        self._fills.append(fill)
