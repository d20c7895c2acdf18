"""Repetitions of records, compared with a model of plain integers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.order.test_mixture import Shuffled, mix_of
from tests.support.orders import RECORD
from torchrec_io._order.batch_sizes import BatchSizes
from torchrec_io._order.mixture import MixedRecords
from torchrec_io._order.orders import PositionOrder, RecordOrder
from torchrec_io._order.selection import Span
from torchrec_io._order.shuffle import Shuffle
from torchrec_io._order.virtual import VirtualRecords
from torchrec_io._records.repetitions import own_numbers, repeated

NUMBERS = st.integers(0, RECORD - 1)
REPETITIONS = st.lists(st.integers(0, 2**62), min_size=1, max_size=4)


def model(number: int, repetitions: list[int]) -> int:
    combined = 0
    for repetition in repetitions:
        combined = (combined * 5_184_443 + repetition) % 2**23
    return combined << 40 | number


@given(st.lists(st.tuples(NUMBERS, REPETITIONS)))
def test_repetitions_match_the_model(given: list[tuple[int, list[int]]]) -> None:
    for number, repetitions in given:
        found = np.array([number])
        for repetition in repetitions:
            found = repeated(found, repetition)
        assert found.tolist() == [model(number, repetitions)]
        assert own_numbers(found).tolist() == [number]
    numbers, each = zip(*given, strict=True) if given else ((), ())
    last = np.array([repetitions[-1] for repetitions in each], np.int64)
    found = repeated(np.array(numbers, np.int64), last)
    assert found.tolist() == [model(n, [r]) for n, r in zip(numbers, last.tolist(), strict=True)]


def drawn(count: int) -> RecordOrder:
    return RecordOrder(Span(0, 5, 5), Shuffle(weights=[1, 2, 3, 4, 5], num_samples=count), 3)


def repeating(order: PositionOrder, times: int) -> MixedRecords:
    """Return a mixture in which an order comes several times, with others."""
    parts = [Shuffled(6), order]
    return MixedRecords(parts, [1, 1], 1, "each_once", bases=[0, 6], repeat=[1, times])


ORDERS = {
    "draws": drawn(40),
    "repeated": mix_of([7, 20], [1, 1], repeat=[5, 2]),
    "repeated draws": repeating(drawn(40), 4),
    "repeated mixtures": repeating(repeating(mix_of([7, 3], [1, 1], repeat=[3, 4]), 5), 3),
}


def test_all_numbers_of_an_epoch_differ() -> None:
    for order in ORDERS.values():
        virtual = VirtualRecords(order, 7, BatchSizes.of(30), 2)
        for each, epoch in itertools.product((order, virtual), range(3)):
            count = each.count(epoch)
            numbers = each.at(np.arange(count), epoch)
            assert len({*numbers.tolist()}) == count
            assert numbers.min() >= 0
            assert each.contains(own_numbers(numbers)).all()
            assert len(np.unique(own_numbers(numbers))) < count
