"""Random crops for the ``augment`` argument of ImageFeature."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..checks import is_integer
from ..errors import SchemaError
from .checks import check_key, check_shape, set_fields
from .feature import Spec

_MAX_TRIES = 10  # as in torchvision


class Crop(NamedTuple):
    """The part of an image that is used; the result of an ``augment`` function.

    Attributes:
        top: First row.
        left: First column.
        height: Number of rows, at least 1.
        width: Number of columns, at least 1.
        flip: Whether to mirror the part horizontally.
    """

    top: int
    left: int
    height: int
    width: int
    flip: bool = False


# Takes the height and the width of an image and a generator of random numbers.
Augment: TypeAlias = "Callable[[int, int, np.random.Generator], Crop]"


@dataclass(frozen=True)
class RandomResizedCrop(Spec):
    """A part of random area and shape, for ``ImageFeature(augment=..., size=...)``.

    It follows ``torchvision.transforms.RandomResizedCrop.get_params``: it chooses an area and a
    shape at random up to ten times and takes the first that fits in the image. If none fits, it
    takes the largest central part whose shape is in ``ratio``. The random numbers are NumPy's.

    Args:
        scale: Smallest and largest area of the part, as fractions of the image's area.
        ratio: Smallest and largest ratio of width to height. Its logarithm is uniform.
        flip: Probability that the part is mirrored horizontally, from 0 to 1.
        group: Name of a group of features that get the same part; see :class:`ImageFeature`.

    Raises:
        SchemaError: If an argument is not one of the above.
    """

    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    group: str | None = None

    def __post_init__(self) -> None:
        set_fields(self, scale=_check_pair("scale", self.scale))
        set_fields(
            self, ratio=_check_pair("ratio", self.ratio), flip=check_probability("flip", self.flip)
        )
        _check_group(self.group)
        if self.scale[1] > 1:
            raise SchemaError(f"scale must be at most 1, got {self.scale!r}")

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Crop:
        """Choose a part of an image at random."""
        (smallest, largest), ratios = self.scale, [math.log(ratio) for ratio in self.ratio]
        for _ in range(_MAX_TRIES):
            area = height * width * rng.uniform(smallest, largest)
            ratio = math.exp(rng.uniform(ratios[0], ratios[1]))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                top = int(rng.integers(height - rows + 1))
                left = int(rng.integers(width - columns + 1))
                return Crop(top, left, rows, columns, _is_flipped(self.flip, rng))
        rows, columns = self._largest_part(height, width)
        top, left = (height - rows) // 2, (width - columns) // 2
        return Crop(top, left, rows, columns, _is_flipped(self.flip, rng))

    def _largest_part(self, height: int, width: int) -> tuple[int, int]:
        """Return the size of the largest part whose shape is in ``ratio``."""
        narrowest, widest = self.ratio
        if width / height < narrowest:
            return max(1, round(width / narrowest)), width
        if width / height > widest:
            return height, max(1, round(height * widest))
        return height, width


@dataclass(frozen=True)
class RandomCrop(Spec):
    """A part of one size at a random position, for ``ImageFeature(augment=...)``.

    It is ``torchvision.transforms.RandomCrop`` without padding: an image that is smaller cannot be
    decoded. If the size is also the feature's ``size``, nothing is resized.

    Args:
        size: Size ``(height, width)`` of the part.
        flip: Probability that the part is mirrored horizontally, from 0 to 1.
        group: Name of a group of features that get the same part; see :class:`ImageFeature`.

    Raises:
        SchemaError: If an argument is not one of the above.
    """

    size: Sequence[int]
    flip: float = 0.5
    group: str | None = None

    def __post_init__(self) -> None:
        set_fields(self, size=check_size(self.size), flip=check_probability("flip", self.flip))
        _check_group(self.group)

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Crop:
        """Choose a part of an image at random."""
        rows, columns = self.size
        if height < rows or width < columns:
            raise ValueError(
                f"an image of {height} x {width} pixels is smaller than the crop of "
                f"{rows} x {columns}"
            )
        top = int(rng.integers(height - rows + 1))
        left = int(rng.integers(width - columns + 1))
        return Crop(top, left, rows, columns, _is_flipped(self.flip, rng))


@dataclass(frozen=True)
class RandomFlip(Spec):
    """The whole image, mirrored at random, for ``ImageFeature(augment=...)``.

    Args:
        flip: Probability that the image is mirrored horizontally, from 0 to 1.
        group: Name of a group of features that are mirrored together; see :class:`ImageFeature`.

    Raises:
        SchemaError: If an argument is not one of the above.
    """

    flip: float = 0.5
    group: str | None = None

    def __post_init__(self) -> None:
        set_fields(self, flip=check_probability("flip", self.flip))
        _check_group(self.group)

    def __call__(self, height: int, width: int, rng: np.random.Generator) -> Crop:
        """Choose at random whether to mirror an image."""
        return Crop(0, 0, height, width, _is_flipped(self.flip, rng))


def check_size(size: Any) -> tuple[int, int]:
    """Return a height and a width as a tuple.

    Raises:
        SchemaError: If these are not two positive integers.
    """
    sizes = check_shape(size, "size")
    if len(sizes) != 2 or 0 in sizes:
        raise SchemaError(f"size must be (height, width), got {size!r}")
    return sizes[0], sizes[1]


def group_of(augment: Augment | None) -> str | None:
    """Return the group of an ``augment`` function; None if it has none."""
    group = getattr(augment, "group", None)
    return group if isinstance(group, str) else None


def _check_group(group: Any) -> None:
    if group is not None:
        check_key("group", group, "a group")


def _is_flipped(probability: float, rng: np.random.Generator) -> bool:
    return bool(rng.random() < probability)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return is_integer(value) or (isinstance(value, (float, np.floating)) and math.isfinite(value))


def _check_pair(name: str, ends: Any) -> tuple[float, float]:
    pair = tuple(ends) if isinstance(ends, (tuple, list)) else ()
    if len(pair) != 2 or not all(map(is_number, pair)) or not 0 < pair[0] <= pair[1]:
        raise SchemaError(f"{name} must be two positive numbers in ascending order, got {ends!r}")
    return float(pair[0]), float(pair[1])


def check_probability(name: str, value: Any) -> float:
    """Return an argument as a float.

    Raises:
        SchemaError: If the argument is not a number from 0 to 1.
    """
    if not is_number(value) or not 0 <= value <= 1:
        raise SchemaError(f"{name} must be a number from 0 to 1, got {value!r}")
    return float(value)
