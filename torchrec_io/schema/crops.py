"""Random crops: what an ImageFeature's ``augment`` gives, and two that do as torchvision's do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..errors import SchemaError
from .checks import check_shape, set_fields

_TRIES = 10  # torchvision's


class Crop(NamedTuple):
    """The part of an image that is used: what an ``augment`` function returns.

    Attributes:
        top: Its first row.
        left: Its first column.
        height: Rows, from 1.
        width: Columns, from 1.
        flip: Whether left and right are exchanged.
    """

    top: int
    left: int
    height: int
    width: int
    flip: bool = False


# Gets height and width of an image, and a generator for its random numbers.
Augment: TypeAlias = Callable[[int, int, np.random.Generator], Crop]


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of random area and shape, for ``ImageFeature(augment=..., size=...)``.

    It follows ``torchvision.transforms.RandomResizedCrop.get_params``: ten times
    it draws an area and a shape, and takes the first that fits in the image; if none does, the
    largest central part whose shape is in ``ratio``. The random numbers are NumPy's.

    Args:
        scale: Least and greatest area of the part, as fractions of the image's.
        ratio: Least and greatest width divided by height. It is drawn evenly by its logarithm.
        flip: How likely left and right are exchanged, from 0 to 1.

    Raises:
        SchemaError: an argument is not one of the above.
    """

    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        set_fields(self, scale=_range(self.scale, "scale"), ratio=_range(self.ratio, "ratio"))
        set_fields(self, flip=_chance(self.flip))
        if self.scale[1] > 1:
            raise SchemaError(f"no part is larger than the image: scale {self.scale!r}")

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Crop:
        """Draws a part of an image."""
        (least, most), ratios = self.scale, [math.log(ratio) for ratio in self.ratio]
        for _ in range(_TRIES):
            area = height * width * rng.uniform(least, most)
            ratio = math.exp(rng.uniform(ratios[0], ratios[1]))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                top = int(rng.integers(height - rows + 1))
                left = int(rng.integers(width - columns + 1))
                return Crop(top, left, rows, columns, _flips(self.flip, rng))
        rows, columns = self._largest(height, width)
        top, left = (height - rows) // 2, (width - columns) // 2
        return Crop(top, left, rows, columns, _flips(self.flip, rng))

    def _largest(self, height: int, width: int) -> tuple[int, int]:
        """Size of the largest part of a shape in ``ratio``."""
        least, most = self.ratio
        if width / height < least:
            return max(1, round(width / least)), width
        if width / height > most:
            return height, max(1, round(height * most))
        return height, width


@dataclass(frozen=True)
class RandomCrop:
    """A part of one size at a random place, for ``ImageFeature(augment=...)``.

    It is ``torchvision.transforms.RandomCrop`` without padding: an image that is smaller cannot be
    decoded. With the same size as the feature's ``size`` nothing is resized.

    Args:
        size: ``(height, width)``.
        flip: How likely left and right are exchanged, from 0 to 1.

    Raises:
        SchemaError: an argument is not one of the above.
    """

    size: Sequence[int]
    flip: float = 0.5

    def __post_init__(self) -> None:
        set_fields(self, size=check_size(self.size), flip=_chance(self.flip))

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Crop:
        """Draws a part of an image."""
        rows, columns = self.size
        if height < rows or width < columns:
            raise ValueError(
                f"an image of {height} x {width} pixels is smaller than the crop of "
                f"{rows} x {columns}"
            )
        top = int(rng.integers(height - rows + 1))
        left = int(rng.integers(width - columns + 1))
        return Crop(top, left, rows, columns, _flips(self.flip, rng))


def check_size(size: Any) -> tuple[int, int]:
    """A height and a width, both from 1; a SchemaError for anything else."""
    sizes = check_shape(size)
    if len(sizes) != 2 or 0 in sizes:
        raise SchemaError(f"size must be (height, width), not {size!r}")
    return sizes[0], sizes[1]


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, which a bool is not meant to be here."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return real and math.isfinite(value)


def _flips(chance: float, rng: np.random.Generator) -> bool:
    return bool(rng.random() < chance)


def _range(ends: Any, what: str) -> tuple[float, float]:
    pair = tuple(ends) if isinstance(ends, (tuple, list)) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1]:
        raise SchemaError(f"{what} must be two numbers above 0, the least first, not {ends!r}")
    return float(pair[0]), float(pair[1])


def _chance(chance: Any) -> float:
    if not is_number(chance) or not 0 <= chance <= 1:
        raise SchemaError(f"flip must be a number from 0 to 1, not {chance!r}")
    return float(chance)
