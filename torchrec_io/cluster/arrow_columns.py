"""Columns of parsed records as Arrow arrays, one element for each record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._parsing.arrays import offsets_of
from .._parsing.numpy_columns import Entries, RaggedRows, TextArray
from .._records.record_block import RecordBlock
from .._storage.byte_source import Ints
from ..convert import arrow as pa
from ..convert.arrow_columns import list_array
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
    if (
        isinstance(column, RaggedRows)
        and isinstance(column.values, np.ndarray)
        and column.values.ndim > 1
    ):
        return _row_tensors(column)
    return list_array(column)


def without_padding(column: Any, lengths: Ints) -> Any:
    """Return the rows of a column whose records are padded to the same number of items.

    Args:
        column: Array of numbers or bytes values.
        lengths: Number of items of each record.
    """
    offsets = offsets_of(lengths)
    is_kept = np.arange(column.shape[1]) < lengths[:, np.newaxis]
    if isinstance(column, np.ndarray):
        return RaggedRows(column[is_kept], offsets)
    return RaggedRows(_take_texts(column, np.flatnonzero(is_kept)), offsets)


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


def _take_texts(texts: TextArray, rows: Ints) -> TextArray:
    """Return rows of an array of records and items, as an array of items."""
    inner = texts.shape[2:]
    step = math.prod(inner)
    positions = (rows[:, np.newaxis] * step + np.arange(step)).reshape(-1)
    starts, sizes = texts.offsets[positions], np.diff(texts.offsets)[positions]
    offsets = offsets_of(sizes)
    data = texts.data[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes)]
    return TextArray(data, offsets, (len(rows), *inner))


def _sparse_array(entries: Entries) -> Any:
    """Return structs of the indices of each record, one list for each entry, and its values."""
    records = entries.indices[:, 0]
    offsets = np.searchsorted(records, np.arange(entries.shape[0] + 1))
    indices = list_array(RaggedRows(entries.indices[:, 1:], offsets))
    values = list_array(RaggedRows(entries.values, offsets))
    return pa.StructArray.from_arrays([indices, values], ["indices", "values"])


def _row_tensors(rows: RaggedRows) -> Any:
    """Return a tensor for each row."""
    values = rows.values
    counts = np.diff(rows.offsets).astype(np.int64)
    shapes = np.empty((len(counts), values.ndim), np.int64)
    shapes[:, 0] = counts
    shapes[:, 1:] = values.shape[1:]
    return _tensors(values.reshape(-1), shapes)


def _list_array(column: Sequence[Any], rank: int | None) -> Any:
    """Return an array of values that each have a shape of their own."""
    if not column:
        return pa.nulls(0)
    if isinstance(column[0], RaggedRows):
        inner = [list_array(rows) for rows in column]
        offsets = offsets_of(np.array([*map(len, inner)]))
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.concat_arrays(inner))
    if rank is not None:
        shapes = np.array([value.shape for value in column], np.int64).reshape(len(column), rank)
        return _tensors(np.concatenate([value.reshape(-1) for value in column]), shapes)
    flat = [list_array(value.reshape((math.prod(value.shape),))) for value in column]
    offsets = offsets_of(np.array([*map(len, flat)]))
    values = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.concat_arrays(flat))
    sizes = pa.array([list(value.shape) for value in column], pa.list_(pa.int64()))
    return pa.StructArray.from_arrays([values, sizes], ["values", "shape"])


def _tensors(flat: npt.NDArray[Any], shapes: Ints) -> Any:
    """Return tensors of the same number of dimensions, whose values lie side by side."""
    values = pa.array(flat)
    count, rank = shapes.shape
    offsets = offsets_of(shapes.prod(axis=1))
    data = pa.LargeListArray.from_arrays(pa.array(offsets), values)
    ends = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(rank))
    sizes = pa.ListArray.from_arrays(ends, pa.array(shapes.reshape(-1)))
    storage = pa.StructArray.from_arrays([data, sizes], ["data", "shape"])
    return import_tensors().ArrowVariableShapedTensorType(values.type, rank).wrap_array(storage)
