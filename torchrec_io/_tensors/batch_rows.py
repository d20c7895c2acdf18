"""Rows of batches as samples, and copies of single rows."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import getrefcount
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._parsing.columns.base import view_of
from .._parsing.layout import Column, ListColumn, Padding, RaggedColumn, SmallLayout
from .._parsing.record_random import RecordRandom
from .._schema.nesting import Path, leaves_of, nested
from ..checks import UnknownNameError
from .arena import allocate_for
from .batch import Batch, allocate_arena, top_keys
from .gather import copy_rows, gather
from .ragged import Ragged, TensorParts, integers
from .sample import Constant, GivenRows, Hints, Origin, Rows, Sample
from .views import list_rows, name_dtype

# Blocks of which samples are still in use are kept up to this number and size: a DataLoader that
# collects a batch uses samples of several blocks, and joins them faster if they are not copied.
_MOST_BLOCKS = 16
_MOST_BLOCK_BYTES = 16 << 20
# What getrefcount() counts for an object that is in one list alone. If that is less than it says
# for a sample, somebody may refer to the sample; weak references then tell.
_ALONE = sum(map(getrefcount, [object()]))


Layout: TypeAlias = tuple[
    tuple[Column, ...], tuple[str, ...], Mapping[str, Padding], Mapping[str, Path]
]


class BatchRows(Rows):
    """The rows of a batch.

    Args:
        batch: The batch.
        origins: Source of the random numbers of its records, and their numbers, if known.
        schema: Schema that the records were parsed with; None if it is not known.
    """

    __slots__ = (
        "_hints",
        "_is_ordered",
        "_nested",
        "_origins",
        "_own_layout",
        "batch",
        "names",
        "schema",
    )

    def __init__(
        self,
        batch: Batch,
        origins: tuple[RecordRandom, Sequence[Any] | npt.NDArray[Any]] | None = None,
        *,
        schema: Any = None,
    ) -> None:
        super().__init__()
        self.batch = batch
        self.schema = schema
        self.names = tuple(batch)
        self._origins = origins
        self._hints: Hints | None = None
        self._is_ordered: bool | None = None  # whether the arena has rows, and none overlap
        self._own_layout: Any = None  # shared by the copies of single rows
        # The values of which the dicts were made, for each key of a nested schema.
        self._nested: dict[str, dict[Path, Sequence[Any]]] = {}

    def __missing__(self, key: str) -> Sequence[Any]:
        columns = columns_of_key(self.batch, key)
        rows: Sequence[Any]
        if tuple(columns) == ((),):
            rows = columns[()]
        else:
            self._nested[key] = columns
            rows = [_nested(columns, values) for values in zip(*columns.values(), strict=True)]
        self[key] = rows
        return rows

    @property
    def has_changed_dicts(self) -> bool:
        """True if a dict of a nested schema was changed by someone who got it."""
        return any(
            not _has_leaves(made, dict(zip(columns, values, strict=True)))
            for key, columns in self._nested.items()
            for made, values in zip(self[key], zip(*columns.values(), strict=True), strict=True)
        )

    @property
    def hints(self) -> Hints:
        if self._hints is None:
            ragged = {
                name: name_dtype(value.offsets)
                for name, value in self.batch.flat_columns().items()
                if isinstance(value, Ragged)
            }
            padded = self.batch.layout[2]
            self._hints = Hints(
                ragged,
                {name: padding.fill for name, padding in padded.items()},
                {name: padding.axes for name, padding in padded.items()},
            )
        return self._hints

    def origin(self, row: int) -> Origin | None:
        if self._origins is None:
            return None
        random, numbers = self._origins
        return Origin(random, numbers[row])

    @property
    def can_be_gathered(self) -> bool:
        """True if the rows can be copied from the arena."""
        if self._is_ordered is None:
            self._is_ordered = _is_in_memory(self.batch) and _has_ordered_offsets(self.batch)
        return self._is_ordered and not self.has_changed_dicts

    def own(self, row: int) -> Rows:
        room, copy = SmallLayout(), None
        if self.can_be_gathered:
            copy = copy_rows([self.batch], [(0, row, 1)], room)
        if copy is not None:
            layout: Layout = (tuple(copy.lay_out()), *self.batch.layout[1:])
            data = bytearray(room.arena_size)
            copy.write(np.frombuffer(data, np.uint8))
            if layout != self._own_layout:  # never, without values of any length
                self._own_layout = layout
            return OwnRow(data, self._own_layout, self.origin(row), self.schema)
        # A copy of each value.
        values = {name: _copied(self[name][row]) for name in self.names}
        return GivenRows(values, self.hints, self.schema)

    def reduce(self, row: int) -> tuple[Any, ...]:
        return self.own(row).reduce(row)


class OwnRow(Rows):
    """The values of one record in memory of its own.

    There may be many of them, so they are small until a value is asked for.

    Args:
        data: Arena of a batch of this record.
        layout: Layout of the batch: columns, names, padding and paths.
        origin: The record in its dataset, if known.
        schema: Schema that the record was parsed with; None if it is not known.
    """

    __slots__ = ("_data", "_layout", "_made", "_origin", "schema")

    def __init__(
        self, data: bytearray, layout: Layout, origin: Origin | None, schema: Any = None
    ) -> None:
        super().__init__()
        self.schema = schema
        self._data = data
        self._layout = layout
        self._origin = origin
        self._made: BatchRows | None = None

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return top_keys(self._layout[1], self._layout[3])

    @property
    def hints(self) -> Hints:
        return self._rows.hints

    @property
    def _rows(self) -> BatchRows:
        """The rows of a batch of this record."""
        if self._made is None:
            arena = torch.frombuffer(self._data, dtype=torch.uint8) if self._data else _nothing()
            self._made = BatchRows(Batch.without_views(arena, *self._layout))
        return self._made

    def __missing__(self, key: str) -> Constant:
        value = self[key] = Constant(self._rows[key][0])
        return value

    def own(self, row: int) -> Rows:
        del row
        return self

    def reduce(self, row: int) -> tuple[Any, ...]:
        if self._made is not None and self._made.has_changed_dicts:
            values = {name: self[name][row] for name in self.names}
            return GivenRows(values, self.hints, self.schema).reduce(row)
        return _own_sample, (bytes(self._data), self._layout, self._origin)

    def origin(self, row: int) -> Origin | None:
        del row
        return self._origin


def _own_sample(data: bytes, layout: Any, origin: Origin | None) -> Sample:
    """Return the sample of a pickled row."""
    [sample] = Sample.of_rows(OwnRow(bytearray(data), layout, origin), [0])
    return sample


def _nothing() -> Tensor:
    return torch.empty(0, dtype=torch.uint8)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, TensorParts):
        return value.with_parts(map(_copied, value.parts))
    return value.clone() if isinstance(value, Tensor) else value


# ---- values of rows ----


def columns_of_key(batch: Batch, key: str) -> dict[Path, Sequence[Any]]:
    """Return the values of the records of a batch for a top-level key, without padding.

    Returns:
        Lists with a value for each record, by their paths inside the dict of that key. The path is
        empty if the key is a feature.

    Raises:
        KeyError: If there is no such key.
    """
    if key not in batch:
        raise UnknownNameError(key, tuple(batch), "the batch has")
    _, names, _, paths = batch.layout
    inside = {name: paths[name][1:] for name in names if paths.get(name, (None,))[0] == key}
    if not inside:
        return {(): _rows_of(batch, key, batch[key])}
    flat = batch.flat_columns()
    return {path: _rows_of(batch, name, flat[name]) for name, path in inside.items()}


def _nested(paths: Iterable[Path], values: Sequence[Any]) -> dict[str, Any]:
    """Return the dict of values at some paths."""
    numbered = {str(number): path for number, path in enumerate(paths)}
    return nested(dict(zip(numbered, values, strict=True)), numbered)


def _has_leaves(made: dict[str, Any], leaves: dict[Path, Any]) -> bool:
    """Return whether a dict has exactly these objects at their paths."""
    found = dict(leaves_of(made))
    return found.keys() == leaves.keys() and all(found[path] is leaves[path] for path in leaves)


def _rows_of(batch: Batch, name: str, value: Any) -> Sequence[Any]:
    """Return the rows of a column, without padding."""
    rows = list_rows(value)
    padding = batch.layout[2].get(name)
    if padding is None:
        return rows
    lengths = integers(batch.lengths[name], f"the lengths of {name!r}")
    if padding.axes == (0,):
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]
    for axis, sizes in zip(padding.axes, zip(*lengths, strict=True), strict=bool(lengths)):
        rows = [row.narrow(axis, 0, size) for row, size in zip(rows, sizes, strict=True)]
    return rows


# ---- samples that are kept ----


class RecentBlocks:
    """The last blocks of an iteration of which samples are still in use.

    Samples of blocks before these copy their own rows.
    """

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, list[weakref.ref[Sample]]]] = deque()
        self._size = 0

    def add(self, samples: list[Any]) -> None:
        """Add a block that the iteration moves past, and empty the list of its samples.

        Items that a schema function made are left alone.
        """
        rows = samples[0].place[0] if type(samples[0]) is Sample else None
        if not isinstance(rows, BatchRows):
            return
        arena = rows.batch.arena
        size = 0 if arena is None else arena.numel()
        if sum(map(getrefcount, samples)) == _ALONE * len(samples):
            samples.clear()  # as usual: nobody else refers to them
            return
        kept = [*map(weakref.ref, samples)]
        samples.clear()
        kept = [reference for reference in kept if reference() is not None]
        if not kept:
            return
        self._blocks.append((size, kept))
        self._size += size
        while len(self._blocks) > _MOST_BLOCKS or self._size > _MOST_BLOCK_BYTES:
            size, kept = self._blocks.popleft()
            self._size -= size
            for reference in kept:
                sample = reference()
                if sample is not None:
                    sample.leave()


# ---- joining ----


def gather_samples(
    samples: Sequence[Sample], allocate: Callable[[int], Tensor] = allocate_arena
) -> Batch | None:
    """Return the batch of samples that are rows of batches, copied as slices of these.

    Args:
        samples: At least one sample.
        allocate: Function that allocates the arena.

    Returns:
        None if the samples must be joined value by value.
    """
    sources: dict[int, int] = {}  # numbers of the batches, by the identity of their rows
    batches: list[Batch] = []
    spans = []
    for rows, begin, end in Sample.runs_of(samples):
        source = sources.get(id(rows))
        if source is None:
            if not isinstance(rows, BatchRows) or not rows.can_be_gathered:
                return None
            source = sources[id(rows)] = len(batches)
            batches.append(rows.batch)
        spans.append((source, begin, end - begin))
    if len(spans) == 1 and spans[0][1:] == (0, _count_rows(batches[0])):
        return _copy_of(batches[0], allocate)
    batch = gather(batches, spans, allocate)
    return None if batch is None else batch.with_views()


def _count_rows(batch: Batch) -> int:
    """Return the number of records of a batch with an arena; -1 if it has no columns."""
    return next((column.num_records for column in batch.layout[0]), -1)


def _copy_of(batch: Batch, allocate: Callable[[int], Tensor]) -> Batch:
    """Return a copy of a batch, which is copied in one piece."""
    columns, names, padded, paths = batch.layout
    size = batch.arena.numel()
    arena = allocate_for(size, columns, columns[0].num_records, padded, allocate=allocate)
    np.copyto(arena.numpy(), batch.arena.numpy())
    return Batch(arena, columns, names, padded, paths)


def _is_in_memory(batch: Batch) -> bool:
    """Return whether a batch has an arena in the memory of the CPU."""
    return batch.arena is not None and batch.arena.device.type == "cpu"


def _has_ordered_offsets(batch: Batch) -> bool:
    """Return whether no offset is smaller than the one before. Others were not validated."""
    assert batch.arena is not None
    arena = batch.arena.numpy()
    columns = [
        array
        for column in batch.layout[0]
        for array in (column.arrays if isinstance(column, ListColumn) else (column,))
        if isinstance(array, RaggedColumn)
    ]
    levels = [view_of(arena, level) for column in columns for level in column.splits]
    return all(bool((level[1:] >= level[:-1]).all()) for level in levels)
