"""Statistics of the values of a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .checks import set_fields
from .normalize import Normalize, Numbers

Floats: TypeAlias = npt.NDArray[np.float64]

MOMENTS = ("mean", "std")
BOUNDS = ("min", "max")
QUANTILES = ("q01", "q99")
ARRAYS = (*MOMENTS, *BOUNDS, *QUANTILES)
_LEAST_SCALE = 1e-8  # what Octo, OpenVLA and LeRobot add to the divisor


@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureStatistics:
    """Statistics of each element of a feature, over samples.

    All arrays are float64 and have the shape of one sample. Those that a file lacks are None.

    Attributes:
        mean: Mean of the values.
        std: Standard deviation of the population (``ddof=0``).
        min: Smallest value.
        max: Largest value.
        q01: Quantile 0.01, interpolated linearly as by ``numpy.quantile``.
        q99: Quantile 0.99.
        count: Number of samples.
        mask: Whether each element is normalized, bool; None for all. ``dataclasses.replace(stats,
            mask=[True] * 6 + [False])`` sets it. It is the mask of ``dataset_statistics.json`` of
            OpenVLA.

    Raises:
        ValueError: If the arrays do not have one shape, or a number is not finite.
    """

    mean: Floats
    std: Floats
    min: Floats | None = None
    max: Floats | None = None
    q01: Floats | None = None
    q99: Floats | None = None
    count: int | None = None
    mask: Numbers = None

    def __post_init__(self) -> None:
        for name in (*ARRAYS, "mask"):
            value = getattr(self, name)
            if value is None and name not in MOMENTS:
                continue
            array = np.asarray(value, np.bool_ if name == "mask" else np.float64)
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must have finite numbers, got {array}")
            set_fields(self, **{name: array})
            if array.shape != self.mean.shape:
                raise ValueError(
                    f"{name} must have the shape of mean, {list(self.mean.shape)}, got "
                    f"{list(array.shape)}"
                )

    def by(
        self,
        low: Literal["q01", "min", "mean"],
        high: Literal["q99", "max", "std"],
        *,
        mask: Numbers = None,
        clip: float | None = None,
    ) -> Normalize:
        """Return the normalization by two of the statistics.

        ``by("q01", "q99")`` and ``by("min", "max")`` map the two to -1 and 1; ``by("mean", "std")``
        makes the mean 0 and the standard deviation 1. These are the rules of ``Normalize`` of
        openpi, of ``normalize_action_and_proprio`` of Octo and OpenVLA, and of
        ``NormalizerProcessorStep`` of LeRobot. These add 1e-6 or 1e-8 to the divisor. Here nothing
        is added, so that the inverse is exact, but a scale below 1e-8 becomes 0: the element is
        constant, and its statistics may be rounded.

        Args:
            low: Name of the first statistic.
            high: Name of the second one.
            mask: Whether each element is normalized; by default that of the statistics.
            clip: Largest absolute value of a normalized element; see :class:`Normalize`.

        Raises:
            ValueError: If the names are not one of these pairs, or the statistics lack one.
            SchemaError: If mask or clip is invalid.
        """
        if (low, high) not in (QUANTILES, BOUNDS, MOMENTS):
            raise ValueError(
                "by() takes 'q01' and 'q99', 'min' and 'max', or 'mean' and 'std', got "
                f"{low!r} and {high!r}"
            )
        first, second = self.pick(low), self.pick(high)
        if high != "std":
            first, second = (first + second) / 2, (second - first) / 2
        scale = np.where(second < _LEAST_SCALE, 0.0, second)
        return Normalize(first, scale, self.mask if mask is None else mask, clip)

    def pick(self, name: str) -> Any:
        """Internal interface: return a statistic by its name.

        Raises:
            ValueError: If there is none.
        """
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"the statistics have no {name}: they were loaded without it")
        return value
