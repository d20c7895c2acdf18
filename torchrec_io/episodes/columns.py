"""Columns of steps, gathered from columns of whole episodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._parsing.arrays import Arena, Ints, view_of
from .._parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    RaggedColumn,
    Texts,
    Values,
    names_of,
)
from .._schema.nesting import VALID
from .._tensors.arena import Allocate, allocate_arena, allocate_for
from .._tensors.batch import Batch
from .._tensors.columns import Columns, Form
from .._tensors.gather import spans_of
from .._tensors.row_copy import RowCopy, TakenRows

Mask: TypeAlias = npt.NDArray[np.bool_]

# The source of rows of padding; see RowGather in row_gather.h.
_PADDING = -1


class StepRows(NamedTuple):
    """The steps that samples take of the rows of a batch.

    Attributes:
        rows: Row of each sample; int64 ``[n]``.
        steps: Steps that the sample takes of its row; int64 ``[n]``, or ``[n, offsets]``.
        zeros: Mask of those that are zeros instead, bool of that shape; None if there are none.
    """

    rows: Ints
    steps: Ints
    zeros: Mask | None = None

    def entries(self, firsts: Ints) -> Ints:
        """Return the index of each step; ``firsts`` is that of the first step of each row."""
        return (firsts.reshape(-1, *(1,) * (self.steps.ndim - 1)) + self.steps).reshape(-1)

    def spans(self, firsts: Ints) -> Ints:
        """Return each step as a span of rows, as :meth:`entries` counts them; int64 ``[k, 3]``."""
        spans = spans_of(self.entries(firsts))
        if self.zeros is not None:
            spans[self.zeros.reshape(-1), 0] = _PADDING
        return spans

    def of_sample(self, sample: int) -> StepRows:
        """Return the steps of one sample."""
        zeros = None if self.zeros is None else self.zeros[sample : sample + 1]
        return StepRows(self.rows[sample : sample + 1], self.steps[sample : sample + 1], zeros)


def count_steps(batch: Batch, names: Collection[str]) -> dict[str, Ints]:
    """Return the number of steps of each row in some columns; int64 ``[B]``, by name."""
    columns, padded = batch.columns.layout, batch.columns.form.padded
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


def gather(
    batch: Batch,
    names: Iterable[str],
    rows: Ints,
    steps: Mapping[str, StepRows],
    valid: Mapping[str, Mask],
    *,
    allocate: Allocate = allocate_arena,
) -> Batch:
    """Return a batch of rows of the columns of a batch, or of steps of the columns in ``steps``.

    Args:
        batch: Batch of whole episodes.
        names: Names of the columns, in order.
        rows: Row of each sample in ``batch``.
        steps: Steps of each sample, by the name of the column.
        valid: Masks of the steps that exist, by the name of the column; the batch has these masks
            in a dict.
        allocate: Function that allocates the arena.
    """
    old = batch.columns
    arena = batch.arena.numpy()
    copy = RowCopy([arena])
    whole = copy.select(spans_of(rows))
    for column in _separated(old.layout, steps):
        name = names_of(column)[0]
        if name in steps:
            _add_steps(copy, arena, column, steps[name])
        elif name.partition("\0")[0] not in steps:  # steps have no padding
            copy.add([column], whole)
    columns = copy.plan()
    room = ArenaLayout(copy.size)
    masks = {f"{VALID}/{name}": mask for name, mask in valid.items()}
    placed = {name: room.reserve_dense((name,), "bool", mask.shape) for name, mask in masks.items()}
    columns += placed.values()
    padded = {name: how for name, how in old.form.padded.items() if name not in steps}
    paths = {**old.form.paths, **{f"{VALID}/{name}": (VALID, name) for name in valid}}
    form = Form((*names, *masks), padded, paths, old.form.images)
    tensor = allocate_for(room.size, columns, len(rows), allocate)
    made = tensor.numpy()
    copy.write(made)
    for name, column in placed.items():
        view_of(made, Numbers("bool", column.shape, column.at))[...] = masks[name]
    return Batch(Columns(tensor, columns, form), has_views=False)


def _separated(columns: Iterable[Column], steps: Mapping[str, StepRows]) -> Iterator[Column]:
    """Yield columns, those with steps apart from each other and from those without."""
    for column in columns:
        if isinstance(column, DenseColumns) and not steps.keys().isdisjoint(
            name.partition("\0")[0] for name in column.names
        ):
            for name, array in column.arrays():
                yield DenseColumns((name,), *array, column.stride)
        else:
            yield column


def _add_steps(copy: RowCopy, arena: Arena, column: Column, taken: StepRows) -> None:
    """Add a column of the steps of samples."""
    shape = taken.steps.shape
    if isinstance(column, (DenseColumns, BytesColumn)):
        size = column.shape[1] if isinstance(column, DenseColumns) else column.values.shape[1]
        copy.add([_steps_as_rows(column)], copy.select(taken.spans(taken.rows * size), shape))
    elif isinstance(column, RaggedColumn):
        firsts = view_of(arena, column.splits[0])[taken.rows].astype(np.int64)
        copy.add([_inner_rows(column)], copy.select(taken.spans(firsts), shape))
    else:
        assert isinstance(column, ListColumn)
        copy.add_list(
            column.name,
            [
                _steps_of_one(copy, arena, column.arrays[row], taken.of_sample(sample))
                for sample, row in enumerate(taken.rows.tolist())
            ],
        )


def _steps_of_one(
    copy: RowCopy, arena: Arena, value: Values | RaggedColumn, taken: StepRows
) -> tuple[Values | RaggedColumn, TakenRows]:
    """Select a step, or several steps, of one record's array."""
    shape = taken.steps.shape[1:]
    spans = taken.spans(np.zeros(1, np.int64))
    if not isinstance(value, RaggedColumn) or shape:
        return value, copy.select(spans, shape)
    inside: Values | RaggedColumn = value.values
    if len(value.splits) > 1:
        inside = value._replace(splits=value.splits[1:])
    [[source, step, _]] = spans.tolist()
    # Offsets that were not validated may have any values.
    edges = view_of(arena, value.splits[0])[step : step + 2]
    begin, end = np.clip(edges, 0, _rows_in(inside)).tolist()
    return inside, copy.select([0, begin, max(0, end - begin) if source == 0 else 0])


def _steps_as_rows(column: DenseColumns | BytesColumn) -> DenseColumns | BytesColumn:
    """Return the steps in the rows of an array as a column."""
    rows, size, *inner = column.shape if isinstance(column, DenseColumns) else column.values.shape
    shape = (rows * size, *inner)
    if isinstance(column, DenseColumns):
        return column._replace(shape=shape)
    return BytesColumn(column.name, column.values._replace(shape=shape))


def _inner_rows(column: RaggedColumn) -> DenseColumns | BytesColumn | RaggedColumn:
    """Return the rows in the rows of a Ragged as a column."""
    if len(column.splits) > 1:
        return column._replace(splits=column.splits[1:])
    if isinstance(column.values, Texts):
        return BytesColumn(column.name, column.values)
    return DenseColumns((column.name,), *column.values, 0)
