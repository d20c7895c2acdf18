"""Random changes of colors for the ``jitter`` argument of ImageFeature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..errors import SchemaError
from .checks import set_fields
from .crops import check_probability, is_number
from .feature import Spec

Strength: TypeAlias = "float | Sequence[float]"

_MOST_FACTOR = 1e6


class FactorRanges(NamedTuple):
    """Smallest and largest factor of each change of colors."""

    brightness: tuple[float, float]
    contrast: tuple[float, float]
    saturation: tuple[float, float]
    hue: tuple[float, float]


@dataclass(frozen=True)
class ColorJitter(Spec):
    """Random brightness, contrast, saturation and hue, for ``ImageFeature(jitter=...)``.

    The arguments and the pixels are those of ``torchvision.transforms.v2.ColorJitter`` for uint8
    images: the changes are made in random order, and each rounds down to levels from 0 to 255. A
    hue, and the contrast of more than 65,793 pixels, may differ by one level. The random numbers
    are NumPy's.

    Args:
        brightness: Strength of the change, at least 0: the factor is chosen uniformly from
            ``1 - brightness``, but at least 0, to ``1 + brightness``. Or a pair: the smallest and
            the largest factor, from 0 to 1,000,000.
        contrast: The same for the contrast: levels move away from the mean gray level.
        saturation: The same for the saturation: levels move away from the gray level of the pixel.
        hue: Strength of the change, from 0 to 0.5: the hue is turned by ``-hue`` to ``hue`` of the
            circle. Or a pair: the smallest and the largest turn, from -0.5 to 0.5.
        p: Probability that an image is changed, from 0 to 1, as for ``RandomApply``.

    Raises:
        SchemaError: If an argument is not one of the above.
    """

    brightness: Strength = 0
    contrast: Strength = 0
    saturation: Strength = 0
    hue: Strength = 0
    p: float = 1.0

    def __post_init__(self) -> None:
        for name in FactorRanges._fields:
            set_fields(self, **{name: _check_strength(name, getattr(self, name))})
        set_fields(self, p=check_probability("p", self.p))

    @property
    def ranges(self) -> FactorRanges:
        """Smallest and largest factor of each change."""
        return FactorRanges(
            _range_of(self.brightness, 1),
            _range_of(self.contrast, 1),
            _range_of(self.saturation, 1),
            _range_of(self.hue, 0),
        )


def _range_of(strength: Any, middle: float) -> tuple[float, float]:
    if isinstance(strength, tuple):
        return strength
    low = middle - strength
    return (max(low, 0.0) if middle else low), middle + strength


def _check_strength(name: str, strength: Any) -> float | tuple[float, float]:
    """Return a strength as a float, or a range of factors as a tuple."""
    low, high, most = (-0.5, 0.5, 0.5) if name == "hue" else (0.0, _MOST_FACTOR, _MOST_FACTOR - 1)
    if is_number(strength) and 0 <= strength <= most:
        return float(strength)
    pair = tuple(strength) if isinstance(strength, (tuple, list)) else ()
    if len(pair) == 2 and all(map(is_number, pair)) and low <= pair[0] <= pair[1] <= high:
        return float(pair[0]), float(pair[1])
    raise SchemaError(
        f"{name} must be a number from 0 to {most:g}, or two numbers from {low:g} to {high:g} in "
        f"ascending order, got {strength!r}"
    )
