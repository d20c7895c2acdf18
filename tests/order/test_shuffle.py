"""Orders of record numbers: repeatable permutations with random access."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import chi_square_is_plausible, whole_order
from torchrec_io._order.shuffle import Shuffle, ShuffleChoice, records_at

sizes = st.one_of(st.integers(1, 40), st.integers(1, 3000))
counts = st.one_of(st.integers(1, 50), st.integers(1, 3500))
lane_counts = st.one_of(st.none(), st.integers(1, 40), st.integers(1, 5000))
block_shuffles = st.builds(Shuffle, block=counts, window=counts, lanes=lane_counts)
shuffles = st.one_of(st.booleans(), st.integers(1, 3500), block_shuffles)
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 2**40)


@given(sizes, shuffles, seeds, epochs)
def test_every_order_is_a_permutation(
    size: int, shuffle: ShuffleChoice, seed: int, epoch: int
) -> None:
    order = whole_order(size, shuffle, seed, epoch)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(size))


@given(sizes, shuffles, seeds, epochs, st.data())
def test_single_positions(
    size: int, shuffle: ShuffleChoice, seed: int, epoch: int, data: st.DataObject
) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=30)), np.int64)
    order = whole_order(size, shuffle, seed, epoch)
    assert np.array_equal(records_at(positions, size, shuffle, seed, epoch), order[positions])


@pytest.mark.parametrize(
    "shuffle",
    [True, 64, Shuffle(block=10, window=30), Shuffle(block=10, window=30, lanes=4)],
    ids=str,
)
def test_seeds_and_epochs_have_different_orders(shuffle: ShuffleChoice) -> None:
    orders = [
        tuple(whole_order(200, shuffle, seed, epoch).tolist())
        for seed in (-1, 0, 1, 2, 2**63, 2**64)
        for epoch in (0, 1, 2, 2**33)
    ]
    assert len(set(orders)) == len(orders)


def test_orders_are_stable_between_releases() -> None:
    # A run that is resumed by a newer release must go on in the order it began with. Orders of
    # blocks and lanes of small files are in tests/contract.
    assert whole_order(12, True, 0, 0).tolist() == [6, 1, 0, 9, 3, 11, 10, 5, 8, 2, 7, 4]
    assert whole_order(12, 4, 3, 1).tolist() == [2, 1, 0, 4, 5, 6, 7, 3, 10, 8, 9, 11]
    far = np.array([0, 10**9])
    assert records_at(far, 10**10, True, 7, 2).tolist() == [461873953, 7222186495]
    for lanes, expected in ((None, [5169650960, 3413394946]), (64, [5600317006, 9533243752])):
        large = Shuffle(block=1000, window=16_000, lanes=lanes)
        assert records_at(far, 10**10 + 7, large, 7, 2).tolist() == expected


# ---- window ----


@given(st.integers(1, 3000), st.integers(1, 3500), seeds, epochs)
def test_window_limits_the_distance_of_a_record(
    size: int, window: int, seed: int, epoch: int
) -> None:
    moved = np.abs(whole_order(size, window, seed, epoch) - np.arange(size))
    if window < size:
        assert moved.max() <= window


@pytest.mark.parametrize("window", [50, 51, 10**12])
def test_window_of_all_records_is_a_uniform_shuffle(window: int) -> None:
    assert np.array_equal(whole_order(50, window, 3, 1), whole_order(50, True, 3, 1))


# ---- blocks ----


@given(sizes, counts, counts, seeds, epochs)
def test_blocks_are_permuted_and_then_windows_are_shuffled(
    size: int, block: int, window: int, seed: int, epoch: int
) -> None:
    # Windows of one record do not shuffle, so they show the order of blocks.
    row = whole_order(size, Shuffle(block=block, window=1), seed, epoch)
    begins = np.flatnonzero(row % block == 0)
    assert np.array_equal(np.sort(row[begins]), np.arange(0, size, block))
    for piece in np.split(row, begins[1:]):
        first = int(piece[0])
        assert piece.tolist() == list(range(first, min(first + block, size)))
    order = whole_order(size, Shuffle(block=block, window=window), seed, epoch)
    for begin in range(0, size, window):
        mixed, plain = order[begin : begin + window], row[begin : begin + window]
        assert np.array_equal(np.sort(mixed), np.sort(plain))


# ---- many records ----


@pytest.mark.parametrize(
    "shuffle",
    [
        False,
        True,
        10**6,
        Shuffle(block=1000, window=16_000),
        Shuffle(block=1000, window=16_000, lanes=64),
    ],
)
def test_ten_thousand_million_records(shuffle: ShuffleChoice) -> None:
    size = 10**10
    positions = np.random.default_rng(0).integers(0, size, 50_000)
    positions = np.unique(np.concatenate((positions, [0, 1, size - 2, size - 1])))
    records = records_at(positions, size, shuffle, 1, 2)
    assert records.min() >= 0
    assert records.max() < size
    assert len(np.unique(records)) == len(positions)
    if shuffle is True or isinstance(shuffle, Shuffle):
        assert chi_square_is_plausible(np.bincount(records * 20 // size, minlength=20))
    else:
        assert np.abs(records - positions).max() <= int(shuffle)


# ---- arguments ----


def test_numpy_blocks_and_windows_become_plain_integers() -> None:
    shuffle = Shuffle(block=np.int64(3), window=np.int32(5))  # type: ignore[arg-type]
    assert repr(shuffle) == "Shuffle(block=3, window=5)"
    lanes: Any = np.int64(4)
    assert str(Shuffle(block=3, window=5, lanes=lanes)) == "Shuffle(block=3, window=5, lanes=4)"
    assert pickle.loads(pickle.dumps(shuffle)) == shuffle == Shuffle(block=3, window=5)


def test_invalid_blocks_and_windows_are_rejected() -> None:
    sizes: list[Any] = [0, -1, 1.5, "yes", None, True, np.bool_(True)]
    for name, bad in itertools.product(("block", "window"), sizes):
        with pytest.raises(ValueError, match=f"^{name} must be a positive integer, got"):
            Shuffle(**{"block": 2, "window": 2, name: bad})


@pytest.mark.parametrize(
    "shuffle", [True, 3, Shuffle(block=2, window=3), Shuffle(block=2, window=3, lanes=2)], ids=str
)
def test_positions_outside_the_order_are_rejected(shuffle: ShuffleChoice) -> None:
    for position in (-1, 10, 2**62):
        with pytest.raises(IndexError):
            records_at(np.array([0, position]), 10, shuffle, 0, 0)
