"""Geometry of decoding: the part of an image that is used, its size and its position."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..schema.crops import Augment, Crop
from ..schema.image_spec import ImageFeature
from .bad_value import BadValueError
from .random_crop import choose_builtin, generator_of, is_builtin

# Makes the key of the random numbers of a record; 16 bytes.
KeyFactory: TypeAlias = Callable[[], bytes]
# Left, top, right and bottom, as for Pillow.
Box: TypeAlias = tuple[float, float, float, float]


class View(NamedTuple):
    """The part of an image that becomes a value, and how.

    Attributes:
        box: Part that is cut out, in whole pixels of the image.
        resized_box: Part of the box that is resized, relative to its left and top.
        size: Height and width after resizing.
        position: Top and left of the result in the value, which may be larger.
        is_flipped: Whether the result is mirrored left to right.
    """

    box: tuple[int, int, int, int]
    resized_box: Box
    size: tuple[int, int]
    position: tuple[int, int] = (0, 0)
    is_flipped: bool = False

    @property
    def is_resized(self) -> bool:
        """True if cutting out the box is not enough."""
        height, width = self.size
        left, top, right, bottom = self.box
        whole_box = (0, 0, right - left, bottom - top)
        return self.resized_box != whole_box or whole_box != (0, 0, width, height)

    def eighths(self) -> int:
        """Return the smallest scale, in eighths, with at least one pixel for each needed one.

        It is 1, 2, 4 or 8: decoding at other scales is slower than at full size.
        """
        height, width = self.size
        left, top, right, bottom = self.resized_box
        for eighths in (1, 2, 4):
            if (bottom - top) * eighths >= 8 * height and (right - left) * eighths >= 8 * width:
                return eighths
        return 8


def find_view(feature: ImageFeature, height: int, width: int, make_key: KeyFactory) -> View:
    """Return the part of an image that a feature uses.

    Args:
        feature: Feature spec.
        height: Height of the image.
        width: Width of the image.
        make_key: Function that makes the key of the random numbers for ``augment``.

    Raises:
        BadValueError: If a crop does not fit in the image, the image has another size than ``size``
            and must not be resized, or ``augment`` fails.
    """
    top, left, is_flipped = 0, 0, False
    if feature.crop is not None:
        fixed = _crop(*feature.crop)
        if not _fits(fixed, height, width):
            raise BadValueError(
                f"the crop of {fixed.height} x {fixed.width} pixels at row {fixed.top}, column "
                f"{fixed.left} does not fit in the image of {height} x {width}"
            )
        top, left, height, width, _ = fixed
    if feature.augment is not None:
        random = _random_crop(feature.augment, height, width, make_key())
        top, left, is_flipped = top + random.top, left + random.left, random.flip
        height, width = random.height, random.width
    box = left, top, left + width, top + height
    if feature.size is None:
        return View(box, (0, 0, width, height), (height, width), is_flipped=is_flipped)
    rows, columns = feature.size
    resized_box, size = (0, 0, width, height), (rows, columns)
    if feature.resize is None and (height, width) != size:
        raise BadValueError(
            f"the image has {height} x {width} pixels, the schema wants {rows} x {columns}"
        )
    if feature.resize == "cover":
        part = _covering_box(height, width, size)
        if feature.short_side is not None:
            part = _central_box(height, width, feature.short_side, size)
        return View(box, part, size, is_flipped=is_flipped)
    if feature.resize == "contain":
        size = _contained_size(height, width, size)
    # Rounds half to even, as PIL.ImageOps.pad does.
    position = round((rows - size[0]) * 0.5), round((columns - size[1]) * 0.5)
    return View(box, resized_box, size, position, is_flipped)


def _random_crop(augment: Augment, height: int, width: int, key: bytes) -> Crop:
    """Return the box that a feature's ``augment`` chooses."""
    try:
        if is_builtin(augment):
            return choose_builtin(augment, height, width, key)
        returned = augment(height, width, generator_of(key))
    except Exception as error:
        reason = f"the augment function raised {type(error).__name__}: {error}"
        raise BadValueError(reason) from error
    try:
        if not isinstance(returned, Crop):
            raise TypeError
        crop = _crop(*map(operator.index, returned[:4]), flip=bool(returned.flip))
    except (TypeError, ValueError):  # bool() of an array raises ValueError
        raise BadValueError(
            f"the augment function must return a Crop of integers, got {returned!r}"
        ) from None
    if not _fits(crop, height, width):
        raise BadValueError(
            f"the augment function returned {crop}, which is not in the image of {height} x {width}"
        )
    return crop


def _crop(*box: int, flip: bool = False) -> Crop:
    top, left, height, width = box
    return Crop(top, left, height, width, flip)


def _fits(crop: Crop, height: int, width: int) -> bool:
    rows = crop.top >= 0 and 1 <= crop.height <= height - crop.top
    return rows and crop.left >= 0 and 1 <= crop.width <= width - crop.left


def _covering_box(height: int, width: int, size: tuple[int, int]) -> Box:
    """Return the central part of an image with the shape of a size, as PIL.ImageOps.fit does."""
    rows, columns = size
    ratio = columns / rows
    box_height, box_width = float(height), float(width)
    if width / height >= ratio:
        box_width = ratio * height
    else:
        box_height = width / ratio
    left, top = (width - box_width) * 0.5, (height - box_height) * 0.5
    return left, top, left + box_width, top + box_height


def _central_box(height: int, width: int, short_side: int, size: tuple[int, int]) -> Box:
    """Return the part of an image that is the center of the image resized to a shorter side.

    Sizes and positions are rounded as in torchvision's Resize and CenterCrop.
    """
    if height <= width:
        resized_height, resized_width = short_side, int(short_side * width / height)
    else:
        resized_height, resized_width = int(short_side * height / width), short_side
    top, left = round((resized_height - size[0]) / 2.0), round((resized_width - size[1]) / 2.0)
    down, across = height / resized_height, width / resized_width
    return left * across, top * down, (left + size[1]) * across, (top + size[0]) * down


def _contained_size(height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the largest size in another one with an image's shape, as PIL.ImageOps.contain."""
    rows, columns = size
    if width / height > columns / rows:
        return max(1, round(height / width * columns)), columns
    if width / height < columns / rows:
        return rows, max(1, round(width / height * rows))
    return size
