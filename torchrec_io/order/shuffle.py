"""Orders of record numbers, evaluated where they are asked for and stored nowhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    """A shuffle by whole blocks, for storage where reading here and there is dear.

    The records are cut into blocks of consecutive ones, and the blocks are put in a uniform random
    order. What then follows each other is cut into windows, and each window is permuted uniformly.
    So a window reads few blocks, each of them whole, and mixes what may come from anywhere.

    Attributes:
        block: Records in a block, at least 1; the last block may have fewer.
        window: Records in a window, at least 1; of about ``window / block`` blocks.

    Raises:
        ValueError: one of the two is not an integer of at least 1.
    """

    block: int
    window: int

    def __post_init__(self) -> None:
        for name in ("block", "window"):
            value = getattr(self, name)
            if not _is_count(value):
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
            object.__setattr__(self, name, int(value))  # NumPy's integers make no good state


# False: as stored. True: a uniform permutation of all records. n: a window of n records.
ShuffleChoice: TypeAlias = bool | int | Shuffle


def check_shuffle(shuffle: ShuffleChoice) -> None:
    """Raises ValueError unless ``shuffle`` is False, True, a positive window or a Shuffle."""
    if not isinstance(shuffle, (bool, np.bool_, Shuffle)) and not _is_count(shuffle):
        raise ValueError(
            "shuffle must be False, True or a window of at least 1, or a Shuffle(block=, window=), "
            f"not {shuffle!r}"
        )


def checked_seed(seed: int) -> int:
    """The seed as Python's int; ValueError if it is no whole number."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ValueError(f"seed must be a whole number, not {seed!r}")  # noqa: TRY004
    return int(seed)


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return bool(value >= 1)


def records_at(
    positions: npt.NDArray[np.int64], size: int, shuffle: ShuffleChoice, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Record numbers at positions of an epoch's order.

    Args:
        positions: int64 ``[n]``, each in ``0..size-1``.
        size: How many records there are.
        shuffle: ``False``, ``True``, a window or a :class:`Shuffle`; see :data:`ShuffleChoice`.
        seed: Any integer.
        epoch: Another epoch is another order, unless ``shuffle`` is False.

    Returns:
        int64 ``[n]``. Over all positions it is a permutation of ``0..size-1``.

    Raises:
        IndexError: a position is not in ``0..size-1``, and there is a shuffle.
    """
    is_flag = isinstance(shuffle, (bool, np.bool_))
    if len(positions) == 0 or (is_flag and not shuffle):
        return positions
    key = _key(seed, epoch)
    if is_flag:
        return _core.permute(positions, size, key)
    # What is larger than all there is may be larger than the core's integers, too.
    if isinstance(shuffle, Shuffle):
        block, window = min(shuffle.block, size), min(shuffle.window, size)
        return _core.block_permute(positions, size, block, window, key)
    return _core.window_permute(positions, size, min(int(shuffle), size), key)


def _key(seed: int, epoch: int) -> int:
    digest = hashlib.blake2b(f"{int(seed)}:{int(epoch)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
