"""Batches by length compared with a simple model, for any ranks and workers."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io._order import length_batches as module
from torchrec_io._order.length_batches import LengthBatchedOrder
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.ramp import Ramp
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io._order.shuffle import Shuffle, ShuffleChoice
from torchrec_io._order.windows import Lengths

SHUFFLES: list[ShuffleChoice] = [False, True, 7, Shuffle(block=4, window=9)]
LEAST, BATCHES = 5, 3


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use windows of a few records."""
    monkeypatch.setattr(module, "_LEAST_WINDOW", LEAST)
    monkeypatch.setattr(module, "_WINDOW_BATCHES", BATCHES)


@st.composite
def selections(draw: st.DrawFn, total: int) -> Selection:
    if draw(st.booleans()):
        begin = draw(st.integers(0, total))
        return Span(begin, draw(st.integers(0, total - begin)), total)
    return Subset.from_mask(
        np.array(draw(st.lists(st.booleans(), min_size=total, max_size=total)), bool)
    )


@st.composite
def orders(draw: st.DrawFn) -> LengthBatchedOrder:
    lengths = draw(st.lists(st.integers(0, 12), max_size=80))
    tokens = draw(st.one_of(st.none(), st.integers(1, 40)))
    some = st.integers(1, 6)
    size = draw(some if tokens is None else st.one_of(st.none(), some))
    whole = RecordOrder(
        draw(selections(len(lengths))),
        draw(st.sampled_from(SHUFFLES)),
        draw(st.integers(0, 3)),
    )
    return LengthBatchedOrder(whole, Lengths(np.array(lengths, np.int64)), tokens, size)


def batches_of(order: LengthBatchedOrder, epoch: int) -> list[list[int]]:
    return [batch_of(order, epoch, number) for number in range(order.count(epoch))]


def batch_of(order: LengthBatchedOrder, epoch: int, number: int) -> list[int]:
    records: list[int] = order.plan_units(np.array([number]), epoch).tolist()
    return records


def cut(
    records: Sequence[int], lengths: Sequence[int], tokens: int | None, size: int | None
) -> list[list[int]]:
    """Return the batches of one window, longest first."""
    batches: list[list[int]] = []
    for record in sorted(records, key=lambda record: -lengths[record]):
        last = batches[-1] if batches else []
        longest = max(1, lengths[last[0]]) if last else 0
        full = len(last) == size or (tokens is not None and (len(last) + 1) * longest > tokens)
        if not last or full:
            batches.append([record])
        else:
            last.append(record)
    return batches


def expected_windows(order: LengthBatchedOrder, epoch: int) -> list[list[list[int]]]:
    """Return the model's batches of each window."""
    tokens, lengths = order.batch_tokens, order.lengths.values.tolist()
    assert not isinstance(tokens, Ramp)
    chosen = [
        number
        for number in np.flatnonzero(order.whole.selection.mask(0, len(lengths))).tolist()
        if tokens is None or lengths[number] <= tokens
    ]
    mask = np.zeros(len(lengths), bool)
    mask[chosen] = True
    left = dataclasses.replace(order.whole, selection=Subset.from_mask(mask))
    records = left.at(np.arange(len(chosen)), epoch).tolist()
    most = len(chosen) if order.batch_size is None else order.batch_size
    if tokens is not None:
        mean = -(-sum(lengths[number] for number in chosen) // max(1, len(chosen)))
        most = min(most, tokens // max(1, mean))
    most = max(1, most)
    window = max(BATCHES, -(-LEAST // most)) * most
    return [
        cut(records[at : at + window], lengths, tokens, order.batch_size)
        for at in range(0, len(records), window)
    ]


@given(orders(), st.integers(0, 3))
def test_windows_are_sorted_and_split(order: LengthBatchedOrder, epoch: int) -> None:
    windows = expected_windows(order, epoch)
    found = iter(batches_of(order, epoch))
    for window in windows:
        batches = [next(found) for _ in window]
        if order.whole.shuffle is False:
            assert batches == window
        else:
            assert sorted(batches) == sorted(window)
    assert next(found, None) is None


@given(orders(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_all_access_methods_agree(order: LengthBatchedOrder, epoch: int, random: Any) -> None:
    whole = batches_of(order, epoch)
    other: LengthBatchedOrder = pickle.loads(pickle.dumps(order))
    assert other.describe() == order.describe()
    numbers = list(range(len(whole)))
    random.shuffle(numbers)
    for number in numbers:
        assert batch_of(other, epoch, number) == whole[number]
        other.count(epoch + random.randrange(4))
    if numbers:
        records = [record for number in numbers for record in whole[number]]
        assert other.records_of(np.array(numbers), epoch).tolist() == records
    for number in (-1, len(whole)):
        with pytest.raises(IndexError, match=f"no units {number}"):
            batch_of(other, epoch, number)
