"""Orders of record numbers: permutations, uniform, repeatable, and evaluated anywhere."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io.order.shuffle import Shuffle, check_shuffle, records_at

Numbers = npt.NDArray[np.int64]

sizes = st.one_of(st.integers(1, 40), st.integers(1, 3000))
shuffles = st.one_of(st.booleans(), st.integers(1, 3500))
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 2**40)


def whole_order(size: int, shuffle: Shuffle, seed: int = 0, epoch: int = 0) -> Numbers:
    return records_at(np.arange(size), size, shuffle, seed, epoch)


def chi_square_is_plausible(counts: npt.NDArray[np.int64], free: int | None = None) -> bool:
    """Whether counts of equally likely outcomes are as even as chance makes them, and no more."""
    expected = counts.sum() / counts.size
    statistic = float(((counts - expected) ** 2 / expected).sum())
    free = counts.size - 1 if free is None else free
    return abs(statistic - free) < 4 * math.sqrt(2 * free)


@given(sizes, shuffles, seeds, epochs)
def test_every_order_is_a_permutation(size: int, shuffle: Shuffle, seed: int, epoch: int) -> None:
    order = whole_order(size, shuffle, seed, epoch)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(size))


@given(sizes, shuffles, seeds, epochs, st.data())
def test_any_position_can_be_asked_for_alone(
    size: int, shuffle: Shuffle, seed: int, epoch: int, data: st.DataObject
) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=30)), np.int64)
    order = whole_order(size, shuffle, seed, epoch)
    assert np.array_equal(records_at(positions, size, shuffle, seed, epoch), order[positions])


def test_without_shuffle_the_order_is_that_of_the_files() -> None:
    for seed, epoch in ((0, 0), (1, 5)):
        assert np.array_equal(whole_order(50, False, seed, epoch), np.arange(50))


@pytest.mark.parametrize("shuffle", [True, 64])
def test_seeds_and_epochs_each_make_another_order(shuffle: Shuffle) -> None:
    orders = [
        tuple(whole_order(200, shuffle, seed, epoch).tolist())
        for seed in (-1, 0, 1, 2, 2**63, 2**64)
        for epoch in (0, 1, 2, 2**33)
    ]
    assert len(set(orders)) == len(orders)


def test_orders_stay_what_they_are_from_release_to_release() -> None:
    # A run that is resumed by a newer release must go on in the order it began with.
    assert whole_order(12, True, 0, 0).tolist() == [6, 1, 0, 9, 3, 11, 10, 5, 8, 2, 7, 4]
    assert whole_order(12, 4, 3, 1).tolist() == [2, 1, 0, 4, 5, 6, 7, 3, 10, 8, 9, 11]
    assert records_at(np.array([0, 10**9]), 10**10, True, 7, 2).tolist() == [461873953, 7222186495]


# ---- uniform ----


def test_every_permutation_is_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(12_000):
        order = tuple(whole_order(5, True, seed).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == math.factorial(5)
    assert chi_square_is_plausible(np.array(list(counts.values())))


@pytest.mark.parametrize("size", [17, 100, 256])
@pytest.mark.parametrize("by", ["seed", "epoch"])
def test_every_record_comes_equally_often_at_every_position(size: int, by: str) -> None:
    counts = np.zeros((size, size), np.int64)
    for number in range(3000):
        order = whole_order(size, True, **{by: number})
        counts[np.arange(size), order] += 1
    # Rows and columns have fixed sums.
    assert chi_square_is_plausible(counts, (size - 1) ** 2)


def test_neighbours_are_independent() -> None:
    size, bins = 1000, 10
    counts = np.zeros((bins, bins), np.int64)
    for seed in range(300):
        place = whole_order(size, True, seed) * bins // size
        np.add.at(counts, (place[:-1:2], place[1::2]), 1)
    assert chi_square_is_plausible(counts)


def test_consecutive_epochs_are_independent() -> None:
    size, bins = 1000, 10
    counts = np.zeros((bins, bins), np.int64)
    for epoch in range(300):
        first = whole_order(size, True, 0, 2 * epoch) * bins // size
        second = whole_order(size, True, 0, 2 * epoch + 1) * bins // size
        np.add.at(counts, (first, second), 1)
    assert chi_square_is_plausible(counts, (bins - 1) ** 2)


# ---- window ----


@given(st.integers(1, 3000), st.integers(1, 3500), seeds, epochs)
def test_a_window_bounds_how_far_a_record_moves(
    size: int, window: int, seed: int, epoch: int
) -> None:
    moved = np.abs(whole_order(size, window, seed, epoch) - np.arange(size))
    if window < size:
        assert moved.max() <= window


@pytest.mark.parametrize("window", [8, 100, 1000])
def test_a_window_uses_most_of_its_width(window: int) -> None:
    size = 40 * window
    moved = np.abs(whole_order(size, window, 5) - np.arange(size))
    assert moved.max() > 0.7 * window
    # One uniform shuffle of half a window would move records by a sixth of it.
    assert moved.mean() > window / 6


def test_records_cross_every_place_of_a_window() -> None:
    size, window = 4000, 40
    crossed = np.zeros(size - 1, bool)
    for seed in range(50):
        order = whole_order(size, window, seed)
        # Records before place p and after it change sides unless the first p are those below p.
        crossed |= np.maximum.accumulate(order)[:-1] > np.arange(size - 1)
    assert crossed.all()


def test_a_window_of_one_is_no_shuffle() -> None:
    assert np.array_equal(whole_order(100, 1), np.arange(100))


@pytest.mark.parametrize("window", [50, 51, 10**12])
def test_a_window_of_all_records_is_the_uniform_shuffle(window: int) -> None:
    assert np.array_equal(whole_order(50, window, 3, 1), whole_order(50, True, 3, 1))


# ---- many records ----


@pytest.mark.parametrize("shuffle", [False, True, 10**6])
def test_ten_thousand_million_records(shuffle: Shuffle) -> None:
    size = 10**10
    positions = np.random.default_rng(0).integers(0, size, 50_000)
    positions = np.unique(np.concatenate((positions, [0, 1, size - 2, size - 1])))
    started = time.perf_counter()
    records = records_at(positions, size, shuffle, 1, 2)
    assert time.perf_counter() - started < 10
    assert records.min() >= 0
    assert records.max() < size
    assert len(np.unique(records)) == len(positions)
    if shuffle is True:
        counts = np.bincount(records * 20 // size, minlength=20)
        assert chi_square_is_plausible(counts)
    else:
        assert np.abs(records - positions).max() <= int(shuffle)


# ---- arguments ----


@pytest.mark.parametrize("flag", [False, True])
def test_a_flag_of_numpy_is_a_flag(flag: bool) -> None:
    check_shuffle(np.bool_(flag))  # type: ignore[arg-type]
    order = whole_order(50, np.bool_(flag), 1)  # type: ignore[arg-type]
    assert np.array_equal(order, whole_order(50, flag, 1))


def test_a_window_of_numpy_is_a_window() -> None:
    check_shuffle(np.int32(7))  # type: ignore[arg-type]
    order = whole_order(50, np.int32(7), 1)  # type: ignore[arg-type]
    assert np.array_equal(order, whole_order(50, 7, 1))


@pytest.mark.parametrize("good", [False, True, 1, 2, 10**18])
def test_flags_and_windows_are_taken(good: Any) -> None:
    check_shuffle(good)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "yes", None])
def test_other_shuffles_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="shuffle must be"):
        check_shuffle(bad)


@pytest.mark.parametrize("shuffle", [True, 3])
@pytest.mark.parametrize("position", [-1, 10, 2**62])
def test_positions_outside_the_order_are_refused(shuffle: Shuffle, position: int) -> None:
    with pytest.raises(IndexError):
        records_at(np.array([0, position]), 10, shuffle, 0, 0)


@pytest.mark.parametrize("shuffle", [False, True, 3])
def test_no_positions_are_fine_where_there_are_no_records(shuffle: Shuffle) -> None:
    assert len(records_at(np.empty(0, np.int64), 0, shuffle, 0, 0)) == 0
