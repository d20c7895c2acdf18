"""Geometry of decoding: the part of an image that is used, its size and its position."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._schema.crops import Augment, Crop
from .._schema.image_spec import ImageFeature
from .bad_value import BadValueError
from .random_crop import choose_builtin, generator_of, is_builtin


class CropKey(NamedTuple):
    """Key of the random crop of a record's image. Equal keys give equal crops.

    Attributes:
        key: Key of the random numbers; 16 bytes.
        size: Height and width of the image that the crop is chosen for, after its rotation and
            ``crop``; None for the image itself.
    """

    key: bytes
    size: tuple[int, int] | None = None


KeyFactory: TypeAlias = Callable[[], CropKey]
# Left, top, right and bottom, as for Pillow.
Box: TypeAlias = tuple[float, float, float, float]

_METHODS = {
    "stretch": _core.FitMethod.stretch,
    "cover": _core.FitMethod.cover,
    "contain": _core.FitMethod.contain,
    None: _core.FitMethod.none,
}


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

    def nearest(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the pixels ``[H, W, C]`` of the box, resized to their nearest neighbors."""
        (height, width), (left, top, right, bottom) = self.size, self.resized_box
        rows = _nearest(top, bottom, height)
        return pixels[rows[:, np.newaxis], _nearest(left, right, width)]


def _nearest(start: float, end: float, count: int) -> npt.NDArray[np.intp]:
    """Return the nearest source pixel of each pixel.

    Steps are added up as in Pillow, so that pixels halfway between two are rounded as there.
    """
    steps = np.full(count, (end - start) / count)
    steps[0] = start + steps[0] * 0.5
    return np.cumsum(steps).astype(np.intp)


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
        random = _shared_crop(feature.augment, height, width, make_key())
        top, left, is_flipped = top + random.top, left + random.left, random.flip
        height, width = random.height, random.width
    box = left, top, left + width, top + height
    if feature.size is None:
        return View(box, (0, 0, width, height), (height, width), is_flipped=is_flipped)
    rows, columns = feature.size
    if feature.resize is None and (height, width) != (rows, columns):
        raise BadValueError(
            f"the image has {height} x {width} pixels, the schema wants {rows} x {columns}"
        )
    return View(box, *fit_of(feature).place(height, width), is_flipped)


def fit_of(feature: ImageFeature) -> _core.Fit:
    """Return the rule that resizes images to a feature's ``size``, if it has one."""
    if feature.size is None:
        return _core.Fit((1, 1), _core.FitMethod.whole)
    return _fit(feature.size, feature.resize, feature.short_side)


@functools.lru_cache(maxsize=64)
def _fit(size: tuple[int, int], resize: str | None, short_side: int | None) -> _core.Fit:
    return _core.Fit(size, _METHODS[resize], short_side or 0)


def _shared_crop(augment: Augment, height: int, width: int, crop_key: CropKey) -> Crop:
    """Return the box of an image, which may be chosen for another image of the record."""
    key, (rows, columns) = crop_key.key, crop_key.size or (height, width)
    crop = _random_crop(augment, rows, columns, key)
    if (rows, columns) == (height, width):
        return crop
    top, part_height = _scaled(crop.top, crop.height, height / rows, height)
    left, part_width = _scaled(crop.left, crop.width, width / columns, width)
    return Crop(top, left, part_height, part_width, crop.flip)


def _scaled(start: int, count: int, scale: float, size: int) -> tuple[int, int]:
    """Return the start and length of a scaled part of at least one pixel, in whole pixels."""
    first = min(round(start * scale), size - 1)
    return first, max(1, min(round((start + count) * scale), size) - first)


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
