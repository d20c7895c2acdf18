"""Shuffles of record numbers, computed for the requested positions and never stored."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number
from ..checks import check_integer, is_integer
from .weighted import Weights

# More lanes than this would have no use: each needs a process, or memory for a window.
MOST_LANES = 1 << 20

_OF_BLOCKS = {"block", "window", "lanes"}


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle:
    """A shuffle of whole blocks of records, or draws of records by weight.

    With ``block`` and ``window``, for storage with slow random access: Records are divided into
    blocks of consecutive records, and the blocks are put into a uniform random order. That sequence
    is cut into windows, and the records of each window are permuted uniformly. So a window reads
    few blocks, each of them whole, and mixes records from anywhere in the dataset.

    With ``lanes``, each rank reads a part of the blocks instead of all of them. The blocks are
    assigned to lanes, and the windows of each lane are permuted apart. Every global batch takes
    equally many records of each lane, and a rank owns ``lanes / world_size`` lanes. See
    docs/order.md.

    With ``weights`` or ``balance``, each position of an epoch is a draw from all records. See
    docs/shuffling.md.

    Attributes:
        block: Number of records in a block; the last block may have fewer.
        window: Number of records in a window, from about ``window / block`` blocks. With lanes,
            the number of records in a window of each lane.
        lanes: Number of lanes. It must be a multiple of the number of ranks, and the global batch
            (``world_size * batch_size``) a multiple of it. ``None`` does not divide the blocks.
        weights: Weight of each record: numbers ``[N]``, one for each record of the files (for a
            dataset of steps, of each step); the name of a feature with a number in each record; or
            a function that is called with a :class:`Batch` and returns float ``[B]``. Weights of
            any sum; a record of weight 0 is never drawn. Names and functions are evaluated in one
            pass over the data when the dataset is created.
        balance: Name of a feature with the class of each record, an integer or a string. Each class
            is drawn with equal probability, and so is each record of a class.
        num_samples: Number of draws in an epoch. By default the number of records; without
            replacement, of those with a positive weight.
        replacement: Whether a record can be drawn several times in an epoch.
        features: Names of the features that a function needs; ``None`` for all.
        cache_key: Name of the result of the pass in the user's cache directory, for later runs and
            other ranks, as in :meth:`TFRecordDataset.where`. ``None`` caches nothing.

    Raises:
        ValueError: If ``block``, ``window`` or ``num_samples`` is not a positive integer, ``lanes``
            is not an integer from 1 to 1,048,576 or None, a weight is negative or not finite, or
            arguments contradict each other. Weights that do not fit the records of a dataset, or
            are all 0 there, raise one when the dataset is created.
        TypeError: If nothing is given, ``balance`` is not a str, or ``replacement`` not a bool.
    """

    block: int | None = None
    window: int | None = None
    lanes: int | None = None
    weights: Any = None
    balance: str | None = None
    num_samples: int | None = None
    replacement: bool = True
    features: Sequence[str] | None = None
    cache_key: str | None = None

    def __post_init__(self) -> None:
        if self.is_weighted:
            self._check_draws()
            return
        given = self._given
        if not given:
            raise TypeError("Shuffle needs block and window, or weights, or balance")
        if of_draws := given.keys() - _OF_BLOCKS:
            raise ValueError(f"{min(of_draws)} needs weights or balance")
        for name in ("block", "window"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
            object.__setattr__(self, name, int(value))  # states hold plain integers, not NumPy's
        if self.lanes is not None:
            object.__setattr__(self, "lanes", check_integer("lanes", self.lanes, 1, MOST_LANES))

    def _check_draws(self) -> None:
        if of_blocks := self._given.keys() & _OF_BLOCKS:
            raise ValueError(
                f"{min(of_blocks)} must be None with weights or balance: records are drawn one by "
                "one, not in blocks"
            )
        if self.weights is not None and self.balance is not None:
            raise ValueError("weights and balance must not both be given")
        if self.balance is not None and not isinstance(self.balance, str):
            raise TypeError(f"balance must be the name of a feature, got {self.balance!r}")
        if not isinstance(self.replacement, (bool, np.bool_)):
            raise TypeError(f"replacement must be True or False, got {self.replacement!r}")
        object.__setattr__(self, "replacement", bool(self.replacement))
        if self.num_samples is not None:
            number = check_integer("num_samples", self.num_samples, 1)
            object.__setattr__(self, "num_samples", number)
        if self.features is not None and not callable(self.weights):
            raise ValueError("features needs weights=function")
        if self.needs_pass:
            return
        if self.cache_key is not None:
            raise ValueError("cache_key needs weights that are found in the records, or balance")
        if not isinstance(self.weights, Weights):
            object.__setattr__(self, "weights", Weights(self.weights))

    @property
    def is_weighted(self) -> bool:
        """True if records are drawn by weight."""
        return self.weights is not None or self.balance is not None

    @property
    def needs_pass(self) -> bool:
        """True if the weights have to be found in the records."""
        is_by_records = callable(self.weights) or isinstance(self.weights, str)
        return self.balance is not None or is_by_records

    @property
    def _given(self) -> dict[str, Any]:
        """The arguments that differ from their defaults."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return {name: value for name, value, default in values if value is not default}

    def __repr__(self) -> str:
        # Saved states hold it, also those of releases without lanes and weights.
        shown = [f"{name}={value!r}" for name, value in self._given.items()]
        return f"Shuffle({', '.join(shown)})"


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
        shuffle: ``False``, ``True``, the size of a window, or a :class:`Shuffle` of blocks.
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
        assert shuffle.block is not None
        assert shuffle.window is not None
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
