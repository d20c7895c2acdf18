"""Rows of batches as samples, and copies of single rows."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .._parsing.arrays import view_of
from .._parsing.layout import ArenaLayout, ListColumn, RaggedColumn
from .._parsing.record_random import RecordRandom
from .._schema.nesting import Path, leaves_of, nested
from ..checks import UnknownNameError
from .arena import allocate_arena, allocate_for
from .columns import Columns, Form, columns_from_bytes
from .gather import copy_rows, data_of, gather_rows
from .ragged import Ragged, integers
from .sample import Hints, Origin, Rows, Sample
from .views import list_rows, name_dtype

# Blocks of which samples are still in use are kept up to this number and size: a DataLoader that
# collects a batch uses samples of several blocks, and joins them faster if they are not copied.
_MOST_BLOCKS = 16
_MOST_BLOCK_BYTES = 16 << 20
# What getrefcount() counts for an object that is in one list alone. If that is less than it says
# for a sample, somebody may refer to the sample; weak references then tell.
_ALONE = sum(map(getrefcount, [object()]))


class BatchRows(Rows):
    """The rows of a batch.

    Args:
        columns: Columns of the batch.
        origins: Source of the random numbers of its records, and their numbers, if known.
        schema: Schema that the records were parsed with; None if it is not known.
    """

    __slots__ = ("_form_of_one", "_is_ordered", "_leaves", "_origins", "columns")

    def __init__(
        self,
        columns: Columns,
        origins: tuple[RecordRandom, Sequence[Any] | npt.NDArray[Any]] | None = None,
        *,
        schema: Any = None,
    ) -> None:
        dict.__init__(self)
        self.columns = columns
        self.names = columns.keys
        self.schema = schema
        self._origins = origins
        self._hints = None
        # Whether the arena has rows, and none overlap.
        self._is_ordered: bool | None = None
        self._form_of_one: Form | None = None  # shared by the copies of single rows
        # The values of which the dicts were made, for each key of a nested schema.
        self._leaves: dict[str, list[dict[Path, Any]]] | None = None

    def __missing__(self, key: str) -> Any:
        columns = self.columns
        if key not in self.names:
            raise UnknownNameError(key, self.names, "the batch has")
        paths = columns.paths
        names = [name for name in columns.names if name in paths and paths[name][0] == key]
        rows: Any
        if names:  # of the columns in a dict
            inside = [paths[name][1:] for name in names]
            values = list(zip(*(_rows_of(columns, name) for name in names), strict=True))
            leaves = [dict(zip(inside, each, strict=True)) for each in values]
            self._leaves = {**(self._leaves or {}), key: leaves}
            rows = [nested(dict(zip(names, each, strict=True)), paths)[key] for each in values]
        else:
            rows = _rows_of(columns, key)
        self[key] = rows
        return rows

    @property
    def has_changed_dicts(self) -> bool:
        """True if a dict of a nested schema was changed by someone who got it."""
        return not all(
            all(map(_has_leaves, self[key], leaves)) for key, leaves in (self._leaves or {}).items()
        )

    @property
    def hints(self) -> Hints:
        if self._hints is None:
            padded = self.columns.padded
            self._hints = Hints(
                {
                    name: name_dtype(value.offsets)
                    for name, value in self.columns.flat().items()
                    if isinstance(value, Ragged)
                },
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
            self._is_ordered = self.columns.is_in_memory and _has_ordered_offsets(self.columns)
        return self._is_ordered and not self.has_changed_dicts

    def own(self, row: int) -> Rows:
        copied = self._copy(row)
        if copied is None:  # a copy of each value
            values = tree_map(_copied, {name: self[name][row] for name in self.names})
            return Rows(values, self.hints, self.schema)
        origin = self.origin(row)
        origins = None if origin is None else (origin.random, (origin.number,))
        return BatchRows(copied, origins, schema=self.schema)

    def reduce(self, row: int) -> tuple[Any, ...]:
        copied = self._copy(row)
        if copied is None:
            return self.own(row).reduce(0)
        assert copied.arena is not None
        return _own_sample, (copied.arena.numpy().tobytes(), copied.form, self.origin(row))

    def _copy(self, row: int) -> Columns | None:
        """Copy one row of the arena; return None if the values must be copied one by one."""
        if not self.can_be_gathered:
            return None
        # There may be many copies, so they are small.
        room = ArenaLayout(is_small=True)
        copy = copy_rows([self.columns], [(0, row, 1)], room)
        form: Form = (tuple(copy.lay_out()), *self.columns.form[1:])
        data = np.empty(room.arena_size, np.uint8)
        copy.write(data)
        if form != self._form_of_one:  # never, without values of any length
            self._form_of_one = form
        return Columns(torch.from_numpy(data), *self._form_of_one)


def _own_sample(data: bytes, form: Form, origin: Origin | None) -> Sample:
    """Return the sample of a pickled row."""
    origins = None if origin is None else (origin.random, (origin.number,))
    [sample] = Sample.of_rows(BatchRows(columns_from_bytes(data, *form), origins), [0])
    return sample


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


# ---- values of rows ----


def _has_leaves(made: dict[str, Any], leaves: dict[Path, Any]) -> bool:
    """Return whether a dict has exactly these objects at their paths."""
    found = dict(leaves_of(made))
    return found.keys() == leaves.keys() and all(found[path] is leaves[path] for path in leaves)


def _rows_of(columns: Columns, name: str) -> Sequence[Any]:
    """Return the rows of a column, without padding."""
    rows = list_rows(columns.views()[name])
    padding = columns.padded.get(name)
    if padding is None:
        return rows
    lengths = integers(columns.views()[padding.lengths], f"the lengths of {name!r}")
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
        arena = rows.columns.arena
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
) -> Columns | None:
    """Return the columns of samples that are rows of batches, copied as slices of these.

    Args:
        samples: At least one sample.
        allocate: Function that allocates the arena.

    Returns:
        None if the samples must be joined value by value.
    """
    numbers: dict[int, int] = {}  # of the sources, by the identity of their rows
    found: list[BatchRows] = []
    spans = []
    for rows, begin, end in Sample.runs_of(samples):
        source = numbers.get(id(rows))
        if source is None:
            if not isinstance(rows, BatchRows) or not rows.can_be_gathered:
                return None
            source = numbers[id(rows)] = len(found)
            found.append(rows)
        spans.append((source, begin, end - begin))
    sources = [rows.columns for rows in found]
    _, begin, count = spans[0]
    if len(spans) == 1 and count > 1 and (begin, count) == (0, sources[0].count_records()):
        return _copy_of(sources[0], allocate)
    return gather_rows(sources, spans, allocate=allocate)


def _copy_of(columns: Columns, allocate: Callable[[int], Tensor]) -> Columns:
    """Return a copy of columns, which are copied in one piece."""
    data = data_of(columns)
    arena = allocate_for(
        len(data), columns.layout, columns.count_records(), columns.padded, allocate=allocate
    )
    np.copyto(arena.numpy(), data)
    return Columns(arena, *columns.form)


def _has_ordered_offsets(columns: Columns) -> bool:
    """Return whether no offset is smaller than the one before. Others were not validated."""
    arena = data_of(columns)
    raggeds = [
        array
        for column in columns.layout
        for array in (column.arrays if isinstance(column, ListColumn) else (column,))
        if isinstance(array, RaggedColumn)
    ]
    levels = [view_of(arena, level) for column in raggeds for level in column.splits]
    return all(bool((level[1:] >= level[:-1]).all()) for level in levels)
