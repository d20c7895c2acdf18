"""A copy of rows of columns from several arenas into a new one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._parsing.arrays import Arena, Ints, view_of
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
)
from .._schema.dtypes import item_bytes

_ITEMS = _core.ArrayKind.items.value
_OFFSETS = _core.ArrayKind.offsets.value
_INDICES = _core.ArrayKind.indices.value

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


def _number_of(rows: TakenRows | None) -> int:
    return 0 if rows is None else rows.number


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, columns)
