"""Statistics of numbers that are computed in one pass, with bounded memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .content import Histogram, NumberSummary
from .extra import import_datasketches

# Size of a sketch of quantiles: the error of a rank is about 0.3 %, and the memory 25 KB.
_SKETCH_SIZE = 1024
_PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_BINS = 30
_MOST_FLUSHED = 1 << 20
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
    """

    def __init__(self) -> None:
        self._sketch: Any = import_datasketches().kll_doubles_sketch(_SKETCH_SIZE)
        self._count = self._nan = self._above = self._below = self._zeros = 0
        self._finite = 0
        self._equal = 0  # values that are not in the sketch, as all values so far are equal
        self._mean = self._squares = 0.0  # squares: sum of the squared distances from the mean
        self._least: float | None = None
        self._most: float | None = None

    @property
    def count(self) -> int:
        """Number of values, with NaN and infinities."""
        return self._count

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add int64 or float values of any shape."""
        flat = values.reshape(-1)
        self._count += len(flat)
        if flat.dtype.kind == "f":
            flat = self._without_special(flat)
        if not len(flat):
            return
        self._zeros += len(flat) - int(np.count_nonzero(flat))
        least, most = flat.min().item(), flat.max().item()
        before = self._least
        self._least = least if self._least is None else min(self._least, least)
        self._most = most if self._most is None else max(self._most, most)
        numbers = flat.astype(np.float64)
        self._add_moments(numbers)
        if self._least == self._most:
            self._equal += len(numbers)
            return
        self._flush_equal(before)
        self._sketch.update(numbers)

    def _flush_equal(self, value: float | None) -> None:
        """Add the values so far to the sketch, which all are equal."""
        while self._equal:
            count = min(self._equal, _MOST_FLUSHED)
            self._sketch.update(np.full(count, value, np.float64))
            self._equal -= count

    def _without_special(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Count NaN and infinities, and return the other values."""
        is_finite = np.isfinite(values)
        if is_finite.all():
            return values
        special = values[~is_finite]
        self._nan += int(np.isnan(special).sum())
        self._above += int((special == np.inf).sum())
        self._below += int((special == -np.inf).sum())
        finite: npt.NDArray[Any] = values[is_finite]
        return finite

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
        self._flush_equal(self._least)
        std = math.sqrt(self._squares / self._finite) if self._finite else math.nan
        quantiles: dict[float, float] = {}
        if self._finite:
            found = self._sketch.get_quantiles(list(_PROBABILITIES))
            quantiles = {
                rank: self._like_stored(value)
                for rank, value in zip(_PROBABILITIES, found, strict=True)
            }
        is_estimate = self._finite > 0 and self._sketch.is_estimation_mode()
        return NumberSummary(
            self._count,
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
            self._histogram(),
        )

    def _like_stored(self, value: float) -> float:
        """Return an integer if the values are integers."""
        return int(value) if isinstance(self._least, int) else float(value)

    # ---- histograms ----

    def _histogram(self) -> Histogram | None:
        if self._least is None or self._most is None:
            return None
        is_integer = isinstance(self._least, int)
        is_logarithmic = self._is_skewed()
        edges = self._logarithmic_edges() if is_logarithmic else self._edges(is_integer)
        if len(edges) < 2:
            return Histogram((self._least, self._most), (self._finite,))
        # Rounded sums, so that the counts add up to the number of values.
        cumulated = np.rint(np.array(self._sketch.get_cdf(edges)) * self._finite).astype(np.int64)
        ends = cumulated[:-1]
        if edges[-1] >= self._most:
            ends[-1] = self._finite  # the last interval includes its end
        return Histogram(
            tuple(edges),
            tuple(np.diff(ends).tolist()),
            int(ends[0]),
            self._finite - int(ends[-1]),
            has_integers=is_integer and not is_logarithmic and edges[1] - edges[0] == 1,
            is_logarithmic=is_logarithmic,
        )

    def _is_skewed(self) -> bool:
        """Return whether nearly all values would be in the first few intervals of equal width."""
        assert self._least is not None
        assert self._most is not None
        low, middle, high = self._sketch.get_quantiles([0.25, 0.5, 1 - _TAIL])
        return bool(
            self._least > 0 and self._most > _BINS and high > _SKEWED * middle and low < middle
        )

    def _logarithmic_edges(self) -> list[float]:
        assert self._least is not None
        assert self._most is not None
        edges = np.geomspace(self._least, self._most, _BINS + 1)
        edges[0], edges[-1] = self._least, self._most  # without errors of rounding
        if isinstance(self._least, int):
            edges = np.rint(edges)
        return [float(edge) for edge in np.unique(edges)]

    def _edges(self, is_integer: bool) -> list[float]:
        """Return the ends of intervals of equal width, increasing."""
        least, most = self._range()
        if is_integer:
            step = max(1, -((int(most) - int(least) + 1) // -_BINS))
            if most - least < 2 * _BINS:
                step = 1
            edges = np.array(range(int(least), int(most) + step + 1, step), np.float64)
        else:
            parts = np.linspace(0, 1, _BINS + 1)
            edges = least * (1 - parts) + most * parts  # the width may be too large for a float
        # Edges of huge numbers, or of numbers that hardly differ, may be equal.
        return [float(edge) for edge in np.unique(edges)]

    def _range(self) -> tuple[float, float]:
        """Return the ends of a histogram, without long tails."""
        assert self._least is not None
        assert self._most is not None
        low, high = self._sketch.get_quantiles([_TAIL, 1 - _TAIL])
        has_tail = self._finite * _TAIL >= _LEAST_TAIL
        if has_tail and low < high and high - low < (1 - _LONG_TAIL) * (self._most - self._least):
            return low, high
        return self._least, self._most
