"""The numbers of selected records."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import counted


def numbers_of(index: Any, count: int) -> Tensor:
    """Return the numbers of the records that an index stands for, int64 ``[n]``.

    Args:
        index: The index; see :meth:`Batch.select`.
        count: Number of records.
    """
    if isinstance(index, slice):
        return torch.tensor(range(*index.indices(count)), dtype=torch.int64)
    numbers = _one_dimensional(index)
    if numbers.dtype == torch.bool:
        if len(numbers) != count:
            raise IndexError(
                f"a mask must have {counted(count, 'value')}, one for each record, "
                f"got {len(numbers)}"
            )
        return numbers.nonzero().flatten()
    numbers = numbers.long()
    outside = numbers[(numbers < -count) | (numbers >= count)]
    if outside.numel():
        raise IndexError(f"record {outside[0]} is out of range for {counted(count, 'record')}")
    return torch.where(numbers < 0, numbers + count, numbers)


def _one_dimensional(index: Any) -> Tensor:
    """Return an index as a Tensor ``[n]`` of integers or bools."""
    if not isinstance(index, (Tensor, np.ndarray, list, tuple, range)):
        raise TypeError(
            "the index of records must be a slice, or a list, Tensor or array of integers or "
            f"bools, got {type(index).__name__}"
        )
    numbers = torch.as_tensor(index).cpu()
    if numbers.numel() == 0:  # of floats, if it is made of a list
        numbers = numbers.long()
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dim() != 1:
        raise TypeError(
            "the index of records must have one dimension of integers or bools, got "
            f"{numbers.dtype} {list(numbers.shape)}"
        )
    return numbers
