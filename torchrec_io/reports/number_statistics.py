"""Statistics of numbers that are computed in one pass, with bounded memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .content import Histogram, NumberSummary
from .extra import import_extra

# Size of a sketch of quantiles: the error of a rank is about 0.3 %, and the memory 25 KB.
_SKETCH_SIZE = 1024
_PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS = 30
# A histogram leaves out the ends of a distribution that would take this part of its width.
_LONG_TAIL = 0.8
_TAIL = 0.005
_LEAST_TAIL = 5
# Values are skewed if the large ones are that many times the median.
_SKEWED = 20


class NumberStatistics:
    """Statistics of the numbers that were added so far.

    Quantiles and histograms are from a KLL sketch, which is exact for about 1,000 values.
    Everything else is exact.

    Attributes:
        count: Number of values, with NaN and infinities.
    """

    def __init__(self) -> None:
        self._sketch: Any = import_extra("datasketches").kll_doubles_sketch(_SKETCH_SIZE)
        self.count: int = 0
        self._nan = self._above = self._below = self._zeros = self._finite = 0
        self._mean = self._squares = 0.0  # squares: sum of the squared distances from the mean
        self._least: float | None = None
        self._most: float | None = None

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add int64 or float values of any shape."""
        flat = values.reshape(-1)
        self.count += len(flat)
        if flat.dtype.kind == "f":
            self._nan += int(np.isnan(flat).sum())
            self._above += int((flat == np.inf).sum())
            self._below += int((flat == -np.inf).sum())
            flat = flat[np.isfinite(flat)]
        if not len(flat):
            return
        self._zeros += len(flat) - int(np.count_nonzero(flat))
        least, most = flat.min().item(), flat.max().item()
        self._least = least if self._least is None else min(self._least, least)
        self._most = most if self._most is None else max(self._most, most)
        numbers = flat.astype(np.float64)
        self._add_moments(numbers)
        self._sketch.update(numbers)

    def _add_moments(self, numbers: npt.NDArray[np.float64]) -> None:
        """Merge the mean and the squares of a block (Chan, Golub and LeVeque)."""
        count = len(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(numbers.mean())
            squares = float(np.square(numbers - mean).sum())
            total = self._finite + count
            delta = mean - self._mean
            self._mean += delta * count / total
            self._squares += squares + delta * delta * self._finite * count / total
        self._finite = total

    def summary(self) -> NumberSummary:
        """Return the statistics."""
        std = math.sqrt(self._squares / self._finite) if self._finite else math.nan
        quantiles: dict[float, float] = {}
        histogram = None
        if self._least is not None and self._most is not None:
            found = self._sketch.get_quantiles(list(_PROBABILITIES))
            like_stored = type(self._least)  # int or float
            quantiles = dict(zip(_PROBABILITIES, map(like_stored, found), strict=True))
            histogram = _histogram(self._sketch, self._least, self._most, self._finite)
        is_estimate = self._finite > 0 and self._sketch.is_estimation_mode()
        return NumberSummary(
            self.count,
            self._nan,
            self._above,
            self._below,
            self._zeros,
            self._least,
            self._most,
            self._mean if self._finite and math.isfinite(self._mean) else None,
            std if math.isfinite(std) else None,
            quantiles,
            self._sketch.normalized_rank_error(False) if is_estimate else 0.0,
            histogram,
        )


# ---- histograms ----


def _histogram(sketch: Any, least: float, most: float, count: int) -> Histogram:
    """Return the histogram of the numbers of a sketch, from their ends and their number."""
    is_integer = isinstance(least, int)
    tail, low, middle, high = sketch.get_quantiles([_TAIL, 0.25, 0.5, 1 - _TAIL])
    # Nearly all values would be in the first few intervals of equal width.
    is_logarithmic = bool(least > 0 and most > _BINS and high > _SKEWED * middle and low < middle)
    has_tail = count * _TAIL >= _LEAST_TAIL and 0 < high - tail < (1 - _LONG_TAIL) * (most - least)
    if is_logarithmic:
        found = np.geomspace(least, most, _BINS + 1)
        found[0], found[-1] = least, most  # without errors of rounding
        found = np.rint(found) if is_integer else found
    else:
        found = _even_edges(*((tail, high) if has_tail else (least, most)), is_integer=is_integer)
    # Edges of huge numbers, or of numbers that hardly differ, may be equal.
    edges: list[float] = np.unique(found).tolist()
    if len(edges) < 2:
        return Histogram((least, most), (count,))
    # Rounded sums, so that the counts add up to the number of values.
    ends = np.rint(np.array(sketch.get_cdf(edges)) * count).astype(np.int64)[:-1]
    if edges[-1] >= most:
        ends[-1] = count  # the last interval includes its end
    return Histogram(
        tuple(edges),
        tuple(np.diff(ends).tolist()),
        int(ends[0]),
        count - int(ends[-1]),
        has_integers=is_integer and not is_logarithmic and edges[1] - edges[0] == 1,
        is_logarithmic=is_logarithmic,
    )


def _even_edges(least: float, most: float, *, is_integer: bool) -> npt.NDArray[np.float64]:
    """Return the ends of intervals of equal width, increasing."""
    if is_integer:
        first, last = int(least), int(most)
        step = 1 if last - first < 2 * _BINS else -((last - first + 1) // -_BINS)
        return np.array(range(first, last + step + 1, step), np.float64)
    parts = np.linspace(0, 1, _BINS + 1)
    return least * (1 - parts) + most * parts  # the width may be too large for a float
