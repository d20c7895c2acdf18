"""Samples of selected records, their blocks, and differences between orders."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io._order import selection as subset
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io.episodes.order import EpisodeBlocks, StepOrder, select_samples
from torchrec_io.episodes.reader import StepNumbers

Counts = st.lists(st.integers(-1, 90), max_size=12)  # -1: unreadable record
Windows = st.sampled_from([None, 1, 2, 40])


def places_of(counts: list[int], window: int | None) -> list[tuple[int, int]]:
    """Return record and first step of each sample."""
    return [
        (record, begin)
        for record, count in enumerate(counts)
        for begin in range(1 if count < 0 else count - (window or 1) + 1)
    ]


def numbers_of(counts: list[int], window: int | None = None) -> StepNumbers:
    return StepNumbers(np.array(counts, np.int64), window)


@st.composite
def selections(draw: st.DrawFn, total: int) -> Selection:
    if draw(st.booleans()):
        return Subset.from_mask(
            np.array(draw(st.lists(st.booleans(), min_size=total, max_size=total))) > 0
        )
    begin = draw(st.integers(0, total))
    return Span(begin, draw(st.integers(0, total - begin)), total)


def chosen(selection: Selection) -> list[int]:
    numbers: list[int] = selection.numbers_at(np.arange(len(selection))).tolist()
    return numbers


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subset, "CHUNK", 64)


@given(Counts, Windows)
def test_positions_of_samples(counts: list[int], window: int | None) -> None:
    numbers = numbers_of(counts, window)
    expected = places_of(counts, window)
    assert len(numbers) == len(expected)
    records, begins = numbers.locate(np.arange(len(numbers)))
    assert list(zip(records.tolist(), begins.tolist(), strict=True)) == expected
    for outside in (-1, len(numbers)):
        with pytest.raises(IndexError, match="a sample number is outside"):
            numbers.locate(np.array([outside]))


@given(Counts, Windows, st.data())
def test_samples_of_a_selection(counts: list[int], window: int | None, data: st.DataObject) -> None:
    records = data.draw(selections(len(counts)))
    samples = select_samples(records, numbers_of(counts, window))
    wanted = set(chosen(records))
    expected = [n for n, (record, _) in enumerate(places_of(counts, window)) if record in wanted]
    assert chosen(samples) == expected
    assert samples.total == len(places_of(counts, window))


def test_selection_of_other_records() -> None:
    with pytest.raises(ValueError, match="must be one of 2 records, got one of 3"):
        select_samples(Span(0, 3, 3), numbers_of([1, 2]))


@given(Counts, Windows, st.integers(1, 70), st.data())
def test_blocks_hold_each_record_once(
    counts: list[int], window: int | None, size: int, data: st.DataObject
) -> None:
    numbers = numbers_of(counts, window)
    records = data.draw(selections(len(counts)))
    samples = select_samples(records, numbers)
    blocks = EpisodeBlocks(samples, size, numbers)
    held = [blocks.numbers_of(block).tolist() for block in range(-(-len(samples) // size))]
    with_samples = sorted(
        {record for record, _ in places_of(counts, window)} & set(chosen(records))
    )
    assert [record for block in held for record in block] == with_samples
    for number, block in enumerate(held):
        assert set(blocks.block_of(np.array(block, np.int64)).tolist()) <= {number}


class TestStepOrder:
    def order(self, counts: list[int], window: int | None = None) -> StepOrder:
        records = RecordOrder(Span(0, len(counts), len(counts)), True, 7, "files")
        return StepOrder.from_records(records, numbers_of(counts, window))

    def test_step_order_follows_the_records(self) -> None:
        order = self.order([2, 0, 3])
        assert (order.shuffle, order.seed, order.files, len(order)) == (True, 7, "files", 5)
        assert sorted(order.at(np.arange(5), 3).tolist()) == list(range(5))

    def test_steps_of_selected_records(self) -> None:
        order = self.order([2, 0, 3])
        part = order.with_records(Span(2, 1, 3))
        assert chosen(part.selection) == [2, 3, 4]
        assert part.records == Span(2, 1, 3)
        assert dataclasses.replace(part, seed=8).records == Span(2, 1, 3)

    def test_differences_between_orders(self) -> None:
        orders = [
            self.order([2, 3]),
            self.order([3, 2]),  # same number of steps, but different steps
            self.order([2, 3], 1),
            self.order([3, 4], 2),  # same number of samples
        ]
        described = [order.describe() for order in orders]
        assert all(described.count(one) == 1 for one in described)
        assert self.order([2, 3]).describe() == described[0]
