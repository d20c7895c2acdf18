"""A copy of rows of columns from several arenas into a new one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import _core
from .._parsing.arrays import Arena, Ints
from .._parsing.layout import (
    ALIGNMENT_BYTES,
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
_PADDED = _core.ArrayKind.padded.value

_Array: TypeAlias = "DenseColumns | Numbers | Texts"
# Offset, rows, bytes from one array to the next, and items in a row; see _core.RowGather.
_Place: TypeAlias = tuple[int, int, int, int]

_NOWHERE: _Place = (0, 0, 0, 0)


class TakenRows(NamedTuple):
    """Rows of the sources of a :class:`RowCopy`.

    Attributes:
        number: Position among the selections.
        shape: Shape that the rows have in the copy.
    """

    number: int
    shape: tuple[int, ...]


class PaddedRows(NamedTuple):
    """The padding of the rows of an array.

    Attributes:
        length: Length of each row in the copy.
        kept: Maximum length of what is copied of a row.
        fill: Value of the padding: an item of numbers, or a bytes value.
    """

    length: int
    kept: int
    fill: bytes


class _Target(NamedTuple):
    """An array of the copy.

    Attributes:
        number: Number of the array for the core. The bytes of bytes values have the next one.
        array: The array in a source.
        lead: Shape of the rows; None if only the core knows how many there are.
        inner: Shape of each row.
        end: 1 for offsets, which are one more than rows; otherwise 0.
    """

    number: int
    array: _Array
    lead: tuple[int, ...] | None
    inner: tuple[int, ...]
    end: int = 0


class RowCopy:
    """Copies rows of columns from several arenas into a new one.

    Columns are added first. Then :meth:`plan` lays them out, and :meth:`write` copies. Each column
    is given as it lies in each source. Rows that offsets place outside of their values are cut.

    Args:
        arenas: Arenas of the sources, uint8 ``[n]`` each.

    Attributes:
        size: Size of the new arena in bytes, after :meth:`plan`.
    """

    def __init__(self, arenas: Sequence[Arena]) -> None:
        self.size = 0
        self._arenas = list(arenas)
        self._selections: list[Ints] = []
        self._columns: list[Any] = []  # with the arrays of a source
        self._targets: list[_Target] = []
        # For the core: each array, and its place in each source; there may be more sources.
        self._arrays: list[tuple[int, ...]] = []
        self._places: list[list[_Place]] = []
        self._data: list[int] = []  # arrays that hold the bytes of bytes values
        self._fills = b""  # bytes values of the padding
        self._gather: _core.RowGather | None = None

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
        self, columns: Sequence[Any], rows: TakenRows, padding: PaddedRows | None = None
    ) -> None:
        """Add a column.

        Args:
            columns: The column in each source, of one form. There must be one source if it is a
                list.
            rows: Rows to copy.
            padding: Padding of the second dimension of an array, whose size may differ between
                the sources. Default: none.
        """
        first = columns[0]
        if isinstance(first, ListColumn):
            spans = self._selections[rows.number].tolist()
            taken = [each for _, at, count in spans for each in first.arrays[at : at + count]]
            self.add_list(first.name, map(self._all_rows, taken))
        else:
            self._columns.append(self._added(columns, rows, padding))

    def add_padded(
        self,
        column: RaggedColumn,
        rows: TakenRows,
        padding: PaddedRows,
        lengths: Sequence[int],
        lengths_name: str,
    ) -> None:
        """Add a Ragged of the only source as a column of padded rows.

        Args:
            column: The column.
            rows: Rows to copy.
            padding: Padding of the outermost rows.
            lengths: Lengths of the rows on the other levels.
            lengths_name: Name of the column of what is copied of each outermost row.
        """
        made = DenseColumns((lengths_name,), "int64", rows.shape, 0, 0)
        self._columns.append(made)
        self._targets.append(_Target(len(self._arrays), made, rows.shape, ()))
        widths, kept = (padding.length, *lengths), (padding.kept, *lengths)
        for level, width, most in zip(column.splits, widths, kept, strict=True):
            self._arrays.append(
                (_PADDED, item_bytes(level.dtype), rows.number, width, 1, most, 0, 0)
            )
            self._places.append([(level.at, level.shape[0] - 1, 0, 1)])
        values: Any = column.values
        if isinstance(values, Numbers):
            values = DenseColumns((column.name,), *values, 0)
        taken = rows._replace(shape=(*rows.shape, *widths))
        self._add_array(_ITEMS, [values], taken, fill=padding.fill)
        is_bytes = isinstance(values, Texts)
        self._columns.append(BytesColumn(column.name, values) if is_bytes else values)

    def add_list(
        self, name: str, arrays: Iterable[tuple[Values | RaggedColumn, TakenRows]]
    ) -> None:
        """Add a column of arrays.

        Args:
            name: Name of the column.
            arrays: Arrays of records of the only source, and the rows of each to copy.
        """
        made = tuple(self._added([array], rows) for array, rows in arrays)
        self._columns.append(ListColumn(name, made))

    def plan(self, *, is_small: bool = False) -> list[Column]:
        """Lay out the columns, and return them.

        Args:
            is_small: Whether arrays are aligned to their items, and not to cache lines.

        Raises:
            ValueError: If a row or an array lies outside of its source.
            OverflowError: If there are too many values for offsets of 32 bits.
        """
        if self._fills:
            source = len(self._arenas)
            self._arenas.append(_padded_bytes(self._fills))
            for number in self._data:
                found = self._places[number]
                found += [_NOWHERE] * (source - len(found)) + [(0, len(self._fills), 0, 1)]
        places = itertools.zip_longest(*self._places, fillvalue=_NOWHERE)
        try:
            self._gather = _core.RowGather(
                self._arenas,
                _table(self._arrays, 8),
                _table(itertools.chain.from_iterable(places), 4),
                self._selections,
                0 if is_small else ALIGNMENT_BYTES,
            )
        except OverflowError as error:
            raise OverflowError(
                f"the joined rows have {error}: join fewer records, or read the feature with "
                "row_splits_dtype='int64'"
            ) from None
        self.size = self._gather.arena_bytes
        arrays = _arrays_of_copy(self._targets, self._gather.arrays.reshape(-1, 3).tolist())
        return [_with_arrays(column, arrays) for column in self._columns]

    def write(self, arena: Arena) -> None:
        """Copy the rows into the arena."""
        assert self._gather is not None
        self._gather.write(self._arenas, arena)

    # ---- adding arrays ----

    def _added(
        self, columns: Sequence[Any], rows: TakenRows, padding: PaddedRows | None = None
    ) -> Any:
        """Add the arrays of a column, and return what the column of the copy is made of."""
        made = columns[0]
        if isinstance(made, SparseColumn):
            made = made._replace(shape=(*rows.shape, *made.shape[1:]))
        elif isinstance(made, RaggedColumn) and len(rows.shape) > 1:
            level = self._windows(made.splits[0].dtype, *rows.shape)
            made = made._replace(splits=(level, *made.splits))
        taken: TakenRows | None = rows
        for chained in zip(*map(arrays_of, columns), strict=True):
            kind = chained[0][0]
            self._add_array(kind, [array for _, array in chained], taken, padding)
            taken = padding = None  # the rest follows from this array
        return made

    def _all_rows(self, array: Values | RaggedColumn) -> tuple[Values | RaggedColumn, TakenRows]:
        """Select all of an array of the only source."""
        if isinstance(array, RaggedColumn):
            return array, self.select([0, 0, array.num_records])
        count = math.prod(array.shape)
        return array._replace(shape=(count,)), self.select([0, 0, count], array.shape)

    def _windows(self, dtype: str, count: int, window: int) -> Numbers:
        """Add the offsets of rows of one length, as the array of another source."""
        offsets = np.arange(count + 1) * window
        source = [_NOWHERE] * len(self._arenas)
        rows = self.select([len(source), 0, count + 1])
        self._arenas.append(_padded_bytes(offsets.astype(dtype).tobytes()))
        level = Numbers(dtype, (count + 1,), 0)
        self._targets.append(_Target(len(self._arrays), level, level.shape, ()))
        self._arrays.append((_ITEMS, item_bytes(dtype), rows.number, 1, 1, 1, 0, 0))
        self._places.append([*source, (0, count + 1, 0, 1)])
        return level

    def _add_array(
        self,
        kind: int,
        arrays: Sequence[Any],
        rows: TakenRows | None,
        padding: PaddedRows | None = None,
        *,
        fill: bytes = b"",
    ) -> None:
        """Add an array.

        Args:
            kind: Its kind.
            arrays: The array in each source.
            rows: Rows to copy; None for those that the last array leads to.
            padding: Padding of each row. Default: none.
            fill: Value of rows of padding that the last array leads to.
        """
        first = arrays[0]
        inner = first.shape[1:]
        kept = math.prod(inner)
        if padding is not None:
            length, most, fill = padding
            inner = (length, *inner[1:])
            kept = most * math.prod(inner[1:])
        lead = rows.shape if rows is not None and kind == _ITEMS else None
        end = 1 if kind == _OFFSETS else 0
        self._targets.append(_Target(len(self._arrays), first, lead, inner, end))
        selection, width = 0 if rows is None else rows.number, math.prod(inner)
        if isinstance(first, Texts):
            filling = len(self._fills), len(fill)
            self._fills += fill
            self._arrays.append((_OFFSETS, 8, selection, width, 1, kept, *filling))
            self._places.append(
                [(each.offsets_at, each.shape[0], 0, math.prod(each.shape[1:])) for each in arrays]
            )
            self._data.append(len(self._arrays))
            self._arrays.append((_ITEMS, 1, 0, 1, 1, 1, 0, 0))
            self._places.append([(each.data_at, each.data_bytes, 0, 1) for each in arrays])
            return
        item, copies = item_bytes(first.dtype), 1
        dense = arrays
        if isinstance(first, DenseColumns):
            copies = len(first.names)
        else:
            dense = [DenseColumns(("",), each.dtype, each.shape, each.at, 0) for each in arrays]
        filling = int.from_bytes(fill[:8], "little", signed=True), 0
        self._arrays.append((kind, item, selection, width, copies, kept, *filling))
        self._places.append(
            [
                (each.at, each.shape[0] - end, each.stride, math.prod(each.shape[1:]))
                for each in dense
            ]
        )


def _arrays_of_copy(targets: Iterable[_Target], found: list[list[int]]) -> Iterator[_Array]:
    """Yield the arrays of a copy.

    Args:
        targets: The arrays.
        found: Number of rows, offset and stride of each array of the core.
    """
    for number, array, lead, inner, end in targets:
        count, at, stride = found[number]
        shape = (*((count + end,) if lead is None else lead), *inner)
        if isinstance(array, Texts):
            size, data_at, _ = found[number + 1]
            yield Texts(shape, at, data_at, size)
        elif isinstance(array, DenseColumns):
            yield DenseColumns(array.names, array.dtype, shape, at, stride)
        else:
            yield Numbers(array.dtype, shape, at)


def arrays_of(column: Any) -> list[tuple[int, _Array]]:
    """Return the arrays of a column, or of a part of it, with their kinds; outermost first."""
    if isinstance(column, (DenseColumns, Numbers, Texts)):
        return [(_ITEMS, column)]
    if isinstance(column, SparseColumn):
        return [(_INDICES, column.indices), (_ITEMS, column.values)]
    levels = column.splits if isinstance(column, RaggedColumn) else ()
    return [*((_OFFSETS, level) for level in levels), (_ITEMS, column.values)]


def _with_arrays(column: Any, arrays: Iterator[Any]) -> Any:
    """Return a column, or a part of it, with the next of other arrays in place of its own."""
    if isinstance(column, (DenseColumns, Numbers, Texts)):
        return next(arrays)
    if isinstance(column, SparseColumn):
        return column._replace(indices=next(arrays), values=next(arrays))
    if isinstance(column, BytesColumn):
        return column._replace(values=next(arrays))
    if isinstance(column, RaggedColumn):
        splits = tuple(next(arrays) for _ in column.splits)
        return column._replace(splits=splits, values=next(arrays))
    made = tuple(_with_arrays(array, arrays) for array in column.arrays)
    return column._replace(arrays=made)


def _padded_bytes(data: bytes) -> Arena:
    """Return data as an arena in which the core finds an offset."""
    return np.frombuffer(data + bytes(8), np.uint8)


def _table(rows: Iterable[tuple[int, ...]], columns: int) -> Any:
    """Return rows of numbers as an array, int64 ``[n, columns]``."""
    return np.fromiter(itertools.chain.from_iterable(rows), np.int64).reshape(-1, columns)
