"""Draws by weight, compared with plain models, and with the probabilities that they must have."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import RECORD, Numbers, chi_square_is_plausible
from torchrec_io import _core
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io._order.shuffle import Shuffle
from torchrec_io._order.weighted import Classes, Weights
from torchrec_io._records.repetitions import own_numbers
from torchrec_io._storage.digest import digest_number

weight_lists = st.one_of(
    st.lists(st.sampled_from([0.0, 1.0, 0.25, 1e-9, 7e11]), min_size=1, max_size=12),
    st.lists(st.floats(0, 1e9, allow_nan=False), min_size=1, max_size=40),
    st.integers(900, 3000).map(lambda size: [float(i % 7) for i in range(size)]),
).filter(any)
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 2**40)
masks = st.integers(0, 2**40)


def order_of(selection: Selection, seed: int, **options: Any) -> RecordOrder:
    return RecordOrder(selection, Shuffle(**options), seed)


def drawn(order: RecordOrder, epoch: int = 0) -> list[int]:
    """Return the own numbers of the records of an epoch."""
    numbers: list[int] = own_numbers(order.at(np.arange(len(order)), epoch)).tolist()
    return numbers


def uniform(positions: Any, seed: int, epoch: int) -> list[float]:
    """Return the random number of each position, from [0, 1)."""
    key = digest_number(f"draws:{seed}:{epoch}")
    numbers = _core.permute(np.array(positions, np.int64), 1 << 53, key).tolist()
    return [number / 2**53 for number in numbers]


def selected(size: int, mask: int) -> tuple[Subset, list[int]]:
    """Return a selection of records by the bits of a number, at least the first record."""
    numbers = [i for i in range(size) if i % 41 == 0 or mask >> i % 41 & 1]
    return Subset.from_mask(np.isin(np.arange(size), numbers)), numbers


# ---- the order ----


@given(weight_lists, st.integers(1, 60), masks, seeds, epochs)
def test_with_replacement(
    weights: list[float], count: int, mask: int, seed: int, epoch: int
) -> None:
    weights[0] += 1  # of a record that is selected
    selection, numbers = selected(len(weights), mask)
    order = order_of(selection, seed, weights=weights, num_samples=count)
    ends = [*itertools.accumulate(weights[number] for number in numbers)]
    wanted = [each * ends[-1] for each in uniform(range(count), seed, epoch)]
    expected = [next(n for n, end in zip(numbers, ends, strict=True) if end > w) for w in wanted]
    assert drawn(order, epoch) == expected
    assert all(weights[number] > 0 for number in expected)
    some = np.array([count - 1, 0, count // 2])
    found = order.at(some, epoch).tolist()
    assert found == [position * RECORD + expected[position] for position in some.tolist()]


@given(weight_lists, masks, seeds, epochs)
def test_without_replacement(weights: list[float], mask: int, seed: int, epoch: int) -> None:
    weights[0] += 1
    selection, numbers = selected(len(weights), mask)
    order = order_of(selection, seed, weights=weights, replacement=False)
    randoms = [each + 2**-53 for each in uniform(range(len(numbers)), seed, epoch)]
    keys = {
        number: -math.log(random) / weights[number]
        for number, random in zip(numbers, randoms, strict=True)
        if weights[number] > 0
    }
    found = drawn(order, epoch)
    assert sorted(found) == [*keys]
    assert found == order.at(np.arange(len(order)), epoch).tolist()  # no record is repeated
    for before, after in itertools.pairwise(found):  # but for the last bits of a logarithm
        assert keys[before] <= keys[after] * (1 + 1e-13) + 1e-300
    fewer = order_of(
        selection, seed, weights=weights, replacement=False, num_samples=-(-len(found) // 2)
    )
    assert drawn(fewer, epoch) == found[: len(fewer)]


def test_the_smallest_weight_is_drawn_last() -> None:
    selection, _ = selected(3, 0b111)
    order = order_of(selection, 0, weights=[5e-324, 1.0, 0.0], replacement=False)
    assert drawn(order, 0) == [1, 0]


@given(
    st.lists(st.integers(-1, 3), min_size=1, max_size=50).filter(lambda all_: max(all_) >= 0),
    masks,
    seeds,
)
def test_classes_of_a_selection_have_equal_weight(classes: list[int], mask: int, seed: int) -> None:
    classes[0] = max(classes)
    selection, numbers = selected(len(classes), mask)
    own = [classes[number] for number in numbers]
    weights = [0.0 if each < 0 else 1 / own.count(each) for each in own]
    found = Classes(np.array(classes) + 1)
    assert found.of(selection).tolist() == weights
    order = RecordOrder(selection, Shuffle(weights=found), seed)
    plain = order_of(Span(0, len(weights), len(weights)), seed, weights=weights)
    assert drawn(order) == [numbers[position] for position in drawn(plain)]
    assert order.contains(np.arange(len(classes))).tolist() == [
        number in numbers and classes[number] >= 0 for number in range(len(classes))
    ]


# ---- probabilities ----


def shares_of(weights: list[float]) -> Any:
    return np.array(weights) / sum(weights)


def test_draws_with_replacement_are_independent() -> None:
    weights = [1.0, 2.0, 4.0]
    shares = shares_of(weights)
    pairs = np.outer(shares, shares).ravel()
    first = np.array(drawn(order_of(Span(0, 3, 3), 2, weights=weights, num_samples=200_000)))
    for distance in (1, 2, 64):
        counts: Numbers = np.bincount(first[:-distance] * 3 + first[distance:], minlength=9)
        assert chi_square_is_plausible(counts, shares=pairs)
    for seed, epoch in ((2, 1), (3, 0)):
        order = order_of(Span(0, 3, 3), seed, weights=weights, num_samples=200_000)
        other = np.array(drawn(order, epoch))
        assert chi_square_is_plausible(np.bincount(first * 3 + other, minlength=9), shares=pairs)


def test_draws_without_replacement_have_the_probabilities_of_successive_sampling() -> None:
    weights = [1.0, 2.0, 3.0, 6.0]
    order = order_of(Span(0, 4, 4), 1, weights=weights, replacement=False)
    orders = [*itertools.permutations(range(4))]
    shares = []
    for each in orders:
        left, share = sum(weights), 1.0
        for record in each:
            share *= weights[record] / left
            left -= weights[record]
        shares.append(share)
    found = [orders.index(tuple(drawn(order, epoch))) for epoch in range(40_000)]
    counts: Numbers = np.bincount(found, minlength=len(orders))
    assert chi_square_is_plausible(counts, shares=np.array(shares))


def test_many_records() -> None:
    """Draws of a million records fall evenly on groups of them."""
    values = np.arange(1_000_000) % 1000 + 1.0
    order = order_of(Span(0, len(values), len(values)), 4, weights=values, num_samples=500_000)
    groups = 250
    counts: Numbers = np.bincount(np.array(drawn(order)) * groups // len(values), minlength=groups)
    shares = values.reshape(groups, -1).sum(1)
    assert chi_square_is_plausible(counts, shares=shares / shares.sum())


# ---- arguments ----


def test_weights_are_equal_by_their_values() -> None:
    given: list[Any] = [
        [1, 2, 3],
        np.array([1.0, 2, 3], np.float32),
        torch.tensor([1, 2, 3]),
        torch.tensor([1, 2, 3], dtype=torch.bfloat16, requires_grad=True),
    ]
    shuffles = [Shuffle(weights=each) for each in given]
    assert all(each == shuffles[0] and repr(each) == repr(shuffles[0]) for each in shuffles)
    assert hash(shuffles[0].weights) == hash(shuffles[1].weights)
    assert shuffles[0] != Shuffle(weights=[1, 2, 4])
    assert repr(shuffles[0]) != repr(Shuffle(weights=[1, 2, 4]))
    assert repr(Shuffle(weights="score", num_samples=5, replacement=False)) == (
        "Shuffle(weights='score', num_samples=5, replacement=False)"
    )
    assert Weights([0, 1, 2]) != Classes([0, 1, 2])


def test_weights_are_a_copy() -> None:
    values = np.ones(3)
    shuffle = Shuffle(weights=values)
    values[:] = 0
    assert shuffle.weights.values.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, TypeError, "Shuffle needs block and window, or weights, or balance"),
        ({"block": 3}, ValueError, "window must be a positive integer, got None"),
        ({"weights": [1], "block": 2, "window": 4}, ValueError, "block must be None with weights"),
        ({"balance": "label", "lanes": 2}, ValueError, "lanes must be None with weights or bal"),
        ({"weights": [1], "balance": "label"}, ValueError, "must not both be given"),
        ({"balance": 3}, TypeError, "balance must be the name of a feature, got 3"),
        ({"block": 1, "window": 2, "num_samples": 3}, ValueError, "num_samples needs weights or"),
        ({"block": 1, "window": 2, "replacement": False}, ValueError, "replacement needs weights"),
        ({"weights": [1], "replacement": "no"}, TypeError, "True or False, got 'no'"),
        ({"weights": [1], "num_samples": 0}, ValueError, "num_samples must be .* got 0"),
        ({"weights": "a", "features": ["a"]}, ValueError, "features needs weights=function"),
        ({"weights": [1], "cache_key": "a"}, ValueError, "cache_key needs weights that are found"),
        ({"weights": [1, -2, 3]}, ValueError, "finite and not negative, got -2 for record 1"),
        (
            {"weights": [1, 2, math.nan]},
            ValueError,
            "finite and not negative, got nan for record 2",
        ),
        ({"weights": [math.inf]}, ValueError, "finite and not negative, got inf for record 0"),
        ({"weights": [1e308] * 9}, ValueError, "must have a finite sum"),
        ({"weights": [[1.0]]}, ValueError, r"weights must be .*, got float64 \[1, 1\]"),
        ({"weights": ["a"]}, ValueError, "weights must be one number for each record"),
        ({"weights": [[1], [2, 3]]}, ValueError, "weights must be one number for each record"),
        ({"weights": 3.0}, ValueError, r"got float64 \[\]"),
    ],
)
def test_invalid_arguments(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        Shuffle(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 2]}, "one value for each of 4 records of the files, got 2"),
        ({"weights": [1, 0, 0, 1]}, "at least one weight must be positive, but those of 2 records"),
        (
            {"weights": [0, 1, 0, 1], "num_samples": 2, "replacement": False},
            "num_samples must be at most 1, the number of records with a positive weight",
        ),
    ],
)
def test_weights_that_do_not_fit_the_records(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        order_of(Span(1, 2, 4), 0, **options)


def test_no_records() -> None:
    assert len(order_of(Span(2, 0, 4), 0, weights=[1, 1, 1, 1], num_samples=9)) == 0
    assert len(order_of(Span(0, 0, 0), 0, weights=[])) == 0
