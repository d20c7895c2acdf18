"""Mixtures of orders, compared with a simple sequential model."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import RECORD, Numbers, chi_square_is_plausible
from torchrec_io import _core
from torchrec_io._order import choices as mixed
from torchrec_io._order.choices import CELL, cell_counts
from torchrec_io._order.mixture import STOP_CHOICES, MixedRecords, Stop, Weights
from torchrec_io._order.orders import ENDLESS, PositionOrder
from torchrec_io._order.selection import Mask
from torchrec_io._order.shuffle import records_at
from torchrec_io._records.repetitions import own_numbers

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
    sizes: Sequence[int],
    weights: Weights,
    seed: int = 0,
    stop: Stop = "each_once",
    repeat: Sequence[int] | None = None,
) -> MixedRecords:
    """Return a mixture of shuffled parts, whose records are numbered consecutively."""
    parts = [Shuffled(size, number) for number, size in enumerate(sizes)]
    bases = [sum(sizes[:number]) for number in range(len(sizes))]
    return MixedRecords(parts, weights, seed, stop, bases=bases, repeat=repeat)


def whole(mix: MixedRecords, epoch: int = 0) -> list[int]:
    """Return the own numbers of the records of an epoch."""
    records: list[int] = own_numbers(mix.at(np.arange(len(mix)), epoch)).tolist()
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
    sizes: Sequence[int],
    weights: Weights,
    seed: int,
    stop: Stop,
    *,
    repeat: Sequence[int] | None = None,
    begun: Sequence[int] | None = None,
    before: int = 0,
) -> Iterator[tuple[int, int]]:
    """Yield (part, number of earlier choices of the part) for each position.

    ``begun`` are the numbers of earlier choices of each part, and ``before`` that of all positions,
    if the parts continue after another mixture.
    """
    by_position = weights if isinstance(weights, Mapping) else {0: weights}
    taken = list(begun or [0] * len(sizes))
    cycles = repeat or [max(1, -(-n // max(1, size))) for n, size in zip(taken, sizes, strict=True)]
    limits = [size * times for size, times in zip(sizes, cycles, strict=True)]
    position, phase = before, 0
    for begin, end in itertools.pairwise([*sorted(by_position), math.inf]):
        now = by_position[int(begin)]
        while position < end:
            active = [part for part, weight in enumerate(now) if weight > 0]
            if stop == "each_once":
                active = [part for part in active if taken[part] < limits[part]]
            if not active:
                break
            for choice in model_choices([now[part] for part in active], f"mix:{seed}:{phase}"):
                part = active[choice]
                if position == end:
                    break
                if stop == "all_exhausted" and all(map(operator.ge, taken, sizes)):
                    return
                if stop == "first_exhausted" and taken[part] == limits[part]:
                    return
                if stop == "each_once" and taken[part] == limits[part]:
                    break
                yield part, taken[part]
                taken[part] += 1
                position += 1
            phase += 1


@st.composite
def weights_of(draw: st.DrawFn, count: int, stop: Stop) -> Weights:
    """Draw constant weights, or weights that change, of which some are 0."""
    positive = st.one_of(st.integers(1, 9), st.floats(1e-3, 1e3))
    last: list[float] = draw(st.lists(positive, min_size=count, max_size=count))
    some = st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any)
    earlier: list[Any] = draw(st.lists(some, max_size=3))
    keys = sorted(draw(st.sets(st.integers(1, 80), min_size=len(earlier), max_size=len(earlier))))
    if not earlier:
        return last
    if draw(st.booleans()) and stop in {"first_exhausted", "endless"}:
        last, earlier[0] = earlier[0], last  # some may be 0 at the end
    return dict(zip([0, *keys], [*earlier, last], strict=True))


@given(st.integers(1, 4), seeds, stops, st.sampled_from([2, 3, 5]), st.data())
def test_mixtures_match_the_model(
    count: int, seed: int, stop: Stop, cell_bits: int, data: st.DataObject
) -> None:
    epoch = data.draw(st.integers(0, 2**40))
    weights = data.draw(weights_of(count, stop))
    least = 1 if stop in {"endless", "all_exhausted"} else 0
    sizes = data.draw(st.lists(st.integers(least, 60), min_size=count, max_size=count))
    each = st.lists(st.integers(1, 4), min_size=count, max_size=count)
    repeat = data.draw(st.none() | each) if stop == "each_once" else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "CELL_BITS", cell_bits)
        patch.setattr(mixed, "CELL", 2**cell_bits)
        mix = mix_of(sizes, weights, seed, stop, repeat)
        most = 400 if stop == "endless" else None
        expected = list(itertools.islice(model(sizes, weights, seed, stop, repeat=repeat), most))
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
        counts = collections.Counter(part for part, _ in expected)
        for position, record in zip(positions, records.tolist(), strict=True):
            part, turn = expected[position]
            cycle, turn = divmod(turn, sizes[part])
            cycles = 1 if stop == "endless" else -(-counts[part] // sizes[part])
            own = Shuffled(sizes[part], part).at(np.array([turn]), epoch * cycles + cycle)
            assert record == cycle * RECORD + sum(sizes[:part]) + int(own[0])
            before = collections.Counter(part for part, _ in expected[:position])
            assert mix.taken_before(position).tolist() == [before[part] for part in range(count)]


@pytest.mark.parametrize("stop", STOP_CHOICES)
def test_cells_of_full_size_match_the_model(stop: Stop) -> None:
    sizes, weights = [90_000, 70_000, 12_345], {0: [0.5, 0, 0.2], 9_000: [0.5, 0.3, 0.2]}
    mix = mix_of(sizes, weights, 3, stop)
    expected = list(itertools.islice(model(sizes, weights, 3, stop), 300_000))
    assert len(mix) == (ENDLESS if stop == "endless" else len(expected))
    chosen, turns = mix.choices(np.arange(len(expected)))
    assert np.array_equal(np.stack((chosen, turns), 1), np.array(expected))
    positions = np.random.default_rng(0).permutation(len(expected))
    assert np.array_equal(mix.at(positions, 1), mix.at(np.arange(len(expected)), 1)[positions])


def first_epochs(mix: MixedRecords, epoch: int) -> list[int]:
    """Return the epoch of each part's own order in which its first cycle of an epoch is."""
    cycles = mix.describe().get("repeat", [1] * len(mix.bases))
    return [epoch * each for each in cycles]


