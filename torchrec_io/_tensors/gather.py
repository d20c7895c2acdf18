"""Copies of rows of batches into a new arena.

Joining samples, selecting records, padding and steps of episodes all copy rows this way. A padded
column is copied cell by cell: its rows are cells of the sources, and cells of padding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import _core
from .._parsing.arrays import Arena, Ints, offsets_of, view_of
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
from .._schema.dtypes import item_bytes
from .arena import allocate_arena, allocate_for
from .columns import Columns
from .padding import PaddedLength

_ITEMS = _core.ArrayKind.items.value
_OFFSETS = _core.ArrayKind.offsets.value
_INDICES = _core.ArrayKind.indices.value

# The source of rows that are padding.
_PADDING = -1
_LONGEST = PaddedLength()

# An array in the arena of one source: offset, rows, and distance of its copies.
_Place: TypeAlias = tuple[int, int, int]


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
        self._data: set[int] = set()  # arrays that hold the bytes of bytes values
        self._fills = b""  # bytes values of the padding
        self._lay_outs: list[Callable[[], Column]] = []
        self._targets: list[tuple[int, int]] = []
        self._sizes: list[int] = []
        self._gather: _core.RowGather | None = None
        self._given: list[tuple[Numbers, Ints]] = []

    def select(self, spans: Any, shape: tuple[int, ...] | None = None) -> TakenRows:
        """Add a selection of rows.

        Args:
            spans: Source, first row and number of rows of each run of rows; int64 ``[n, 3]``. Rows
                of source -1 are padding.
            shape: Shape of the rows in the copy. Default: one dimension. A Ragged has a level of
                offsets for the second dimension.
        """
        spans = np.ascontiguousarray(spans, np.int64).reshape(-1, 3)
        self._selections.append(spans)
        count = int(spans[:, 2].sum()) if shape is None else 0
        return TakenRows(len(self._selections) - 1, (count,) if shape is None else shape)

    def add(self, columns: Sequence[Any], rows: TakenRows, fill: bytes = b"") -> None:
        """Add a column.

        Args:
            columns: The column in each source, of one form. There must be one source if it is a
                list.
            rows: Rows to copy.
            fill: Value of the padding: an item of numbers, or a bytes value.
        """
        first = columns[0]
        if isinstance(first, DenseColumns):
            self._lay_outs.append(self._dense(columns, rows, fill))
            return
        if isinstance(first, ListColumn):
            spans = self._selections[rows.number].tolist()
            taken = [each for _, at, count in spans for each in first.arrays[at : at + count]]
            self.add_list(first.name, [self._whole(array) for array in taken])
            return
        inside = [column.values for column in columns]
        if isinstance(first, BytesColumn):
            texts = self._texts(inside, rows, fill)
            self._lay_outs.append(lambda: BytesColumn(first.name, texts()))
        elif isinstance(first, RaggedColumn):
            self._lay_outs.append(self._ragged(columns, rows))
        else:
            indices = self._numbers([each.indices for each in columns], rows, _INDICES)
            values = self._values(inside, None)
            shape = (*rows.shape, *first.shape[1:])
            self._lay_outs.append(lambda: SparseColumn(first.name, shape, indices(), values()))

    def add_lengths(self, name: str, lengths: Ints) -> None:
        """Add the hidden column of the lengths of a padded column."""

        def lay_out() -> DenseColumns:
            column = self.room.reserve_dense((name,), "int64", lengths.shape)
            self._given.append((dict(column.arrays())[name], lengths))
            return column

        self._lay_outs.append(lay_out)

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
        if self._fills:
            self._add_fills()
        places = [place for of_source in self._places for place in of_source]
        try:
            self._gather = _core.RowGather(
                self._arenas, _table(self._arrays, 7), _table(places, 3), self._selections
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
        for numbers, values in self._given:
            view_of(arena, numbers)[...] = values

    def _add_fills(self) -> None:
        """Add the values of the padding as the last source."""
        fills = self._fills
        self._arenas = [*self._arenas, np.frombuffer(fills + bytes(8), np.uint8)]
        rows = (len(fills) if array in self._data else 0 for array in range(len(self._arrays)))
        self._places.append([(0, count, 0) for count in rows])

    # ---- columns ----

    def _dense(
        self, columns: Sequence[DenseColumns], rows: TakenRows, fill: bytes
    ) -> Callable[[], DenseColumns]:
        first = columns[0]
        inner = first.shape[1:]
        places = [(each.at, each.shape[0], each.stride) for each in columns]
        item = item_bytes(first.dtype)
        filling = int.from_bytes(fill[:8], "little", signed=True)
        self._array(
            (_ITEMS, item, rows.number, math.prod(inner), len(first.names), filling, 0), places
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
            places = [(each.at, each.shape[0] - 1, 0) for each in level]
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
        self._given.append((offsets, np.arange(count + 1) * window))
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
        places = [(each.at, each.shape[0], 0) for each in arrays]
        form = (kind, item_bytes(first.dtype), _number_of(rows), math.prod(inner), 1, 0, 0)
        index = self._array(form, places)

        def lay_out() -> Numbers:
            lead = (self._sizes[index],) if rows is None or kind == _INDICES else rows.shape
            numbers = self.room.reserve_numbers(first.dtype, (*lead, *inner))
            self._targets.append((numbers.at, 0))
            return numbers

        return lay_out

    def _texts(
        self, arrays: Sequence[Texts], rows: TakenRows | None, fill: bytes = b""
    ) -> Callable[[], Texts]:
        inner = arrays[0].shape[1:]
        places = [(each.offsets_at, each.shape[0], 0) for each in arrays]
        filling = len(self._fills), len(fill)
        self._fills += fill
        ends = self._array((_OFFSETS, 8, _number_of(rows), math.prod(inner), 1, *filling), places)
        data = self._array(
            (_ITEMS, 1, 0, 1, 1, 0, 0), [(each.data_at, each.data_bytes, 0) for each in arrays]
        )
        self._data.add(data)

        def lay_out() -> Texts:
            lead = (self._sizes[ends],) if rows is None else rows.shape
            texts = self.room.reserve_texts((*lead, *inner), self._sizes[data])
            self._targets += [(texts.offsets_at, 0), (texts.data_at, 0)]
            return texts

        return lay_out

    def _offsets(
        self, dtype: str, places: list[_Place], rows: TakenRows | None
    ) -> Callable[[], Numbers]:
        index = self._array((_OFFSETS, item_bytes(dtype), _number_of(rows), 1, 1, 0, 0), places)

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


def _number_of(rows: TakenRows | None) -> int:
    return 0 if rows is None else rows.number


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, columns)
