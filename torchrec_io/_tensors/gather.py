"""Copies of rows of batches into a new arena."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .. import _core
from .._parsing.arrays import Arena, Ints, view_of
from .._parsing.layout import (
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
    names_of,
)
from .._schema.dtypes import item_bytes, numeric_bytes
from .arena import allocate_arena, allocate_for
from .columns import Columns

_ITEMS = _core.ArrayKind.items.value
_OFFSETS = _core.ArrayKind.offsets.value
_INDICES = _core.ArrayKind.indices.value

# An array in the arena of one source: offset, rows, items in a row, and distance of its copies.
_Place: TypeAlias = tuple[int, int, int, int]


class TakenRows(NamedTuple):
    """Rows of the sources of a :class:`RowCopy`.

    Attributes:
        number: Position among the selections.
        shape: Shape that the rows have in the copy.
    """

    number: int
    shape: tuple[int, ...]


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


class RowCopy:
    """Copies rows of columns from several arenas into a new one.

    Columns are added first. Then :meth:`lay_out` reserves their memory, and :meth:`write` copies.
    Each column is given as it lies in each source. Rows that offsets place outside of their values
    are cut.

    Args:
        arenas: Arenas of the sources, uint8 ``[n]`` each.
        room: Layout of the new arena.
    """

    def __init__(self, arenas: Sequence[Arena], room: ArenaLayout) -> None:
        self.room = room
        self._arenas = arenas
        self._selections: list[Ints] = []
        self._arrays: list[tuple[int, ...]] = []
        self._places: list[list[_Place]] = [[] for _ in arenas]
        self._lay_outs: list[Callable[[], Column]] = []
        self._targets: list[tuple[int, int]] = []
        self._sizes: list[int] = []
        self._gather: _core.RowGather | None = None
        self._windows: list[tuple[Numbers, Ints]] = []

    def select(self, spans: Any, shape: tuple[int, ...] | None = None) -> TakenRows:
        """Add a selection of rows.

        Args:
            spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
            shape: Shape of the rows in the copy. Default: one dimension. A Ragged has a level of
                offsets for the second dimension.
        """
        spans = np.ascontiguousarray(spans, np.int64).reshape(-1, 3)
        self._selections.append(spans)
        count = int(spans[:, 2].sum()) if shape is None else 0
        return TakenRows(len(self._selections) - 1, (count,) if shape is None else shape)

    def add(
        self, columns: Sequence[Any], rows: TakenRows, width: int | None = None, fill: Any = 0
    ) -> None:
        """Add a column.

        Args:
            columns: The column in each source, of one form. There must be one source if it is a
                list.
            rows: Rows to copy.
            width: Length to which the first axis of a record's value is padded or cut. Default: its
                own length.
            fill: Padding of numbers. Bytes values are padded with empty ones.
        """
        first = columns[0]
        if isinstance(first, DenseColumns):
            self._lay_outs.append(self._dense(columns, rows, width, fill))
            return
        if isinstance(first, ListColumn):
            spans = self._selections[rows.number].tolist()
            taken = [each for _, at, count in spans for each in first.arrays[at : at + count]]
            self.add_list(first.name, [self._whole(array) for array in taken])
            return
        inside = [column.values for column in columns]
        if isinstance(first, BytesColumn):
            texts = self._texts(inside, rows, width)
            self._lay_outs.append(lambda: BytesColumn(first.name, texts()))
        elif isinstance(first, RaggedColumn):
            self._lay_outs.append(self._ragged(columns, rows))
        else:
            indices = self._numbers([each.indices for each in columns], rows, _INDICES)
            values = self._values(inside, None)
            shape = (*rows.shape, *first.shape[1:])
            self._lay_outs.append(lambda: SparseColumn(first.name, shape, indices(), values()))

    def add_list(self, name: str, arrays: list[Callable[[], Values | RaggedColumn]]) -> None:
        """Add a column of arrays that :meth:`add_array` added."""
        self._lay_outs.append(lambda: ListColumn(name, tuple(lay_out() for lay_out in arrays)))

    def add_array(
        self, array: Values | RaggedColumn, rows: TakenRows
    ) -> Callable[[], Values | RaggedColumn]:
        """Add rows of the array of one record, of the only source, for :meth:`add_list`."""
        if isinstance(array, RaggedColumn):
            return self._ragged([array], rows)
        return self._values([array], rows)

    def _whole(self, array: Values | RaggedColumn) -> Callable[[], Values | RaggedColumn]:
        if isinstance(array, RaggedColumn):
            return self.add_array(array, self.select([0, 0, array.num_records]))
        count = math.prod(array.shape)
        flat = array._replace(shape=(count,))
        return self.add_array(flat, self.select([0, 0, count], array.shape))

    def lay_out(self) -> list[Column]:
        """Reserve the memory of the columns, and return them.

        Raises:
            ValueError: If a row or an array lies outside of its source.
            OverflowError: If there are too many values for offsets of 32 bits.
        """
        places = [place for of_source in self._places for place in of_source]
        try:
            self._gather = _core.RowGather(
                self._arenas, _table(self._arrays, 6), _table(places, 4), self._selections
            )
        except OverflowError as error:
            raise OverflowError(
                f"the joined rows have {error}: join fewer records, or read the feature with "
                "row_splits_dtype='int64'"
            ) from None
        self._sizes = self._gather.sizes.tolist()
        return [lay_out() for lay_out in self._lay_outs]

    def write(self, arena: Arena) -> None:
        """Copy the rows into the arena."""
        assert self._gather is not None
        self._gather.write(self._arenas, _table(self._targets, 2), arena)
        for offsets, values in self._windows:
            view_of(arena, offsets)[...] = values

    # ---- columns ----

    def _dense(
        self, columns: Sequence[DenseColumns], rows: TakenRows, width: int | None, fill: Any
    ) -> Callable[[], DenseColumns]:
        first = columns[0]
        inner = _padded_shape(first.shape, width)
        item = item_bytes(first.dtype)
        places = [(each.at, *_rows_of(each.shape), each.stride) for each in columns]
        padding = numeric_bytes([fill], first.dtype)[:8] if width is not None else b""
        self._array(
            (_ITEMS, item, rows.number, math.prod(inner), len(first.names), _integer(padding)),
            places,
        )

        def lay_out() -> DenseColumns:
            shape = (*rows.shape, *inner)
            column = self.room.reserve_dense(first.names, first.dtype, shape)
            self._targets.append((column.at, column.stride))
            return column

        return lay_out

    def _ragged(
        self, columns: Sequence[RaggedColumn], rows: TakenRows
    ) -> Callable[[], RaggedColumn]:
        first = columns[0]
        levels: Any = zip(*(column.splits for column in columns), strict=True)
        values: Any = [column.values for column in columns]
        inside: TakenRows | None = rows
        splits = []
        for level in levels:
            places = [(each.at, each.shape[0] - 1, 1, 0) for each in level]
            splits.append(self._offsets(level[0].dtype, places, inside))
            inside = None
        lay_out_values = self._values(values, None)

        def lay_out() -> RaggedColumn:
            dtype = first.splits[0].dtype
            windows = () if len(rows.shape) < 2 else (self._lay_out_windows(dtype, *rows.shape),)
            taken = tuple(lay_out() for lay_out in splits)
            return RaggedColumn(first.name, (*windows, *taken), lay_out_values())

        return lay_out

    def _lay_out_windows(self, dtype: str, count: int, window: int) -> Numbers:
        """Reserve the offsets of rows of one length."""
        offsets = self.room.reserve_numbers(dtype, (count + 1,))
        self._windows.append((offsets, np.arange(count + 1) * window))
        return offsets

    # ---- arrays ----

    def _values(self, arrays: Sequence[Any], rows: TakenRows | None) -> Callable[[], Values]:
        """Add numbers or bytes values: the given rows, or those that the last array leads to."""
        if isinstance(arrays[0], Texts):
            return self._texts(arrays, rows)
        return self._numbers(arrays, rows)

    def _numbers(
        self, arrays: Sequence[Numbers], rows: TakenRows | None, kind: int = _ITEMS
    ) -> Callable[[], Numbers]:
        first = arrays[0]
        inner = first.shape[1:]
        places = [(each.at, *_rows_of(each.shape), 0) for each in arrays]
        form = (kind, item_bytes(first.dtype), _number(rows), math.prod(inner), 1, 0)
        index = self._array(form, places)

        def lay_out() -> Numbers:
            lead = (self._sizes[index],) if rows is None or kind == _INDICES else rows.shape
            numbers = self.room.reserve_numbers(first.dtype, (*lead, *inner))
            self._targets.append((numbers.at, 0))
            return numbers

        return lay_out

    def _texts(
        self, arrays: Sequence[Texts], rows: TakenRows | None, width: int | None = None
    ) -> Callable[[], Texts]:
        inner = _padded_shape(arrays[0].shape, width)
        places = [(each.offsets_at, *_rows_of(each.shape), 0) for each in arrays]
        ends = self._array((_OFFSETS, 8, _number(rows), math.prod(inner), 1, 0), places)
        data = self._array(
            (_ITEMS, 1, 0, 1, 1, 0), [(each.data_at, each.data_bytes, 1, 0) for each in arrays]
        )

        def lay_out() -> Texts:
            lead = (self._sizes[ends],) if rows is None else rows.shape
            texts = self.room.reserve_texts((*lead, *inner), self._sizes[data])
            self._targets += [(texts.offsets_at, 0), (texts.data_at, 0)]
            return texts

        return lay_out

    def _offsets(
        self, dtype: str, places: list[_Place], rows: TakenRows | None
    ) -> Callable[[], Numbers]:
        index = self._array((_OFFSETS, item_bytes(dtype), _number(rows), 1, 1, 0), places)

        def lay_out() -> Numbers:
            numbers = self.room.reserve_numbers(dtype, (self._sizes[index] + 1,))
            self._targets.append((numbers.at, 0))
            return numbers

        return lay_out

    def _array(self, form: tuple[int, ...], places: Sequence[_Place]) -> int:
        """Add an array and return its number."""
        self._arrays.append(form)
        for of_source, place in zip(self._places, places, strict=True):
            of_source.append(place)
        return len(self._arrays) - 1


def gather(
    sources: Sequence[Columns], spans: Any, allocate: Callable[[int], Tensor] = allocate_arena
) -> Columns | None:
    """Return columns of rows of batches, in an arena of their own.

    Args:
        sources: Columns of batches that have arenas in the memory of the CPU.
        spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
        allocate: Function that allocates the arena.

    Returns:
        None if the records must be joined value by value: if the columns of the batches differ in
        form, or if they could differ from those of a batch of these records.

    Raises:
        MemoryError: If there is not enough memory.
        OverflowError: If there are too many values for offsets of 32 bits.
    """
    _, names, padded, paths = sources[0].form
    if any(isinstance(column, ListColumn) for column in sources[0].layout):
        return None  # some of the records alone may have equal shapes
    copy = copy_rows(sources, spans, ArenaLayout())
    if copy is None:
        return None
    layout = copy.lay_out()
    arena = allocate_for(copy.room.size, layout, _count(spans), padded, allocate=allocate)
    copy.write(arena.numpy())
    return Columns(arena, layout, names, padded, paths)


def copy_rows(sources: Sequence[Columns], spans: Any, room: ArenaLayout) -> RowCopy | None:
    """Return a copy of rows of batches, which is not laid out yet; None as :func:`gather` does.

    Args:
        sources: Columns of batches that have arenas in the memory of the CPU.
        spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``.
        room: Layout of the new arena.
    """
    padded = sources[0].padded
    if any(_differ(one, other) for one, other in itertools.pairwise(sources)):
        return None
    copy = RowCopy([data_of(source) for source in sources], room)
    rows = copy.select(spans)
    for columns in zip(*(source.layout for source in sources), strict=True):
        padding = padded.get(names_of(columns[0])[0])
        if padding is None:
            copy.add(columns, rows)
            continue
        is_bytes = isinstance(columns[0], BytesColumn)
        if padding.axes != (0,) or (is_bytes and padding.fill != b""):
            return None
        copy.add(columns, rows, _longest(sources, spans, padding), padding.fill)
    return copy


def data_of(source: Columns) -> Arena:
    """Return an arena in the memory of the CPU, uint8 ``[n]``."""
    assert source.arena is not None
    data: Arena = source.arena.numpy()
    return data


def _longest(sources: Sequence[Columns], spans: Any, padding: Padding) -> int:
    """Return the length of the longest row of a padded column."""
    lengths = []
    for source in sources:
        column = next(c for c in source.layout if padding.lengths in names_of(c))
        assert isinstance(column, DenseColumns)
        lengths.append(view_of(data_of(source), dict(column.arrays())[padding.lengths]))
    found = [lengths[source][begin : begin + count] for source, begin, count in spans]
    return max((int(each.max()) for each in found if len(each)), default=0)


def _differ(one: Columns, other: Columns) -> bool:
    """Return whether the rows of two batches cannot be joined, because their columns differ."""
    if one.form is other.form:
        return False
    if one.form[1:] != other.form[1:] or len(one.layout) != len(other.layout):
        return True
    pairs = zip(one.layout, other.layout, strict=True)
    return any(_form(a, one.padded) != _form(b, one.padded) for a, b in pairs)


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
    return sum(count for _, _, count in spans)


def _rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number of rows of an array, and of items in each."""
    return shape[0], math.prod(shape[1:])


def _padded_shape(shape: tuple[int, ...], width: int | None) -> tuple[int, ...]:
    """Return the shape of a row, padded to a width."""
    return shape[1:] if width is None else (width, *shape[2:])


def _number(rows: TakenRows | None) -> int:
    return 0 if rows is None else rows.number


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, columns)
