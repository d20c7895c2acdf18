"""Native decoding of JPEGs and common PNGs: cut out and resized, straight into arrays.

The native modules are missing from builds without libjpeg-turbo or libdeflate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from .. import _core
from .._schema.image_spec import ImageFeature
from ..checks import MOST
from .bad_value import BadValueError
from .exif import Rotation, rotation_of
from .geometry import KeyFactory, View, find_view, fit_of
from .jpeg_markers import MAX_SCANS, check_jpeg
from .jpeg_markers import SIGNATURE as JPEG_SIGNATURE
from .levels import fill_values, inner_part, write_levels
from .limits import check_pixels
from .png import CHANNELS, read_header
from .random_crop import is_builtin, native_rule

try:
    from .. import _jpeg
except ImportError:  # built without libjpeg-turbo
    _jpeg = None  # type: ignore[assignment]
try:
    from .. import _png
except ImportError:  # built without libdeflate
    _png = None  # type: ignore[assignment]

Pixels = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


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


def column_rule(feature: ImageFeature) -> _core.ViewRule | None:
    """Return the rule by which :func:`decode_column` decodes JPEGs; None if it cannot."""
    if not decodes_jpegs(feature) or feature.size is None or feature.filter == "nearest":
        return None
    if feature.apply_exif_orientation or feature.fast:
        return None
    augment = feature.augment
    if augment is not None and not is_builtin(augment):
        return None
    return _core.ViewRule(
        fit_of(feature),
        feature.max_pixels,
        None if feature.crop is None else _box(*feature.crop),
        None if augment is None else native_rule(augment),
    )


def _box(*numbers: int) -> tuple[int, int, int, int]:
    """Return a box in numbers that fit in 64 bits. Larger ones lie outside of every image."""
    top, left, height, width = (min(number, MOST) for number in numbers)
    return top, left, height, width


def decode_column(
    rule: _core.ViewRule,
    feature: ImageFeature,
    images: StoredImages,
    values: Pixels,
    tables: Pixels | None,
) -> list[int]:
    """Decode the JPEGs of a column into arrays of the feature's ``size``, without Python for each.

    Args:
        rule: The result of :func:`column_rule`.
        feature: Feature spec.
        images: The images.
        values: Arrays for the images; ``[n, H, W, C]`` with any strides.
        tables: Tables of values, as for :func:`decode_into`.

    Returns:
        The positions of the images that were not decoded: other formats, bad images, and those that
        shrink much. :func:`decode_into` decodes them, or says what is wrong.
    """
    if feature.resize == "contain":
        values[...] = fill_values(feature, tables)
    left: list[int] = _jpeg.decode_column(
        images.records,
        images.which,
        images.offsets,
        images.sizes,
        values,
        rule,
        MAX_SCANS,
        images.keys,
        _stored(tables),
        fast=feature.tf_compatible,
    )
    return left


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


class StoredImages(NamedTuple):
    """Image files in records.

    Attributes:
        records: The records.
        which: Position of each image's record; int64 ``[n]``.
        offsets: Offset of each image in its record; int64 ``[n]``.
        sizes: Size of each image in bytes; int64 ``[n]``.
        keys: Key of the random numbers of each image, 16 bytes each; None without ``augment``.
    """

    records: _core.Records
    which: Ints
    offsets: Ints
    sizes: Ints
    keys: bytes | None


class _StoredImage(NamedTuple):
    """An image file, and the facts of its header."""

    data: memoryview
    height: int
    width: int
    channels: int
    is_jpeg: bool


class _DecodeTask(NamedTuple):
    """The part of a stored image that is decoded into an array.

    Attributes:
        file: Bytes of the image.
        is_jpeg: Whether the image is a JPEG. Otherwise it is a PNG.
        view: The part, in the coordinates of the stored image.
        target: Array ``[H, W, C]`` for its pixels, as they are stored.
    """

    file: Pixels
    is_jpeg: bool
    view: _core.ImageView
    target: Pixels


def decode_into(
    images: Sequence[memoryview],
    feature: ImageFeature,
    make_keys: Sequence[KeyFactory],
    values: Sequence[Pixels],
    tables: Pixels | None,
) -> list[tuple[int, str]]:
    """Decode images into arrays of the feature's ``size``.

    Args:
        images: Bytes of the image files.
        feature: Feature spec.
        make_keys: For each image, the function that makes the key of its random numbers.
        values: Array for each image; ``[H, W, C]`` with any strides.
        tables: Values of the levels 0 to 255; ``[C, 256]``. None for the levels themselves, uint8.

    Returns:
        The position of each image that cannot be decoded, with the reason.
    """
    fill = fill_values(feature, tables)
    failures: list[tuple[int, str]] = []
    tasks: dict[int, _DecodeTask] = {}
    for place, image in enumerate(images):
        try:
            stored = _read_stored(image)
            view, rotation = _find_view(stored, feature, make_keys[place])
            inner = inner_part(values[place], view.position, view.size, fill)
            if _is_resized_here(view, feature):
                pixels = _resize(stored, view, rotation, feature, inner.shape[2])
                write_levels(pixels, inner, tables)
                continue
        except BadValueError as error:
            failures.append((place, str(error)))
            continue
        tasks[place] = _task_of(stored, view, rotation, inner, feature)
    return sorted([*failures, *_decode(tasks, feature, tables)])


def decode_one(
    data: memoryview, feature: ImageFeature, make_key: KeyFactory
) -> tuple[Pixels, tuple[int, int]]:
    """Decode one image of any size.

    Returns:
        Pixels, uint8 ``[H, W, C]``; and the top and left of the pixels in the value.

    Raises:
        BadValueError: If the image cannot be decoded, or does not fit the feature.
    """
    stored = _read_stored(data)
    view, rotation = _find_view(stored, feature, make_key)
    channels = feature.channels or (1 if stored.channels == 1 else 3)
    if _is_resized_here(view, feature):
        return _resize(stored, view, rotation, feature, channels), view.position
    return _decode_view(stored, view, rotation, feature, channels), view.position


def _is_resized_here(view: View, feature: ImageFeature) -> bool:
    """Return whether native code decodes an image, but does not resize it.

    It has no other filter, and is not exact enough for an image that shrinks much.
    """
    if feature.filter == "nearest":
        return view.is_resized
    return not feature.fast and _core.ImageView(*view[:3]).shrinks_much


def _resize(
    stored: _StoredImage,
    view: View,
    rotation: Rotation | None,
    feature: ImageFeature,
    channels: int,
) -> Pixels:
    """Decode the box of a view, and resize it without native code."""
    left, top, right, bottom = view.box
    size = bottom - top, right - left
    box = view._replace(resized_box=(0, 0, size[1], size[0]), size=size, is_flipped=False)
    pixels = _decode_view(stored, box, rotation, feature, channels)
    if feature.filter == "nearest":
        resized = view.nearest(pixels)
    else:
        image = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
        height, width = view.size
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=view.resized_box)
        resized = np.asarray(image).reshape(height, width, channels)
    return resized[:, ::-1] if view.is_flipped else resized


def _decode_view(
    stored: _StoredImage,
    view: View,
    rotation: Rotation | None,
    feature: ImageFeature,
    channels: int,
) -> Pixels:
    pixels = np.empty((*view.size, channels), np.uint8)
    task = _task_of(stored, view, rotation, pixels, feature)
    for _, reason in _decode({0: task}, feature, None):
        raise BadValueError(reason)
    return pixels


def _read_stored(data: memoryview) -> _StoredImage:
    """Read and check the header of an image, without decoding the image."""
    header = read_header(data)
    if header is not None:
        channels = CHANNELS[header.color_type]
        return _StoredImage(data, header.height, header.width, channels, is_jpeg=False)
    try:
        check_jpeg(data)
    except ValueError as error:
        raise BadValueError(f"the image cannot be decoded: {error}") from None
    [found] = _jpeg.read_jpeg_headers([_bytes_of(data)])
    if found.reason:
        raise BadValueError(f"the image cannot be decoded: {found.reason}")
    return _StoredImage(data, found.height, found.width, found.components, is_jpeg=True)


def _bytes_of(image: memoryview) -> Pixels:
    return np.frombuffer(image, np.uint8)


def _decode(
    tasks: Mapping[int, _DecodeTask], feature: ImageFeature, tables: Pixels | None
) -> list[tuple[int, str]]:
    """Decode images, by their positions; return the position and reason of each failure."""
    jpegs = {place: task for place, task in tasks.items() if task.is_jpeg}
    pngs = {place: task for place, task in tasks.items() if not task.is_jpeg}
    stored_tables = _stored(tables)
    failures: list[tuple[int, str]] = []
    if jpegs:
        is_fast = feature.fast or feature.tf_compatible
        failed = _jpeg.decode_jpegs(*_arguments(jpegs), stored_tables, fast=is_fast)
        failures += _named(jpegs, failed)
    if pngs:
        failures += _named(pngs, _png.decode_pngs(*_arguments(pngs), stored_tables))
    return failures


def _stored(tables: Pixels | None) -> npt.NDArray[np.uint8] | None:
    return None if tables is None else tables.reshape(-1).view(np.uint8)


def _arguments(
    tasks: Mapping[int, _DecodeTask],
) -> tuple[list[Pixels], list[_core.ImageView], list[Pixels]]:
    files = [task.file for task in tasks.values()]
    return files, [task.view for task in tasks.values()], [task.target for task in tasks.values()]


def _named(
    tasks: Mapping[int, _DecodeTask], failed: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    places = list(tasks)
    return [(places[at], f"the image cannot be decoded: {reason}") for at, reason in failed]


def _find_view(
    stored: _StoredImage, feature: ImageFeature, make_key: KeyFactory
) -> tuple[View, Rotation | None]:
    """Return the part of an image that a feature uses, and how the image is rotated before."""
    check_pixels(stored.height, stored.width, feature.max_pixels)
    rotation = rotation_of(stored.data) if feature.apply_exif_orientation else None
    size = stored.height, stored.width
    if rotation is not None and rotation.swaps:
        size = stored.width, stored.height
    return find_view(feature, *size, make_key), rotation


def _task_of(
    stored: _StoredImage,
    view: View,
    rotation: Rotation | None,
    inner: Pixels,
    feature: ImageFeature,
) -> _DecodeTask:
    """Return the decoding that writes a view of the rotated image into an array.

    The stored image is resized first and rotated when it is written: the strides of the array do
    both the rotation and the mirroring.
    """
    target = inner[:, ::-1] if view.is_flipped else inner
    height, width = stored.height, stored.width
    if rotation is not None:
        rotated = (width, height) if rotation.swaps else (height, width)
        target = rotation.undo(target)
        view = rotation.undo_view(view, rotated)
    eighths = view.eighths() if feature.fast and stored.is_jpeg else 8
    if eighths < 8:
        view = _scaled(view, eighths, height, width)
    decoded = _core.ImageView(view.box, view.resized_box, view.size, eighths)
    return _DecodeTask(_bytes_of(stored.data), stored.is_jpeg, decoded, target)


def _scaled(view: View, eighths: int, height: int, width: int) -> View:
    """Convert a view to that of the same image decoded at some eighths of its size."""
    scale = eighths / 8
    rows, columns = -(-height * eighths // 8), -(-width * eighths // 8)
    (left, top, *_), (from_x, from_y, to_x, to_y) = view.box, view.resized_box
    return view._replace(
        box=(0, 0, columns, rows),
        resized_box=(
            (left + from_x) * scale,
            (top + from_y) * scale,
            min((left + to_x) * scale, columns),
            min((top + to_y) * scale, rows),
        ),
    )
