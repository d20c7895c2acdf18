"""Helpers for tests of orders: whole orders, and tests of their randomness."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import numpy.typing as npt

from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.shuffle import ShuffleChoice, records_at

Numbers = npt.NDArray[np.int64]

# The numbers of a record in two repetitions of an epoch that follow one another differ by this.
RECORD = 1 << 40


def whole_order(size: int, shuffle: ShuffleChoice, seed: int = 0, epoch: int = 0) -> Numbers:
    """Return the record at every position of an epoch."""
    return records_at(np.arange(size), size, shuffle, seed, epoch)


def chi_square_is_plausible(
    counts: Numbers, free: int | None = None, shares: npt.NDArray[np.float64] | None = None
) -> bool:
    """Return whether counts deviate from the expectation as much as random counts do, not less.

    Args:
        counts: Number of occurrences of each outcome.
        free: Degrees of freedom, if more than the sum of the counts is fixed.
        shares: Probabilities of the outcomes. Default: equal probabilities.
    """
    expected = counts.sum() * (1 / counts.size if shares is None else shares)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    free = counts.size - 1 if free is None else free
    return abs(statistic - free) < 4 * math.sqrt(2 * free)


def ranks_of(plan: EpochPlan) -> list[EpochPlan]:
    """Return the same plan for every rank."""
    return [dataclasses.replace(plan, rank=rank) for rank in range(plan.world_size)]


def batches_of(plan: EpochPlan) -> list[list[int]]:
    """Return a rank's batches in the order of DataLoader: one of each worker in turn."""
    workers = [
        [batch.tolist() for batch in dataclasses.replace(plan, worker=worker).batches()]
        for worker in range(plan.num_workers)
    ]
    turns = itertools.zip_longest(*workers)
    return [batch for turn in turns for batch in turn if batch is not None]
