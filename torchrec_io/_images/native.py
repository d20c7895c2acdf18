"""Native decoding of JPEGs and common PNGs: cut out and resized, straight into their columns.

The native modules are missing from builds without libjpeg-turbo or libdeflate.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from .. import _core
from .._schema.image_spec import ImageFeature
from ..checks import MOST
from .bad_value import BadValueError
from .exif import Rotation, rotation_of
from .geometry import KeyFactory, View, find_view, fit_of
from .jpeg_markers import SIGNATURE as JPEG_SIGNATURE
from .jpeg_markers import check_jpeg
from .limits import check_pixels
from .png import CHANNELS, read_header
from .random_crop import is_builtin, native_rule

_jpeg: ModuleType | None
_png: ModuleType | None
try:
    from .. import _jpeg
except ImportError:  # built without libjpeg-turbo
    _jpeg = None
try:
    from .. import _png
except ImportError:  # built without libdeflate
    _png = None

Pixels = npt.NDArray[Any]


def decodes_jpegs(feature: ImageFeature) -> bool:
    """Return whether the JPEGs of a feature are decoded natively."""
    if _jpeg is None or feature.decoder not in ("auto", "native") or feature.bitcast:
        return False
    return feature.palette == "color"


def decodes_pngs(feature: ImageFeature) -> bool:
    """Return whether the plain PNGs of a feature are decoded natively."""
    if _png is None or feature.decoder not in ("auto", "native") or feature.bitcast:
        return False
    is_wanted = feature.channels in (1, 3) and not feature.apply_exif_orientation
    return is_wanted and feature.dtype != "uint16"


def is_fast(feature: ImageFeature) -> bool:
    """Return whether the JPEGs of a feature are decoded with the fast transform."""
    return feature.fast or feature.tf_compatible


# ---- columns ----


def column_formats(feature: ImageFeature) -> tuple[Any, ...]:
    """Return the native modules that decode whole columns of a feature; maybe none."""
    if feature.apply_exif_orientation or feature.channels == 0 or feature.animated:
        return ()
    jpeg = _jpeg if decodes_jpegs(feature) else None
    png = _png if decodes_pngs(feature) else None
    return tuple(module for module in (jpeg, png) if module is not None)


def column_rule(feature: ImageFeature) -> _core.ViewRule:
    """Return the native rule that says which part of each image of a column is used.

    If a function of the user chooses it, the rule finds no view of any image.
    """
    augment: Any = feature.augment
    calls_user = augment is not None and not is_builtin(augment)
    return _core.ViewRule(
        fit_of(feature),
        0 if calls_user else min(feature.max_pixels, MOST),
        None if feature.crop is None else _box(*feature.crop),
        None if augment is None or calls_user else native_rule(augment),
        nearest=feature.filter == "nearest",
        gray=feature.palette == "index",
        shrink=feature.fast,
    )


def _box(*numbers: int) -> tuple[int, int, int, int]:
    """Return a box in numbers that fit in 64 bits. Larger ones lie outside of every image."""
    top, left, height, width = (min(number, MOST) for number in numbers)
    return top, left, height, width


# ---- single images ----


def is_native(data: memoryview, feature: ImageFeature) -> bool:
    """Return whether an image is decoded natively."""
    if data[:3] == JPEG_SIGNATURE:
        return decodes_jpegs(feature)
    return decodes_pngs(feature) and _is_plain_png(data, feature)


def _is_plain_png(data: memoryview, feature: ImageFeature) -> bool:
    """Return whether an image is a PNG of gray or RGB with 8 bits, and not interlaced."""
    header = read_header(data)
    if header is None or header.depth != 8 or header.color_type not in CHANNELS:
        return False
    if feature.palette == "index" and header.color_type:  # not gray
        return False
    return not (header.compression or header.filters or header.interlace)


def decode_one(
    data: memoryview, feature: ImageFeature, make_key: KeyFactory
) -> tuple[Pixels, tuple[int, int]]:
    """Decode one image of any size: natively, but resized by Pillow.

    Returns:
        Pixels, uint8 ``[H, W, C]``; and the top and left of the pixels in the value.

    Raises:
        BadValueError: If the image cannot be decoded, or does not fit the feature.
    """
    is_jpeg = data[:3] == JPEG_SIGNATURE
    module: Any = _jpeg if is_jpeg else _png
    file = np.frombuffer(data, np.uint8)
    try:
        if is_jpeg:
            check_jpeg(data)
        height, width, stored = module.read_header(file)
    except ValueError as error:
        raise BadValueError(f"the image cannot be decoded: {error}") from None
    check_pixels(height, width, feature.max_pixels)
    rotation = rotation_of(data) if is_jpeg and feature.apply_exif_orientation else None
    size = (width, height) if rotation is not None and rotation.swaps else (height, width)
    view = find_view(feature, *size, make_key)
    left, top, right, bottom = view.box
    shape = bottom - top, right - left, feature.channels or (1 if stored == 1 else 3)
    pixels = np.empty(shape, np.uint8)
    try:
        target, part = _stored_part(pixels, view.box, rotation, size)
        module.decode_image(file, part, target, fast=is_fast(feature))
    except ValueError as error:
        raise BadValueError(f"the image cannot be decoded: {error}") from None
    if view.is_resized:
        pixels = resize_pixels(pixels, view, feature)
    return pixels[:, ::-1] if view.is_flipped else pixels, view.position


def _stored_part(
    pixels: Pixels, box: tuple[int, int, int, int], rotation: Rotation | None, size: tuple[int, int]
) -> tuple[Pixels, _core.ImageView]:
    """Return the view of an array, and the part of a stored image, for a box of the rotated one."""
    if rotation is not None:
        pixels, box = rotation.undo(pixels), rotation.undo_box(box, size)
    height, width = pixels.shape[:2]
    return pixels, _core.ImageView(box, (0, 0, width, height), (height, width))


def resize_pixels(pixels: Pixels, view: View, feature: ImageFeature) -> Pixels:
    """Return the pixels ``[H, W, C]`` of the box of a view, resized as a feature specifies."""
    if feature.filter == "nearest":
        return view.nearest(pixels)
    channels = pixels.shape[2]
    image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    height, width = view.size
    image = image.resize((width, height), Image.Resampling.BILINEAR, box=view.resized_box)
    return np.asarray(image).reshape(height, width, channels)
