"""Mixtures of orders, compared with a simple sequential model."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import Numbers, chi_square_is_plausible
from torchrec_io import _core
from torchrec_io._order import mixture as mixed
from torchrec_io._order.mixture import CELL, STOP_CHOICES, MixedOrder, Stop, cell_counts
from torchrec_io._order.orders import ENDLESS, PositionOrder
from torchrec_io._order.selection import Mask
from torchrec_io._order.shuffle import records_at

weight_lists = st.lists(st.one_of(st.integers(1, 9), st.floats(1e-3, 1e3)), min_size=1, max_size=4)
stops = st.sampled_from(STOP_CHOICES)
seeds = st.integers(-(2**70), 2**70)


@dataclass(frozen=True)
class Shuffled(PositionOrder):
    """A uniform order of records ``0..size-1``."""

    size: int
    seed: int = 0

    def __len__(self) -> int:
        return self.size

    def contains(self, numbers: Numbers) -> Mask:
        return (numbers >= 0) & (numbers < self.size)

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        return records_at(positions, self.size, True, self.seed, epoch)

    def describe(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def mix_of(
    sizes: Sequence[int], weights: Sequence[float], seed: int = 0, stop: Stop = "all_exhausted"
) -> MixedOrder:
    """Return a mixture of shuffled parts, whose records are numbered consecutively."""
    parts = [Shuffled(size, number) for number, size in enumerate(sizes)]
    bases = [sum(sizes[:number]) for number in range(len(sizes))]
    return MixedOrder(parts, weights, seed, stop, bases=bases)


def whole(mix: MixedOrder, epoch: int = 0) -> list[int]:
    records: list[int] = mix.at(np.arange(len(mix)), epoch).tolist()
    return records


# ---- the model ----


def model_choices(weights: Sequence[float], name: str) -> Iterator[int]:
    """Yield the chosen parts forever, for cells of size ``mixed.CELL``."""
    cards = [part for part, count in enumerate(cell_counts(weights)) for _ in range(count)]
    for cell in itertools.count():
        digest = hashlib.blake2b(f"{name}:{cell}".encode(), digest_size=8).digest()
        key = int.from_bytes(digest, "little")
        for place in _core.permute(np.arange(len(cards)), len(cards), key).tolist():
            yield cards[place]


def model(
    sizes: Sequence[int], weights: Sequence[float], seed: int, stop: Stop
) -> Iterator[tuple[int, int]]:
    """Yield (part, number of earlier choices of the part) for each position."""
    taken = [0] * len(sizes)
    alive = [part for part, size in enumerate(sizes) if size > 0 or stop != "all_exhausted"]
    for phase in itertools.count():
        if not alive:
            return
        for choice in model_choices([weights[part] for part in alive], f"mix:{seed}:{phase}"):
            part = alive[choice]
            if stop != "endless" and taken[part] == sizes[part]:
                break
            yield part, taken[part]
            taken[part] += 1
        if stop == "first_exhausted":
            return
        alive = [part for part in alive if taken[part] < sizes[part]]


@given(weight_lists, seeds, stops, st.sampled_from([2, 3, 5]), st.data())
def test_mixtures_match_the_model(
    weights: list[float], seed: int, stop: Stop, cell_bits: int, data: st.DataObject
) -> None:
    count = len(weights)
    epoch = data.draw(st.integers(0, 2**40))
    least = 1 if stop == "endless" else 0
    sizes = data.draw(st.lists(st.integers(least, 60), min_size=count, max_size=count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "CELL_BITS", cell_bits)
        patch.setattr(mixed, "CELL", 2**cell_bits)
        mix = mix_of(sizes, weights, seed, stop)
        expected = list(itertools.islice(model(sizes, weights, seed, stop), 400))
        size = len(expected)
        assert len(mix) == (ENDLESS if stop == "endless" else size)
        chosen, turns = mix.choices(np.arange(size))
        assert list(zip(chosen.tolist(), turns.tolist(), strict=True)) == expected
        # Compare the records at positions in any order.
        positions = data.draw(
            st.lists(st.integers(0, max(0, size - 1)), max_size=30 if size else 0)
        )
        records = mix.at(np.array(positions, np.int64), epoch)
        assert records.dtype == np.int64
        for position, record in zip(positions, records.tolist(), strict=True):
            part, turn = expected[position]
            cycle, turn = divmod(turn, sizes[part])
            [own] = Shuffled(sizes[part], part).at(np.array([turn]), epoch + cycle).tolist()
            assert record == sum(sizes[:part]) + own


@pytest.mark.parametrize("stop", STOP_CHOICES)
def test_cells_of_full_size_match_the_model(stop: Stop) -> None:
    sizes, weights = [90_000, 70_000, 12_345], [0.5, 0.3, 0.2]
    mix = mix_of(sizes, weights, 3, stop)
    expected = list(itertools.islice(model(sizes, weights, 3, stop), 200_000))
    assert len(mix) == {"all_exhausted": sum(sizes), "endless": ENDLESS}.get(stop, len(expected))
    chosen, turns = mix.choices(np.arange(len(expected)))
    assert np.array_equal(np.stack((chosen, turns), 1), np.array(expected))
    positions = np.random.default_rng(0).permutation(len(expected))
    assert np.array_equal(mix.at(positions, 1), mix.at(np.arange(len(expected)), 1)[positions])


def test_mixtures_are_stable_between_releases() -> None:
    # A run that is resumed by a newer release must go on in the order it began with.
    mix = mix_of([4, 6, 3], [0.5, 0.3, 0.2], 7)
    assert whole(mix) == [10, 9, 3, 1, 12, 11, 0, 2, 7, 6, 4, 5, 8]
    endless = mix_of([4, 6, 3], [0.5, 0.3, 0.2], 7, "endless")
    far = np.array([0, 1, CELL, ENDLESS - 1])
    assert endless.at(far, 2).tolist() == [11, 7, 2, 12]


# ---- guarantees ----


def test_parts_are_chosen_by_their_weights() -> None:
    weights = [0.62, 0.3, 0.05, 0.03]
    mix = mix_of([10] * 4, weights, 0, "endless")
    chosen, _ = mix.choices(np.arange(8 * CELL))
    assert np.abs(np.bincount(chosen) / len(chosen) - weights).max() < 1 / CELL
    for end in (100, 1000, 10_000, 100_000, 3 * CELL + 7):
        counts = np.bincount(chosen[:end], minlength=4)
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - weight * end) < 4 * math.sqrt(weight * (1 - weight) * end) + 1


def test_neighbouring_choices_are_independent() -> None:
    chosen, _ = mix_of([1, 1], [0.5, 0.5], 9, "endless").choices(np.arange(4 * CELL))
    pairs = np.bincount(chosen[:-1:2] * 2 + chosen[1::2], minlength=4)
    assert chi_square_is_plausible(pairs)


def test_cells_and_seeds_have_different_choices() -> None:
    def cell(seed: int, number: int) -> bytes:
        mix = mix_of([1, 1], [0.5, 0.5], seed, "endless")
        return mix.choices(np.arange(number * CELL, number * CELL + 64))[0].tobytes()

    cells = {cell(seed, number) for seed in (-1, 0, 1, 2**64) for number in (0, 1, 2, 2**40)}
    assert len(cells) == 16


def test_mixtures_of_mixtures() -> None:
    inner = mix_of([30, 40], [0.5, 0.5], 1)
    mix = MixedOrder([inner, Shuffled(30)], [0.5, 0.5], 2, "all_exhausted", bases=[0, 70])
    assert sorted(whole(mix)) == list(range(100))


# ---- counts of a cell ----


@given(
    st.lists(
        st.one_of(st.floats(0.1, 10), st.floats(1e-300, 1e300), st.integers(1, 5)),
        min_size=1,
        max_size=40,
    )
)
def test_counts_of_a_cell_are_closest_to_the_weights(weights: list[float]) -> None:
    counts = cell_counts(weights)
    assert sum(counts) == CELL
    assert min(counts) >= 1
    whole = sum(map(Fraction, weights))
    shares = [Fraction(weight) / whole * CELL for weight in weights]
    if min(shares) >= 1:
        for count, share in zip(counts, shares, strict=True):
            assert abs(count - share) < 1
        lost = [share - count for count, share in zip(counts, shares, strict=True)]
        # Moving a choice to another part never reduces the error.
        assert max(lost) - min(lost) <= 1
