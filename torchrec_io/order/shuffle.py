"""Orders of record numbers, evaluated where they are asked for and stored nowhere."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core

# False: as stored. True: a uniform permutation of all records. n: a window of n records.
Shuffle: TypeAlias = bool | int


def check_shuffle(shuffle: Shuffle) -> None:
    """Raises ValueError unless ``shuffle`` is False, True or a positive window."""
    if isinstance(shuffle, (bool, np.bool_)):
        return
    if not isinstance(shuffle, (int, np.integer)) or shuffle < 1:
        raise ValueError(f"shuffle must be False, True or a window of at least 1, not {shuffle!r}")


def records_at(
    positions: npt.NDArray[np.int64], size: int, shuffle: Shuffle, seed: int, epoch: int
) -> npt.NDArray[np.int64]:
    """Record numbers at positions of an epoch's order.

    Args:
        positions: int64 ``[n]``, each in ``0..size-1``.
        size: How many records there are.
        shuffle: ``False``, ``True`` or a window; see :data:`Shuffle`.
        seed: Any integer.
        epoch: Another epoch is another order, unless ``shuffle`` is False.

    Returns:
        int64 ``[n]``. Over all positions it is a permutation of ``0..size-1``.
    """
    is_flag = isinstance(shuffle, (bool, np.bool_))
    if len(positions) == 0 or (is_flag and not shuffle):
        return positions
    key = _key(seed, epoch)
    if is_flag:
        return _core.permute(positions, size, key)
    return _core.window_permute(positions, size, int(shuffle), key)


def _key(seed: int, epoch: int) -> int:
    digest = hashlib.blake2b(f"{int(seed)}:{int(epoch)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
