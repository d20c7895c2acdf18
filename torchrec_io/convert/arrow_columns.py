"""Columns of parsed records as Arrow arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .._parsing.numpy_columns import RaggedRows, TextArray
from . import arrow as pa


def list_array(column: Any) -> Any:
    """Return a column as an Arrow array, whose further dimensions are lists in lists.

    Args:
        column: Array, :class:`TextArray` or :class:`RaggedRows`.
    """
    if isinstance(column, RaggedRows):
        return lists(column.offsets, list_array(column.values))
    shape = column.shape
    flat = _binary_array(column) if isinstance(column, TextArray) else pa.array(column.reshape(-1))
    for axis in range(len(shape) - 1, 0, -1):
        flat = lists(np.arange(math.prod(shape[:axis]) + 1) * shape[axis], flat)
    return flat


def lists(offsets: npt.NDArray[Any], items: Any) -> Any:
    """Return an Arrow array of lists, from their offsets in an array of all items."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), items)


def _binary_array(texts: TextArray) -> Any:
    # int32 suffices: the records of a block have far fewer bytes, and no message reaches 2 GiB.
    offsets = pa.py_buffer(texts.offsets.astype(np.int32))
    data = pa.py_buffer(texts.data)
    return pa.Array.from_buffers(pa.binary(), len(texts.offsets) - 1, [None, offsets, data])
