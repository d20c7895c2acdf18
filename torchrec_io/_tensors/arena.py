"""Allocation of arenas, and the error for a batch that does not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .. import _core
from .._parsing.layout import Column, names_of
from ..checks import counted

# Function that allocates an arena of a number of bytes: uint8, aligned to 64 bytes.
Allocate: TypeAlias = Callable[[int], Tensor]

# More than the address space of any machine.
_MOST_BYTES = 1 << 62


def allocate_arena(size: int) -> Tensor:
    """Allocate an arena aligned to 64 bytes. Its memory is reused once it has no views left."""
    return torch.from_numpy(_core.allocate(size))


def allocate_for(
    size: int, columns: Sequence[Column], records: int, allocate: Allocate = allocate_arena
) -> Tensor:
    """Allocate the arena of a batch.

    Args:
        size: Size of the arena in bytes.
        columns: Columns of the batch.
        records: Number of records in the batch.
        allocate: Function that allocates the arena. Default: ordinary memory.

    Raises:
        MemoryError: If there is not enough memory. The message names the largest column.
    """
    try:
        if size <= _MOST_BYTES:
            return allocate(size)
    except MemoryError:
        pass
    reason = f"not enough memory for a batch of {counted(records, 'record')}"
    reason += f", which needs {_describe_size(size)}"
    if columns:
        largest = max(columns, key=_size_of_one)
        # The lengths of a padded column are a column with a hidden name.
        name = names_of(largest)[0].partition("\0")[0]
        reason += f"; its column {name!r} needs {_describe_size(_size_of_one(largest))} of that"
    raise MemoryError(f"{reason}: use a smaller batch_size, or shorter rows of padded columns")


def _size_of_one(column: Column) -> int:
    return column.size // len(names_of(column))


def _describe_size(size: int) -> str:
    power = min(6, max(1, (size.bit_length() - 1) // 10))
    return f"{counted(size, 'byte')} ({size / 1024**power:.1f} {'KMGTPE'[power - 1]}iB)"
