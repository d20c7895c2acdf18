"""The numbers of selected records."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .._parsing.arrays import Ints
from ..checks import counted


def numbers_of(index: Any, count: int) -> Ints:
    """Return the numbers of the records that an index stands for, int64 ``[n]``.

    Args:
        index: The index; see :meth:`Batch.select`.
        count: Number of records.
    """
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    if not isinstance(index, (Tensor, np.ndarray, list, tuple, range)):
        raise TypeError(
            "the index of records must be a slice, or a list, Tensor or array of integers or "
            f"bools, got {type(index).__name__}"
        )
    found = index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
    is_empty = found.shape == (0,)  # an empty list becomes floats
    if found.ndim != 1 or (found.dtype.kind not in "iub" and not is_empty):
        raise TypeError(
            "the index of records must have one dimension of integers or bools, got "
            f"{found.dtype} {list(found.shape)}"
        )
    if found.dtype == bool:
        if len(found) != count:
            raise IndexError(
                f"a mask must have {counted(count, 'value')}, one for each record, got {len(found)}"
            )
        return np.flatnonzero(found)
    numbers: Ints = found.astype(np.int64)
    outside = numbers[(numbers < -count) | (numbers >= count)]
    if len(outside):
        raise IndexError(f"record {outside[0]} is out of range for {counted(count, 'record')}")
    return np.where(numbers < 0, numbers + count, numbers)
