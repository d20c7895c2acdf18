"""Joining of rows of batches whose columns all have a fixed shape, without parsing them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._parsing.layout import ArenaLayout, DenseColumns
from .arena import allocate_for
from .batch import Batch
from .gather import rows_of


def join_dense(
    batches: Sequence[Batch],
    rows: Sequence[npt.NDArray[np.int64]],
    order: npt.NDArray[np.int64] | None = None,
) -> Batch | None:
    """Return a batch of rows of several batches of one schema, one batch after another.

    Args:
        batches: The batches.
        rows: Rows to take of each batch, in order; int64 ``[n]``.
        order: Rows to take of the result, in order; by default all.

    Returns:
        None if a column is not of a fixed shape, so that the records must be parsed again.
    """
    columns, names, padded, paths = batches[0].layout
    if padded or any(_forms(batch) != _forms(batches[0]) for batch in batches):
        return None
    count = sum(map(len, rows)) if order is None else len(order)
    layout = ArenaLayout()
    joined: list[DenseColumns] = []
    for column in columns:
        if not isinstance(column, DenseColumns):
            return None
        joined.append(layout.reserve_dense(column.names, column.dtype, (count, *column.shape[1:])))
    arena = allocate_for(layout.size, joined, count)
    targets = [rows_of(arena.numpy(), column) for column in joined]
    begin = 0
    for batch, taken in zip(batches, rows, strict=True):
        end = begin + len(taken)
        to: Any = slice(begin, end)
        if order is not None:
            to = np.flatnonzero((order >= begin) & (order < end))
            taken = taken[order[to] - begin]  # noqa: PLW2901
        source = batch.arena.numpy()
        for column, target in zip(batch.layout[0], targets, strict=True):
            assert isinstance(column, DenseColumns)
            target[:, to] = rows_of(source, column)[:, taken]
        begin = end
    return Batch.without_views(arena, joined, names, padded, paths)


def _forms(batch: Batch) -> list[Any]:
    return [
        (column.names, column.dtype, column.shape[1:])
        for column in batch.layout[0]
        if isinstance(column, DenseColumns)
    ]
