"""Copies of runs of records from parsed batches into a new arena."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .._parsing.columns.base import Arena
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
from .arena import allocate_for
from .batch import Batch, allocate_arena

_Ints: TypeAlias = npt.NDArray[np.int64]

# Sizes of items that NumPy copies as one integer.
_INTEGER_BYTES = (1, 2, 4, 8)


class Run(NamedTuple):
    """Records beside each other in a batch that has an arena in the memory of the CPU.

    Attributes:
        batch: The batch.
        begin: First record.
        end: Record after the last one.
    """

    batch: Batch
    begin: int
    end: int


class CannotGatherError(Exception):
    """The records of some batches cannot be copied as they are."""


class _Part(NamedTuple):
    """Items beside each other in an array of an arena: those that a run of records has."""

    arena: Arena
    array: Any
    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def items(self) -> npt.NDArray[Any]:
        """The items, of an array of numbers."""
        items: npt.NDArray[Any] = array_of(self.arena, self.array)[self.begin : self.end]
        return items


class GatheredRuns:
    """The layout of runs of records in a new arena.

    Args:
        runs: The runs, of batches of one schema.
        room: Layout of the arena.

    Attributes:
        columns: Columns of the new batch.

    Raises:
        CannotGatherError: If the records must be joined value by value.
    """

    def __init__(self, runs: Sequence[Run], room: ArenaLayout) -> None:
        self._room = room
        self._runs = runs
        self._writes: list[Callable[[Arena], object]] = []
        self._padded: Mapping[str, Padding] = runs[0].batch.layout[2]
        self._count = sum(run.end - run.begin for run in runs)
        self._arenas = [run.batch.arena.numpy() for run in runs]
        self.columns: list[Column] = []
        layouts = [run.batch.layout[0] for run in runs]
        if any([*map(_kind, layout)] != [*map(_kind, layouts[0])] for layout in layouts[1:]):
            raise CannotGatherError
        for columns in zip(*layouts, strict=True):
            self.columns.append(self._column(self._parts(columns)))

    def write(self, arena: Arena) -> None:
        """Copy the records into the arena."""
        for write in self._writes:
            write(arena)

    def _parts(self, arrays: Sequence[Any]) -> list[_Part]:
        """Return the records of each run in an array."""
        return [
            _Part(arena, array, run.begin, run.end)
            for arena, array, run in zip(self._arenas, arrays, self._runs, strict=True)
        ]

    def _column(self, parts: list[_Part]) -> Column:
        first = parts[0].array
        padding = self._padded.get(names_of(first)[0])
        if isinstance(first, DenseColumns):
            return self._fixed(parts) if padding is None else self._padded_rows(parts, padding)
        if isinstance(first, BytesColumn):
            inside = [part._replace(array=part.array.values) for part in parts]
            made = self._texts(inside) if padding is None else self._padded_texts(inside, padding)
            return BytesColumn(first.name, made)
        if isinstance(first, RaggedColumn):
            return self._ragged(parts)
        if isinstance(first, SparseColumn):
            return self._sparse(parts)
        return self._list(parts)

    # ---- columns of a fixed shape, and padded ones ----

    def _fixed(self, parts: list[_Part]) -> DenseColumns:
        first: DenseColumns = parts[0].array
        _check_equal(part.array.shape[1:] for part in parts)
        shape = (self._count, *first.shape[1:])
        column = self._room.reserve_dense(first.names, first.dtype, shape)

        def write(arena: Arena) -> None:
            target = rows_of(arena, column)
            begin = 0
            for part in parts:
                rows = rows_of(part.arena, part.array)
                target[:, begin : begin + part.length] = rows[:, part.begin : part.end]
                begin += part.length

        self._writes.append(write)
        return column

    def _padded_rows(self, parts: list[_Part], padding: Padding) -> DenseColumns:
        first: DenseColumns = parts[0].array
        _check_equal(part.array.shape[2:] for part in parts)
        width = self._width(padding)
        shape = (self._count, width, *first.shape[2:])
        column = self._room.reserve_dense(first.names, first.dtype, shape)
        inside = [part._replace(array=_numbers_of(part.array)) for part in parts]
        fill = np.frombuffer(numeric_bytes([padding.fill], first.dtype), _item_dtype(first.dtype))

        def write(arena: Arena) -> None:
            target = array_of(arena, _numbers_of(column))
            begin = 0
            for part in inside:
                rows = part.items[:, :width]
                end = begin + part.length
                target[begin:end, : rows.shape[1]] = rows
                target[begin:end, rows.shape[1] :] = fill[0]
                begin = end

        self._writes.append(write)
        return column

    def _padded_texts(self, parts: list[_Part], padding: Padding) -> Texts:
        if padding.fill != b"":
            raise CannotGatherError  # it takes space between the values
        _check_equal(part.array.shape[2:] for part in parts)
        width, inner = self._width(padding), parts[0].array.shape[2:]
        per_item = math.prod(inner)
        offsets = []
        data = []
        base = 0
        for part in parts:
            before = part.array.shape[1]
            starts, (first, last) = _text_bounds(part, before * per_item)
            sizes = np.zeros((part.length, width * per_item), np.int64)
            kept = min(width, before) * per_item
            sizes[:, :kept] = np.diff(starts).reshape(part.length, before * per_item)[:, :kept]
            offsets.append(base + np.cumsum(sizes.ravel()))
            data.append((part, first, last))
            base += last - first
        return self._reserve_texts((self._count, width, *inner), offsets, data)

    def _width(self, padding: Padding) -> int:
        """Return the number of values to which a column is padded: those of the longest record."""
        if padding.axes != (0,):
            raise CannotGatherError
        lengths = [
            next(c for c in run.batch.layout[0] if names_of(c)[0] == padding.lengths)
            for run in self._runs
        ]
        parts = self._parts([_numbers_of(each) for each in lengths])
        return max((int(part.items.max()) for part in parts if part.length), default=0)

    # ---- columns of values of any number and size ----

    def _numbers(self, parts: list[_Part]) -> Numbers:
        """Lay out the numbers of all parts, one after another."""
        first: Numbers = parts[0].array
        _check_equal(part.array.shape[1:] for part in parts)
        count = sum(part.length for part in parts)
        numbers = self._room.reserve_numbers(first.dtype, (count, *first.shape[1:]))
        self._writes.append(lambda to: _copy_items(to, numbers, [part.items for part in parts]))
        return numbers

    def _texts(self, parts: list[_Part]) -> Texts:
        """Lay out the bytes values of all parts, one after another."""
        _check_equal(part.array.shape[1:] for part in parts)
        inner = parts[0].array.shape[1:]
        offsets = []
        data = []
        base = 0
        for part in parts:
            starts, (first, last) = _text_bounds(part, math.prod(inner))
            offsets.append(starts[1:] + (base - first))
            data.append((part, first, last))
            base += last - first
        return self._reserve_texts((sum(part.length for part in parts), *inner), offsets, data)

    def _reserve_texts(
        self, shape: tuple[int, ...], offsets: list[_Ints], data: list[tuple[_Part, int, int]]
    ) -> Texts:
        """Lay out bytes values.

        Args:
            shape: Shape of their array.
            offsets: Offset of the end of each value.
            data: Parts of arrays with the first and the last byte to copy.
        """
        texts = self._room.reserve_texts(shape, sum(last - first for _, first, last in data))
        ends = Numbers("int64", (math.prod(shape) + 1,), texts.offsets_at)
        joined = Numbers("uint8", (texts.data_bytes,), texts.data_at)
        sources = [
            array_of(part.arena, Numbers("uint8", (part.array.data_bytes,), part.array.data_at))[
                first:last
            ]
            for part, first, last in data
        ]
        zero = np.zeros(1, np.int64)
        self._writes.append(lambda to: _copy_items(to, ends, [zero, *offsets]))
        self._writes.append(lambda to: _copy_items(to, joined, sources))
        return texts

    def _values(self, parts: list[_Part]) -> Values:
        if isinstance(parts[0].array, Texts):
            return self._texts(parts)
        return self._numbers(parts)

    def _ragged(self, parts: list[_Part]) -> RaggedColumn:
        column: RaggedColumn = parts[0].array
        splits = []
        for level in range(len(column.splits)):
            offsets = []
            inside = []
            base = 0
            for part in parts:
                starts = _starts_of(part, level)
                first, last = int(starts[0]), int(starts[-1])
                offsets.append(starts[1:] - first + base)
                inside.append(part._replace(begin=first, end=last))
                base += last - first
            splits.append(self._offsets(column.splits[level].dtype, offsets))
            parts = inside
        return RaggedColumn(
            column.name,
            tuple(splits),
            self._values([part._replace(array=part.array.values) for part in parts]),
        )

    def _offsets(self, dtype: str, offsets: list[npt.NDArray[Any]]) -> Numbers:
        numbers = self._room.reserve_numbers(dtype, (sum(map(len, offsets)) + 1,))
        zero = np.zeros(1, dtype)
        self._writes.append(lambda to: _copy_items(to, numbers, [zero, *offsets]))
        return numbers

    def _sparse(self, parts: list[_Part]) -> SparseColumn:
        column: SparseColumn = parts[0].array
        _check_equal(part.array.shape[1:] for part in parts)
        inside = []
        records = []
        base = 0
        for part in parts:
            known = array_of(part.arena, part.array.indices)[:, 0]
            begin, end = np.searchsorted(known, (part.begin, part.end)).tolist()
            inside.append(part._replace(begin=begin, end=end))
            records.append(known[begin:end] + (base - part.begin))
            base += part.length
        indices = self._numbers([part._replace(array=part.array.indices) for part in inside])
        self._writes.append(lambda to: _copy_items(to, indices, records, column=0))
        values = self._values([part._replace(array=part.array.values) for part in inside])
        return SparseColumn(column.name, (self._count, *column.shape[1:]), indices, values)

    def _list(self, parts: list[_Part]) -> ListColumn:
        arrays = [
            self._whole(part._replace(array=part.array.arrays[record]))
            for part in parts
            for record in range(part.begin, part.end)
        ]
        return ListColumn(parts[0].array.name, tuple(arrays))

    def _whole(self, part: _Part) -> Values | RaggedColumn:
        """Lay out a copy of the array of one record."""
        array: Values | RaggedColumn = part.array
        if isinstance(array, RaggedColumn):
            return self._ragged([part._replace(begin=0, end=array.splits[0].shape[0] - 1)])
        flat = part._replace(
            array=array._replace(shape=(math.prod(array.shape),)),
            begin=0,
            end=math.prod(array.shape),
        )
        return self._values([flat])._replace(shape=array.shape)


def gather(runs: Sequence[Run], allocate: Callable[[int], Tensor] = allocate_arena) -> Batch | None:
    """Return a batch of runs of records, one after another, in an arena of its own.

    Args:
        runs: The runs, of batches of one schema.
        allocate: Function that allocates the arena.

    Returns:
        None if the records must be joined value by value.

    Raises:
        MemoryError: If there is not enough memory.
    """
    if len(runs) == 1 and _is_whole(runs[0]):
        return _copy_of(runs[0].batch, allocate)
    if any(isinstance(column, ListColumn) for column in runs[0].batch.layout[0]):
        return None  # some of the records alone may have equal shapes
    room = ArenaLayout()
    try:
        gathered = GatheredRuns(runs, room)
    except CannotGatherError:
        return None
    _, names, padded, paths = runs[0].batch.layout
    records = sum(run.end - run.begin for run in runs)
    arena = allocate_for(room.size, gathered.columns, records, padded, allocate=allocate)
    gathered.write(arena.numpy())
    return Batch(arena, gathered.columns, names, padded, paths)


def _is_whole(run: Run) -> bool:
    """Return whether a run has all records of its batch."""
    first = next(iter(run.batch.layout[0]), None)
    return first is not None and (run.begin, run.end) == (0, first.num_records)


def _copy_of(batch: Batch, allocate: Callable[[int], Tensor]) -> Batch:
    """Return a copy of a batch, which is copied in one piece."""
    columns, names, padded, paths = batch.layout
    size = batch.arena.numel()
    arena = allocate_for(size, columns, columns[0].num_records, padded, allocate=allocate)
    np.copyto(arena.numpy(), batch.arena.numpy())
    return Batch(arena, columns, names, padded, paths)


def _kind(column: Column) -> tuple[Any, ...]:
    """Return what columns must have in common."""
    if isinstance(column, DenseColumns):
        return column.names, column.dtype
    if isinstance(column, RaggedColumn):
        return column.name, len(column.splits), type(column.values)
    return type(column), column.name


def _check_equal(shapes: Iterable[tuple[int, ...]]) -> None:
    if len(set(shapes)) > 1:
        raise CannotGatherError


# ---- arrays ----


def array_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """Return an array of numbers as items that are copied as they are."""
    return np.ndarray(numbers.shape, _item_dtype(numbers.dtype), arena, numbers.at)


def _item_dtype(dtype: str) -> str:
    """Return a NumPy dtype of items of the same size, signed so that they are also offsets."""
    size = item_bytes(dtype)
    return f"i{size}" if size in _INTEGER_BYTES else f"V{size}"


def _numbers_of(column: Any) -> Numbers:
    """Return the array of a dense column with one name."""
    return Numbers(column.dtype, column.shape, column.at)


def rows_of(arena: Arena, column: DenseColumns) -> npt.NDArray[Any]:
    """Return the rows of all columns as items that are copied as one; ``[columns, rows]``."""
    count, *shape = column.shape
    size = math.prod(shape) * item_bytes(column.dtype)
    dtype = f"u{size}" if size in _INTEGER_BYTES else f"V{size}"
    if size == 0:
        return np.empty((len(column.names), count), "V0")
    return np.ndarray(
        (len(column.names), count), dtype, arena, column.at, strides=(column.stride, size)
    )


def _copy_items(
    arena: Arena, to: Numbers, items: Sequence[npt.NDArray[Any]], column: int | None = None
) -> None:
    """Copy arrays one after another into an array, or into one of its columns."""
    target = array_of(arena, to)
    target = target if column is None else target[:, column]
    begin = 0
    for each in items:
        target[begin : begin + len(each)] = each
        begin += len(each)


def _text_bounds(part: _Part, per_item: int) -> tuple[_Ints, tuple[int, int]]:
    """Return the offsets of the bytes values of a part, the first and the last one."""
    texts: Texts = part.array
    offsets = array_of(
        part.arena, Numbers("int64", (math.prod(texts.shape) + 1,), texts.offsets_at)
    )
    starts = offsets[part.begin * per_item : part.end * per_item + 1]
    return starts, (int(starts[0]), int(starts[-1]))


def _starts_of(part: _Part, level: int) -> npt.NDArray[Any]:
    """Return the offsets of the rows of a part on a level.

    Raises:
        CannotGatherError: If they do not ascend, because they were not validated.
    """
    column: RaggedColumn = part.array
    starts = array_of(part.arena, column.splits[level])[part.begin : part.end + 1]
    inner = column.splits[level + 1 :]
    total = inner[0].shape[0] - 1 if inner else column.values.shape[0]
    if starts[0] < 0 or starts[-1] > total or (starts[1:] < starts[:-1]).any():
        raise CannotGatherError
    return starts
