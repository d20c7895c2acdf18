"""Numbers of samples, and samples of selected records, across the bounds of chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io._order import selection as subset
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io.episodes.order import select_samples
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
    return StepNumbers(np.array(counts, np.int64), (0, (window or 1) - 1))


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
    _, records, begins, _ = numbers.locate(np.arange(len(numbers)))
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
