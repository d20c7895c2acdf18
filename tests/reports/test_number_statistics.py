"""Statistics of numbers, compared with NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from torchrec_io.reports.content import NumberSummary
from torchrec_io.reports.number_statistics import NumberStatistics

FLOATS = arrays.arrays(np.float32, st.integers(0, 200), elements=st.floats(width=32))
INTEGERS = arrays.arrays(np.int64, st.integers(0, 200), elements=st.integers(-(2**63), 2**63 - 1))
SMALL = arrays.arrays(np.int64, st.integers(1, 200), elements=st.integers(-50, 50))


def summary_of(*blocks: npt.NDArray[Any]) -> NumberSummary:
    statistics = NumberStatistics()
    for block in blocks:
        statistics.add(block)
    return statistics.summary()


@given(FLOATS | INTEGERS | SMALL, st.integers(0, 200))
def test_exact_statistics(values: npt.NDArray[Any], cut: int) -> None:
    found = summary_of(values[:cut], values[cut:])
    finite = values[np.isfinite(values)]
    assert found.count == len(values)
    assert found.nan == np.isnan(values).sum()
    assert found.positive_infinity == (values == np.inf).sum()
    assert found.negative_infinity == (values == -np.inf).sum()
    assert found.zeros == (values == 0).sum()
    if not len(finite):
        assert (found.minimum, found.maximum, found.mean, found.std) == (None,) * 4
        assert found.quantiles == {}
        assert found.histogram is None
        return
    assert found.minimum == finite.min().item()
    assert found.maximum == finite.max().item()
    numbers = finite.astype(np.float64)
    scale = max(1.0, float(np.abs(numbers).max()))
    assert found.mean == pytest.approx(numbers.mean(), abs=1e-9 * scale)
    assert found.std == pytest.approx(numbers.std(), abs=1e-6 * scale)


@given(FLOATS | SMALL, st.integers(0, 200))
def test_few_values_have_exact_quantiles(values: npt.NDArray[Any], cut: int) -> None:
    found = summary_of(values[:cut], values[cut:])
    finite = np.sort(values[np.isfinite(values)])
    assert found.rank_error == 0
    for rank, value in found.quantiles.items():
        assert value in finite
        # At most this share of the values is smaller, and at least this share is not larger.
        assert (finite < value).mean() <= rank <= (finite <= value).mean() + 1e-12


@given(FLOATS | SMALL | INTEGERS, st.integers(0, 200))
def test_histograms_count_every_value_once(values: npt.NDArray[Any], cut: int) -> None:
    found = summary_of(values[:cut], values[cut:])
    histogram = found.histogram
    if histogram is None:
        return
    finite = values[np.isfinite(values)].astype(np.float64)
    assert sum(histogram.counts) + histogram.below + histogram.above == len(finite)
    assert list(histogram.edges) == sorted(set(histogram.edges)) or len(histogram.counts) == 1
    if len(histogram.counts) == 1:
        return
    assert len(histogram.edges) == len(histogram.counts) + 1 <= 62
    edges = np.array(histogram.edges)
    inside = finite[(finite >= edges[0]) & (finite <= edges[-1])]
    assert list(histogram.counts) == np.histogram(inside, edges)[0].tolist()


def test_small_integers_have_an_interval_each() -> None:
    histogram = summary_of(np.array([3, 1, 1, 4, 1, 5])).histogram
    assert histogram is not None
    assert histogram.has_integers
    assert dict(zip(histogram.edges, histogram.counts, strict=False)) == {
        1: 3,
        2: 0,
        3: 1,
        4: 1,
        5: 1,
    }


def test_integers_stay_integers() -> None:
    found = summary_of(np.array([2**62, 5, 7]))
    assert found.maximum == 2**62
    assert type(found.maximum) is type(found.quantiles[0.5]) is int


def test_long_tails_are_left_out_of_the_picture() -> None:
    values = np.append(np.linspace(-1, 1, 1000), [1e6, -1e6]).astype(np.float32)
    histogram = summary_of(values).histogram
    assert histogram is not None
    assert -2 < histogram.edges[0] < histogram.edges[-1] < 2
    assert 2 <= histogram.below + histogram.above <= 12


def test_skewed_numbers_have_a_logarithmic_histogram() -> None:
    values = np.exp(np.random.default_rng(0).normal(0, 3, 1000))
    histogram = summary_of(values).histogram
    assert histogram is not None
    assert histogram.is_logarithmic
    ratios = np.array(histogram.edges[1:]) / np.array(histogram.edges[:-1])
    assert np.allclose(ratios, ratios[0])
    assert sum(histogram.counts) == 1000


@pytest.mark.parametrize("kind", ["normal", "uniform", "sorted", "integers", "skewed", "constant"])
def test_many_values_have_quantiles_within_the_stated_error(kind: str) -> None:
    random = np.random.default_rng(7)
    values: npt.NDArray[Any] = {
        "normal": random.normal(size=200_000),
        "uniform": random.random(200_000),
        "sorted": np.arange(200_000),
        "integers": random.integers(0, 1000, 200_000),
        "skewed": np.exp(random.normal(0, 3, 200_000)),
        "constant": np.append(np.full(199_999, 5), 6),
    }[kind]
    found = summary_of(*np.array_split(values, 50))
    assert 0 < found.rank_error < 0.005
    ordered = np.sort(values)
    for rank, value in found.quantiles.items():
        low = np.searchsorted(ordered, value, "left") / len(ordered)
        high = np.searchsorted(ordered, value, "right") / len(ordered)
        assert low - 2 * found.rank_error <= rank <= high + 2 * found.rank_error
    assert found.histogram is not None
    assert sum(found.histogram.counts) + found.histogram.below + found.histogram.above == 200_000


def test_equal_values() -> None:
    found = summary_of(*[np.full(1000, 3)] * 5)
    assert (found.minimum, found.maximum, found.mean, found.std) == (3, 3, 3.0, 0.0)
    assert found.quantiles[0.5] == 3


def test_huge_values_have_no_deviation_that_is_not_finite() -> None:
    found = summary_of(np.array([1e308, -1e308]))
    assert found.std is None
    assert found.mean == 0 or not math.isfinite(found.mean or 0)
