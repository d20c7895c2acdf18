"""NumPy arrays of an arena."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .layout import Numbers

Arena: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]


def view_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """Return a numeric array in the arena; bfloat16, which NumPy lacks, as its bits in uint16."""
    return flat_view_of(arena, numbers).reshape(numbers.shape)


def flat_view_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """Return a numeric array in the arena, in one dimension; see :func:`view_of`."""
    count = math.prod(numbers.shape)
    return np.frombuffer(arena, _numpy_dtype(numbers.dtype), count, numbers.at)


def offsets_of(counts: Ints) -> Ints:
    """Return the offset of each group of items from their sizes, and the end of the last one."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))


@functools.cache
def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
