"""Columns of parsed records as Arrow arrays, one element for each record."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._parsing.arrays import offsets_of
from .._parsing.numpy_columns import Entries, RaggedRows
from .._records.record_block import RecordBlock
from .._storage.byte_source import Ints
from ..convert import arrow as pa
from ..convert.arrow_columns import list_array, lists
from .extra import import_tensors


def arrow_array(column: Any, rank: int | None = None) -> Any:
    """Return a column as an Arrow array with an element for each record.

    Args:
        column: Column as :func:`torchrec_io._parsing.numpy_columns.numpy_columns` returns it,
            without padding.
        rank: Number of dimensions of a record's value, if it is known.
    """
    if isinstance(column, list):
        return _list_array(column, rank)
    if isinstance(column, Entries):
        return _sparse_array(column)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return import_tensors().ArrowTensorArray.from_numpy(column)
    values = column.values if isinstance(column, RaggedRows) else None
    if isinstance(values, np.ndarray) and values.ndim > 1:
        # Without records, there is one part too many.
        return _tensors(np.split(values, column.offsets[1:-1])[: len(column.offsets) - 1])
    return list_array(column)


def padded_array(column: Any, lengths: Ints) -> Any:
    """Return a column whose records are padded to the same number of items, without the padding.

    Args:
        column: Array of numbers or bytes values.
        lengths: Number of items of each record.
    """
    offsets = offsets_of(lengths)
    is_kept = np.arange(column.shape[1]) < lengths[:, np.newaxis]
    if isinstance(column, np.ndarray):
        return arrow_array(RaggedRows(column[is_kept], offsets))
    return lists(offsets, list_array(column).flatten().take(pa.array(np.flatnonzero(is_kept))))


def bytes_array(block: RecordBlock) -> Any:
    """Return the records of a block, which follow each other in its buffer, as an Arrow array."""
    count = len(block)
    if not count:
        return pa.array([], pa.binary())
    # Arrow's values lie side by side, so what is between records are values to leave out.
    ends = np.stack([block.starts, block.starts + block.lengths], axis=1).reshape(-1)
    is_wide = int(ends[-1]) >= 1 << 31
    kind = pa.large_binary() if is_wide else pa.binary()
    offsets = pa.py_buffer(ends.astype(np.int64 if is_wide else np.int32))
    every = pa.Array.from_buffers(kind, 2 * count - 1, [None, offsets, pa.py_buffer(block.buffer)])
    return every.take(pa.array(np.arange(0, 2 * count, 2))).cast(pa.binary())


def _sparse_array(entries: Entries) -> Any:
    """Return structs of the indices of each record, one list for each entry, and its values."""
    records = entries.indices[:, 0]
    offsets = np.searchsorted(records, np.arange(entries.shape[0] + 1))
    indices = list_array(RaggedRows(entries.indices[:, 1:], offsets))
    values = list_array(RaggedRows(entries.values, offsets))
    return pa.StructArray.from_arrays([indices, values], ["indices", "values"])


def _list_array(column: Sequence[Any], rank: int | None) -> Any:
    """Return an array of values that each have a shape of their own."""
    if not column:
        return pa.nulls(0)
    if isinstance(column[0], RaggedRows):
        return _lists_of(map(list_array, column))
    if rank is not None:
        return _tensors(column)
    values = _lists_of(list_array(value.reshape((math.prod(value.shape),))) for value in column)
    sizes = pa.array([list(value.shape) for value in column], pa.list_(pa.int64()))
    return pa.StructArray.from_arrays([values, sizes], ["values", "shape"])


def _lists_of(arrays: Iterable[Any]) -> Any:
    """Return Arrow arrays as one array of lists."""
    inner = list(arrays)
    return lists(offsets_of(np.array([*map(len, inner)])), pa.concat_arrays(inner))


def _tensors(values: Sequence[npt.NDArray[Any]]) -> Any:
    """Return arrays of the same number of dimensions as tensors."""
    if not values:
        return pa.nulls(0)
    return import_tensors().ArrowVariableShapedTensorArray.from_numpy(values)
