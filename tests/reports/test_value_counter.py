"""Counts of different values, compared with a Counter."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io.reports.random_sample import RandomSample
from torchrec_io.reports.text import decoded
from torchrec_io.reports.value_counter import ValueCounter, count_integers


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3))))
def test_exact_counts_of_integers(blocks: list[list[int]]) -> None:
    counter: ValueCounter[int] = ValueCounter(10_000)
    for block in blocks:
        counter.add(count_integers(np.array(block, np.int64)))
    expected = Counter(value for block in blocks for value in block)
    found = counter.summary(10_000, {3: "three"})
    assert (found.is_exact, found.others) == (True, 0)
    assert found.distinct == len(expected)
    top = [(each.value, each.count) for each in found.top]
    assert top == sorted(expected.items(), key=lambda item: (-item[1], item[0]))
    assert {each.value: each.name for each in found.top if each.name} in ({}, {3: "three"})
    assert counter.summary(1, {}).others == expected.total() - sum(count for _, count in top[:1])


@given(st.lists(st.binary(max_size=3), max_size=60))
def test_exact_counts_of_bytes(values: list[bytes]) -> None:
    counter: ValueCounter[bytes] = ValueCounter(60)
    counter.add(Counter(values[:20]).items())
    counter.add(Counter(values[20:]).items())
    found = counter.summary(60, {})
    assert Counter(each.count for each in found.top) == Counter(Counter(values).values())
    assert {each.value for each in found.top} == {decoded(value) for value in values}


def test_many_values_are_estimated() -> None:
    random = np.random.default_rng(1)
    rare = random.integers(100, 2**60, 100_000)
    common = np.repeat(np.arange(5), [9000, 8000, 7000, 6000, 5000])
    values = random.permutation(np.concatenate([rare, common]))
    for kind in (int, bytes):
        counter: ValueCounter[Any] = ValueCounter(1000)
        for block in np.array_split(values, 40):
            items = block.tolist() if kind is int else [b"%d\xff" % value for value in block]
            counter.add(Counter(items).items())
        found = counter.summary(5, {})
        assert not found.is_exact
        assert found.others + sum(each.count for each in found.top) == len(values)
        assert abs(found.distinct / len(np.unique(values)) - 1) < 0.07
        order = [0, 1, 2, 3, 4] if kind is int else [f"{value}\\xff" for value in range(5)]
        assert [each.value for each in found.top] == order
        for each, expected in zip(found.top, (9000, 8000, 7000, 6000, 5000), strict=True):
            assert abs(each.count - expected) < 200


def test_memory_is_bounded() -> None:
    counter: ValueCounter[bytes] = ValueCounter(1000)
    tracemalloc.start()
    try:
        for begin in range(0, 200_000, 2000):
            counter.add([(b"value %d" % number, 1) for number in range(begin, begin + 2000)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000
    assert abs(counter.summary(1, {}).distinct / 200_000 - 1) < 0.07


def test_random_samples_are_uniform_and_repeatable() -> None:
    def sample_of(blocks: list[int]) -> list[int]:
        sample: RandomSample[int] = RandomSample(100)
        at = 0
        for size in blocks:
            sample.offer(size, lambda position, at=at: at + position)  # type: ignore[misc]
            at += size
        return sample.items

    found = sample_of([10, 5000, 0, 4990])
    assert found == sample_of([10, 5000, 0, 4990])
    assert found == sorted(set(found))
    assert len(found) == 100
    assert 3500 < np.mean(found) < 6500
    assert sample_of([3, 4]) == list(range(7))
