"""Selection of records: their numbers, and their rows of a column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import counted
from .ragged import BytesArray, Ragged, Sparse

# ---- which records ----


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
    if len(outside):
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


# ---- their values ----


def take_rows(value: Any, numbers: Tensor) -> Any:
    """Return rows of a column, which share no memory with it.

    Args:
        value: The column.
        numbers: Numbers of the rows, int64 ``[n]``.
    """
    if isinstance(value, Tensor):
        return value[numbers.to(value.device)]
    if isinstance(value, BytesArray):
        return _texts(value, numbers)
    if isinstance(value, Ragged):
        taken, offsets = _within(value.offsets, numbers, len(value.values))
        return Ragged(take_rows(value.values, taken), offsets)
    if isinstance(value, Sparse):
        return _sparse(value, numbers)
    return [_whole(value[number]) for number in numbers.tolist()]


def _whole(value: Any) -> Any:
    """Return a copy of the value of one record."""
    return (
        value.clone() if isinstance(value, Tensor) else take_rows(value, torch.arange(len(value)))
    )


def _texts(array: BytesArray, numbers: Tensor) -> BytesArray:
    size = math.prod(array.shape[1:])
    within = torch.arange(size, device=numbers.device)
    values = (numbers.unsqueeze(1) * size + within).flatten()
    taken, offsets = _within(array.offsets, values, array.data.numel())
    return BytesArray(array.data[taken], offsets, (len(numbers), *array.shape[1:]))


def _sparse(value: Sparse, numbers: Tensor) -> Sparse:
    # Values are in the order of their records.
    ends = torch.bincount(value.indices[:, 0], minlength=len(value)).cumsum(0)
    taken, offsets = _within(torch.cat((ends.new_zeros(1), ends)), numbers, len(value.indices))
    records = torch.arange(len(numbers), device=offsets.device)
    indices = value.indices[taken]
    indices[:, 0] = torch.repeat_interleave(records, offsets.diff())
    return Sparse(indices, take_rows(value.values, taken), (len(numbers), *value.dense_shape[1:]))


def _within(offsets: Tensor, numbers: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Return the positions of the values of some rows, and the offsets of these rows alone.

    Args:
        offsets: Offsets of all rows. Those that were not validated are cut to the values.
        numbers: Numbers of the rows, int64 ``[n]``.
        total: Number of values.
    """
    bounds = offsets.long().clamp(0, total)
    numbers = numbers.to(offsets.device)
    begins = bounds[numbers]
    lengths = (bounds[numbers + 1] - begins).clamp(min=0)
    ends = lengths.cumsum(0)
    shifts = torch.repeat_interleave(begins - ends + lengths, lengths)
    taken = torch.arange(len(shifts), device=offsets.device) + shifts
    return taken, torch.cat((ends.new_zeros(1), ends)).to(offsets.dtype)