@given(seeds, stops, stops, st.data())
def test_parts_continue_in_another_mixture(
    seed: int, stop: Stop, other_stop: Stop, data: st.DataObject
) -> None:
    epoch = data.draw(st.integers(0, 5))
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=3, max_size=3))
    each = st.lists(st.integers(1, 3), min_size=3, max_size=3)
    kept = data.draw(st.lists(st.integers(0, 2), unique=True, max_size=2))
    numbers = data.draw(st.permutations([*kept, 3]))  # a new part among them
    sizes.append(data.draw(st.integers(1, 30)))
    other_sizes = [sizes[number] for number in numbers]
    weights = data.draw(weights_of(3, stop))
    other_weights = data.draw(weights_of(len(numbers), other_stop))
    repeat, other_repeat = (
        data.draw(st.none() | each) if rule == "each_once" else None for rule in (stop, other_stop)
    )
    other_repeat = other_repeat and other_repeat[: len(numbers)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "CELL_BITS", 4)
        patch.setattr(mixed, "CELL", 16)
        old = mix_of(sizes[:3], weights, seed, stop, repeat)
        most = min(len(old), 200)
        choices = list(itertools.islice(model(sizes[:3], weights, seed, stop, repeat=repeat), most))
        position = data.draw(st.integers(0, most))
        state = {"epoch": epoch, "order": old.describe(), **old.describe_position(position, epoch)}
        taken = collections.Counter(part for part, _ in choices[:position])
        assert state["sources"] == [taken[part] for part in range(3)]

        parts = [Shuffled(sizes[number], number) for number in numbers]
        bases = [sum(other_sizes[:number]) for number in range(len(parts))]
        fresh = MixedRecords(
            parts, other_weights, seed + 1, other_stop, bases=bases, repeat=other_repeat
        )
        new = fresh.continued(fresh.continued_after(json.loads(json.dumps(state))))
        if position == len(old):  # the next epoch follows
            assert new.continuation is None
            return
        begun = [taken[number] for number in numbers]
        kinds: Any = {"repeat": other_repeat, "begun": begun, "before": position}
        rest = model(other_sizes, other_weights, seed + 1, other_stop, **kinds)
        expected = list(itertools.islice(rest, 200))
        count = new.count(epoch)
        assert count == len(expected) or (count > 200 == len(expected))
        chosen, turns = new.choices(np.arange(len(expected)), epoch)
        assert list(zip(chosen.tolist(), turns.tolist(), strict=True)) == expected
        records = new.at(np.arange(len(expected)), epoch).tolist()
        firsts = [
            first_epochs(fresh, epoch)[part] if number == 3 else first_epochs(old, epoch)[number]
            for part, number in enumerate(numbers)
        ]
        for (part, turn), record in zip(expected, records, strict=True):
            cycle, place = divmod(turn, sizes[numbers[part]])
            [own] = parts[part].at(np.array([place]), firsts[part] + cycle).tolist()
            assert record == cycle * RECORD + bases[part] + own
        # Other epochs are those of the new mixture, and the position counts on.
        some = np.arange(min(len(fresh), 50))
        assert np.array_equal(new.at(some, epoch + 1), fresh.at(some, epoch + 1))
        counts = collections.Counter(part for part, _ in expected)
        later = new.describe_position(len(expected), epoch)["parts"]
        assert later["position"] == position + len(expected)
        assert later["taken"] == [begun[part] + counts[part] for part in range(len(parts))]


def test_mixtures_are_stable_between_releases() -> None:
    # A run that is resumed by a newer release must go on in the order it began with.
    mix = mix_of([4, 6, 3], [0.5, 0.3, 0.2], 7)
    assert whole(mix) == [10, 9, 3, 1, 12, 11, 0, 2, 7, 6, 4, 5, 8]
    endless = mix_of([4, 6, 3], [0.5, 0.3, 0.2], 7, "endless")
    far = np.array([0, 1, CELL, ENDLESS - 1])
    assert own_numbers(endless.at(far, 2)).tolist() == [11, 7, 2, 12]


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
