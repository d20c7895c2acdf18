"""Shuffles of record numbers, computed for the positions that are asked for and stored nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..checks import is_integer
from ..storage.digest import digest_number


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """A shuffle of whole blocks of records, for storage with slow random access.

    Records are divided into blocks of consecutive records, and the blocks are put into a uniform
    random order. That sequence is cut into windows, and the records of each window are permuted
    uniformly. So a window reads few blocks, each of them whole, and mixes records from anywhere in
    the dataset.

    Attributes:
        block: Number of records in a block; the last block may have fewer.
        window: Number of records in a window, from about ``window / block`` blocks.

    Raises:
        ValueError: If one of the two is not a positive integer.
    """

    block: int
    window: int

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
            object.__setattr__(self, name, int(value))  # states hold plain integers, not NumPy's


# False: as stored. True: a uniform permutation of all records. n: a window of n records.
ShuffleChoice: TypeAlias = bool | int | Shuffle


def check_shuffle(shuffle: ShuffleChoice) -> None:
    """Raise ValueError unless ``shuffle`` is a bool, a positive window or a Shuffle."""
    if isinstance(shuffle, (bool, np.bool_, Shuffle)) or (is_integer(shuffle) and shuffle >= 1):
        return
    raise ValueError(
        "shuffle must be False, True, the size of a window (a positive integer) or a "
        f"Shuffle(block=..., window=...), got {shuffle!r}"
    )


def is_shuffled(shuffle: ShuffleChoice) -> bool:
    """Return whether a choice changes the order of records."""
    return not (isinstance(shuffle, (bool, np.bool_)) and not shuffle)


def check_seed(seed: int) -> int:
    """Return a seed, which may be any integer, as an int."""
    if not is_integer(seed):
        raise ValueError(f"seed must be an integer, got {seed!r}")
    return int(seed)


def records_at(
    positions: npt.NDArray[np.int64], size: int, shuffle: ShuffleChoice, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Return the record numbers at positions of an epoch's order.

    Args:
        positions: int64 ``[n]``, each in ``0..size-1``.
        size: Number of records.
        shuffle: ``False``, ``True``, the size of a window, or a :class:`Shuffle`.
        seed: Any integer.
        epoch: Number of the epoch. Each epoch has its own order, unless ``shuffle`` is False.

    Returns:
        int64 ``[n]``. Over all positions it is a permutation of ``0..size-1``.

    Raises:
        IndexError: If a position is not in ``0..size-1`` and the records are shuffled.
    """
    if len(positions) == 0 or not is_shuffled(shuffle):
        return positions
    key = digest_number(f"{int(seed)}:{int(epoch)}")
    if isinstance(shuffle, (bool, np.bool_)):
        return _core.permute(positions, size, key)
    # Sizes are limited to the number of records: larger ones may not fit the core's integers.
    if isinstance(shuffle, Shuffle):
        block, window = min(shuffle.block, size), min(shuffle.window, size)
        return _core.block_permute(positions, size, block, window, key)
    return _core.window_permute(positions, size, min(int(shuffle), size), key)
