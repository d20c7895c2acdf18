"""Orders are uniformly random: counts over many seeds compared with their expectation."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.orders import Numbers, chi_square_is_plausible, whole_order
from torchrec_io._order.shuffle import Shuffle, ShuffleChoice, records_at


def counts_at(position: int, size: int, shuffle: ShuffleChoice, seeds: int) -> Numbers:
    """Count how often each record comes at a position."""
    where = np.array([position])
    found = [int(records_at(where, size, shuffle, seed, 0)[0]) for seed in range(seeds)]
    return np.bincount(found, minlength=size)


# ---- uniform ----


def test_every_permutation_is_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(12_000):
        order = tuple(whole_order(5, True, seed).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == math.factorial(5)
    assert chi_square_is_plausible(np.array(list(counts.values())))


@pytest.mark.parametrize(("size", "by"), [(17, "epoch"), (100, "seed"), (256, "epoch")])
def test_every_record_is_uniform_over_positions(size: int, by: str) -> None:
    counts = np.zeros((size, size), np.int64)
    for number in range(3000):
        order = whole_order(size, True, **{by: number})
        counts[np.arange(size), order] += 1
    # Rows and columns have fixed sums.
    assert chi_square_is_plausible(counts, (size - 1) ** 2)


# ---- window ----


def window_shares(size: int, window: int, position: int) -> npt.NDArray[np.float64]:
    """Return the probability of each record at a position, after two uniform shuffles."""
    block = window // 2 + 1

    def blockmates(at: int, shift: int) -> range:
        begin = (at + shift) // block * block - shift
        return range(max(0, begin), min(size, begin + block))

    shares = np.zeros(size)
    near = blockmates(position, block // 2)
    for middle in near:
        far = blockmates(middle, 0)
        shares[far.start : far.stop] += 1 / (len(near) * len(far))
    return shares


@pytest.mark.parametrize("position", [0, 3, 33, 99])
def test_window_is_equivalent_to_two_uniform_shuffles(position: int) -> None:
    size, window, seeds = 100, 20, 8000
    counts = counts_at(position, size, window, seeds)
    shares = window_shares(size, window, position)
    assert not counts[shares == 0].any()
    assert chi_square_is_plausible(counts[shares > 0], shares=shares[shares > 0])


# ---- blocks ----


@pytest.mark.parametrize("shuffle", [True, 10, Shuffle(block=5, window=20)])
def test_epochs_are_independent(shuffle: ShuffleChoice) -> None:
    size = 20
    counts = np.zeros((size, size), np.int64)
    for epoch in range(12_000):
        first, second = (
            int(records_at(np.array([9]), size, shuffle, 5, number)[0])
            for number in (2 * epoch, 2 * epoch + 1)
        )
        counts[first, second] += 1
    shares = counts.sum(1, keepdims=True) * counts.sum(0, keepdims=True) / counts.sum() ** 2
    counts, shares = counts[shares > 0], shares[shares > 0]
    seen = math.isqrt(len(counts))
    assert chi_square_is_plausible(counts, (seen - 1) ** 2, shares)
