"""Which part of an image is used, and where in its column it goes: settled before decoding."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from ..schema.crops import Crop
from ..schema.image_spec import ImageFeature
from .bad_value import BadValueError

# Makes the generator of a record's random numbers.
Draw: TypeAlias = Callable[[], np.random.Generator]
# Left, top, right and bottom, as Pillow has them.
Box: TypeAlias = tuple[float, float, float, float]


class View(NamedTuple):
    """What is seen of an image, and where.

    Attributes:
        box: What is cut out, in whole pixels of the image.
        part: What of the box is resized, counted from its left and top.
        size: Height and width that it is resized to.
        at: Top and left of the result in the record's value.
        flip: Whether the result is mirrored.
    """

    box: tuple[int, int, int, int]
    part: Box
    size: tuple[int, int]
    at: tuple[int, int] = (0, 0)
    flip: bool = False

    @property
    def is_resized(self) -> bool:
        """Whether there is more to do than cutting out."""
        height, width = self.size
        left, top, right, bottom = self.box
        whole = (0, 0, right - left, bottom - top)
        return self.part != whole or whole != (0, 0, width, height)

    def eighths(self) -> int:
        """At how many eighths of an image's size there is still a pixel for each that is needed.

        One of 1, 2, 4 and 8: others are decoded more slowly than the whole.
        """
        height, width = self.size
        left, top, right, bottom = self.part
        for eighths in (1, 2, 4):
            if (bottom - top) * eighths >= 8 * height and (right - left) * eighths >= 8 * width:
                return eighths
        return 8


def view_of_image(feature: ImageFeature, height: int, width: int, draw: Draw) -> View:
    """What a feature shows of an image of a size.

    Raises:
        BadValueError: a crop does not fit in the image, it is of another size than ``size`` and not
            to be resized, or ``augment`` failed.
    """
    top, left, flip = 0, 0, False
    if feature.crop is not None:
        fixed = _crop_of(*feature.crop)
        if not _fits(fixed, height, width):
            raise BadValueError(
                f"the crop of {fixed.height} x {fixed.width} pixels at row {fixed.top}, column "
                f"{fixed.left} does not fit in the image of {height} x {width}"
            )
        top, left, height, width, _ = fixed
    if feature.augment is not None:
        drawn = _drawn(feature, height, width, draw)
        top, left, flip = top + drawn.top, left + drawn.left, drawn.flip
        height, width = drawn.height, drawn.width
    box = left, top, left + width, top + height
    if feature.size is None:
        return View(box, (0, 0, width, height), (height, width), flip=flip)
    rows, columns = feature.size
    part, size = (0, 0, width, height), (rows, columns)
    if feature.resize is None and (height, width) != size:
        raise BadValueError(
            f"the image is of {height} x {width} pixels, the schema wants {rows} x {columns}"
        )
    if feature.resize == "cover":
        return View(box, _covering(height, width, size), size, flip=flip)
    if feature.resize == "contain":
        size = _contained(height, width, size)
    # Python's rounding to even, as in PIL.ImageOps.pad.
    at = round((rows - size[0]) * 0.5), round((columns - size[1]) * 0.5)
    return View(box, part, size, at, flip)


def _drawn(feature: ImageFeature, height: int, width: int, draw: Draw) -> Crop:
    """The box that a feature's ``augment`` chooses."""
    assert feature.augment is not None
    try:
        crop = feature.augment(height, width, draw())
    except Exception as error:
        reason = f"the augment function raised {type(error).__name__}: {error}"
        raise BadValueError(reason) from error
    try:
        if not isinstance(crop, Crop):
            raise TypeError
        drawn = _crop_of(*map(operator.index, crop[:4]), flip=bool(crop.flip))
    except (TypeError, ValueError):  # the second of an array's truth
        raise BadValueError(f"the augment function gave no Crop, but {crop!r}") from None
    if not _fits(drawn, height, width):
        raise BadValueError(
            f"the augment function gave {drawn}, which is not in the image of {height} x {width}"
        )
    return drawn


def _crop_of(*box: int, flip: bool = False) -> Crop:
    top, left, height, width = box
    return Crop(top, left, height, width, flip)


def _fits(crop: Crop, height: int, width: int) -> bool:
    rows = crop.top >= 0 and 1 <= crop.height <= height - crop.top
    return rows and crop.left >= 0 and 1 <= crop.width <= width - crop.left


def _covering(height: int, width: int, size: tuple[int, int]) -> Box:
    """The central part of an image that has the shape of a size; as PIL.ImageOps.fit."""
    rows, columns = size
    wanted = columns / rows
    part_height, part_width = float(height), float(width)
    if width / height >= wanted:
        part_width = wanted * height
    else:
        part_height = width / wanted
    left, top = (width - part_width) * 0.5, (height - part_height) * 0.5
    return left, top, left + part_width, top + part_height


def _contained(height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
    """The largest size in another one that has the shape of an image; as PIL.ImageOps.contain."""
    rows, columns = size
    if width / height > columns / rows:
        return max(1, round(height / width * columns)), columns
    if width / height < columns / rows:
        return rows, max(1, round(width / height * rows))
    return size
