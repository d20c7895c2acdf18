"""Selections of records, compared with lists of record numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io._order import selection as subset
from torchrec_io._order.selection import (
    Mask,
    Numbers,
    Selection,
    Span,
    Subset,
    select_positions,
    select_within,
)

totals = st.one_of(st.integers(0, 70), st.integers(0, 3000))


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    total = draw(totals)
    kind = draw(st.sampled_from([0.0, 0.01, 0.5, 0.99, 1.0]))
    return np.random.default_rng(draw(st.integers(0, 2**32))).random(total) < kind


@st.composite
def spans(draw: st.DrawFn) -> Span:
    total = draw(totals)
    begin = draw(st.integers(0, total))
    return Span(begin, draw(st.integers(0, total - begin)), total)


def numbers_of(selection: Selection) -> Numbers:
    """Return all selected numbers, read bit by bit."""
    return np.flatnonzero(selection.mask(0, selection.total))


def check_selection(selection: Selection, expected: Numbers) -> None:
    """Compare all results of a selection with the selected numbers."""
    total = selection.total
    assert len(selection) == len(expected)
    found = selection.numbers_at(np.arange(len(expected)))
    assert found.dtype == np.int64
    assert found.tolist() == expected.tolist()
    every = np.arange(total + 1)
    ranks = selection.positions_of(every)
    assert ranks.dtype == np.int64
    assert ranks.tolist() == np.searchsorted(expected, every).tolist()
    assert numbers_of(selection).tolist() == expected.tolist()


@given(masks())
def test_subsets_match_their_masks(mask: Mask) -> None:
    check_selection(Subset.from_mask(mask), np.flatnonzero(mask))


@given(spans())
def test_span_matches_its_records(span: Span) -> None:
    check_selection(span, np.arange(span.begin, span.begin + span.size))


@given(st.one_of(spans(), masks().map(Subset.from_mask)), st.data())
def test_masks_of_ranges(selection: Selection, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, selection.total))
    end = data.draw(st.integers(begin, selection.total))
    mask = selection.mask(begin, end)
    assert mask.dtype == np.bool_
    assert mask.tolist() == selection.mask(0, selection.total)[begin:end].tolist()


# ---- built from chunks ----


def test_subset_can_be_built_from_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subset, "CHUNK", 64)
    mask = np.random.default_rng(0).random(1000) < 0.3
    asked = []

    def mask_of(begin: int, end: int) -> Mask:
        asked.append((begin, end))
        return mask[begin:end]

    check_selection(Subset.build(1000, mask_of), np.flatnonzero(mask))
    assert asked == [(begin, min(1000, begin + 64)) for begin in range(0, 1000, 64)]


ten_of_20 = np.arange(20) % 2 == 0


# ---- pickling and fingerprints ----


@given(st.one_of(spans(), masks().map(Subset.from_mask)))
def test_selections_can_be_pickled(selection: Selection) -> None:
    again = pickle.loads(pickle.dumps(selection))
    assert type(again) is type(selection)
    check_selection(again, numbers_of(selection))
    assert again.fingerprint() == selection.fingerprint()


def test_fingerprints_are_stable_between_releases() -> None:
    # A run that is resumed by a newer release must find its records to be the same.
    assert Span(3, 5, 10).fingerprint() == "50a475f6387a4384"
    assert Subset.from_mask(ten_of_20).fingerprint() == "528d4d5628ffc5ba"


@given(spans())
def test_equal_records_have_equal_fingerprints(span: Span) -> None:
    assert Subset.from_mask(span.mask(0, span.total)).fingerprint() == span.fingerprint()


def test_different_records_have_different_fingerprints() -> None:
    selections: list[Selection] = [
        *(Span(begin, size, 6) for size in range(1, 7) for begin in range(7 - size)),
        Span(0, 0, 6),
        Span(0, 0, 7),
        Span(0, 6, 7),
        *(Subset.from_mask(np.arange(6) % step == 0) for step in (2, 3, 4, 5)),
        Subset.from_mask(np.arange(7) % 4 == 0),
    ]
    assert len({selection.fingerprint() for selection in selections}) == len(selections)


# ---- many records ----


def test_a_hundred_million_records() -> None:
    total = 10**8
    thirds = Subset.build(total, lambda begin, end: np.arange(begin, end) % 3 == 1)
    assert len(thirds) == 33_333_333
    positions = np.random.default_rng(0).integers(0, len(thirds), 10_000)
    assert np.array_equal(thirds.numbers_at(positions), positions * 3 + 1)
    assert np.array_equal(thirds.positions_of(positions * 3), positions)


@given(masks())
def test_positions_become_a_subset(mask: Mask) -> None:
    positions = np.flatnonzero(mask)
    check_selection(select_positions(positions, len(mask)), positions)


@given(st.one_of(spans(), masks().map(Subset.from_mask)), st.data())
def test_some_records_of_a_selection(selection: Selection, data: st.DataObject) -> None:
    count = len(selection)
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    expected = numbers_of(selection)[kept]
    check_selection(select_within(selection, Subset.from_mask(kept)), expected)
    begin = data.draw(st.integers(0, count))
    end = data.draw(st.integers(begin, count))
    part = select_within(selection, Span(begin, end - begin, count))
    check_selection(part, numbers_of(selection)[begin:end])
    assert isinstance(part, Span) or not isinstance(selection, Span)
