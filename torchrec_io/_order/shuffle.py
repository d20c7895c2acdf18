"""Shuffles of record numbers, computed for the requested positions and never stored."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number
from ..checks import check_integer, is_integer

# More lanes than this would have no use: each needs a process, or memory for a window.
MOST_LANES = 1 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle:
    """A shuffle of whole blocks of records, for storage with slow random access.

    Records are divided into blocks of consecutive records, and the blocks are put into a uniform
    random order. That sequence is cut into windows, and the records of each window are permuted
    uniformly. So a window reads few blocks, each of them whole, and mixes records from anywhere in
    the dataset.

    With ``lanes``, each rank reads a part of the blocks instead of all of them. The blocks are
    assigned to lanes, and the windows of each lane are permuted apart. Every global batch takes
    equally many records of each lane, and a rank owns ``lanes / world_size`` lanes. See
    docs/order.md.

    Attributes:
        block: Number of records in a block; the last block may have fewer.
        window: Number of records in a window, from about ``window / block`` blocks. With lanes,
            the number of records in a window of each lane.
        lanes: Number of lanes. It must be a multiple of the number of ranks, and the global batch
            (``world_size * batch_size``) a multiple of it. ``None`` does not divide the blocks.

    Raises:
        ValueError: If ``block`` or ``window`` is not a positive integer, or ``lanes`` is not an
            integer from 1 to 1,048,576 or None.
    """

    block: int
    window: int
    lanes: int | None = None

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
            object.__setattr__(self, name, int(value))  # states hold plain integers, not NumPy's
        if self.lanes is not None:
            object.__setattr__(self, "lanes", check_integer("lanes", self.lanes, 1, MOST_LANES))

    def __repr__(self) -> str:
        # Saved states hold it, also those of releases without lanes.
        lanes = "" if self.lanes is None else f", lanes={self.lanes}"
        return f"Shuffle(block={self.block}, window={self.window}{lanes})"


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


def lanes_of(shuffle: ShuffleChoice) -> int | None:
    """Return the number of lanes of a shuffle; None without lanes."""
    return shuffle.lanes if isinstance(shuffle, Shuffle) else None


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
    key = _key_of(int(seed), int(epoch))
    if isinstance(shuffle, (bool, np.bool_)):
        return _core.permute(positions, size, key)
    # Sizes are limited to the number of records: larger ones may not fit the core's integers.
    if isinstance(shuffle, Shuffle):
        block, window = min(shuffle.block, size), min(shuffle.window, size)
        if shuffle.lanes is not None:
            return _core.lane_permute(positions, size, block, window, shuffle.lanes, key)
        return _core.block_permute(positions, size, block, window, key)
    return _core.window_permute(positions, size, min(int(shuffle), size), key)


def positions_of(numbers: npt.NDArray[np.int64], size: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of records in the first epoch of a uniform shuffle.

    Args:
        numbers: Record numbers; int64 ``[n]``, each in ``0..size-1``.
        size: Number of records.
        seed: Any integer.

    Returns:
        int64 ``[n]``: ``records_at(positions, size, True, seed, 0)`` are the numbers.

    Raises:
        IndexError: If a number is not in ``0..size-1``.
    """
    if len(numbers) == 0:
        return numbers
    return _core.inverse_permute(numbers, size, _key_of(int(seed), 0))


@functools.lru_cache(maxsize=64)
def _key_of(seed: int, epoch: int) -> int:
    return digest_number(f"{seed}:{epoch}")
