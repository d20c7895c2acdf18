"""Helpers for tests of orders: whole orders, and tests of their randomness."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from torchrec_io.order.shuffle import ShuffleChoice, records_at

Numbers = npt.NDArray[np.int64]


def whole_order(size: int, shuffle: ShuffleChoice, seed: int = 0, epoch: int = 0) -> Numbers:
    """The record at every position of an epoch."""
    return records_at(np.arange(size), size, shuffle, seed, epoch)


def chi_square_is_plausible(
    counts: Numbers, free: int | None = None, shares: npt.NDArray[np.float64] | None = None
) -> bool:
    """Whether counts are as near to what is expected as chance makes them, and no nearer.

    Args:
        counts: How often each outcome came.
        free: Degrees of freedom, if the counts have more than their sum fixed.
        shares: The outcomes' probabilities; equal ones if not given.
    """
    expected = counts.sum() * (1 / counts.size if shares is None else shares)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    free = counts.size - 1 if free is None else free
    return abs(statistic - free) < 4 * math.sqrt(2 * free)
