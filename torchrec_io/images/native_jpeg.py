"""Native decoding of JPEGs: rows and columns that are needed, resized, straight into arrays.

The native module is missing from builds without libjpeg-turbo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..schema.image_spec import ImageFeature
from .bad_value import BadValueError
from .exif import Rotation, rotation_of
from .geometry import KeyFactory, View, find_view
from .jpeg_markers import SIGNATURE, check_jpeg
from .levels import fill_values, inner_part
from .limits import check_pixels

try:
    from .. import _jpeg
except ImportError:  # built without libjpeg-turbo
    _jpeg = None  # type: ignore[assignment]

Pixels = npt.NDArray[Any]


def decodes_natively(feature: ImageFeature) -> bool:
    """Return whether the JPEGs of a feature are decoded natively."""
    return feature.decoder in ("auto", "native") and _jpeg is not None


def is_native(data: memoryview, feature: ImageFeature) -> bool:
    """Return whether an image is decoded natively."""
    return data[:3] == SIGNATURE and decodes_natively(feature) and not feature.bitcast


class _Part(NamedTuple):
    """The part of a stored image that is decoded into an array.

    Attributes:
        view: The part, in the coordinates of the stored image.
        target: Array ``[H, W, C]`` for its pixels, as they are stored.
    """

    view: Any
    target: Pixels


def decode_into(
    images: Sequence[memoryview],
    feature: ImageFeature,
    make_keys: Sequence[KeyFactory],
    values: Sequence[Pixels],
    tables: Pixels | None,
) -> list[tuple[int, str]]:
    """Decode JPEGs into arrays of the feature's ``size``.

    Args:
        images: Bytes of the image files.
        feature: Feature spec.
        make_keys: For each image, the function that makes the key of its random numbers.
        values: Array for each image; ``[H, W, C]`` with any strides.
        tables: Values of the levels 0 to 255; ``[C, 256]``. None for the levels themselves, uint8.

    Returns:
        The position of each image that cannot be decoded, with the reason.
    """
    files = [_bytes_of(image) for image in images]
    headers = _jpeg.read_jpeg_headers(files)
    fill = fill_values(feature, tables)
    failures: list[tuple[int, str]] = []
    places: list[int] = []
    parts: list[_Part] = []
    for place, header in enumerate(headers):
        try:
            check_jpeg(images[place])
            view, rotation = _find_view(images[place], feature, header, make_keys[place])
        except BadValueError as error:
            failures.append((place, str(error)))
            continue
        except ValueError as error:
            failures.append((place, f"the image cannot be decoded: {error}"))
            continue
        inner = inner_part(values[place], view.position, view.size, fill)
        places.append(place)
        parts.append(_part_of(view, rotation, inner, feature, (header.height, header.width)))
    failed = _decode([files[place] for place in places], parts, feature, tables)
    return sorted([*failures, *((places[at], reason) for at, reason in failed)])


def decode_one(
    data: memoryview, feature: ImageFeature, make_key: KeyFactory
) -> tuple[Pixels, tuple[int, int]]:
    """Decode one JPEG of any size.

    Returns:
        Pixels, uint8 ``[H, W, C]``; and the top and left of the pixels in the value.

    Raises:
        BadValueError: If the image cannot be decoded, or does not fit the feature.
    """
    file = _bytes_of(data)
    [header] = _jpeg.read_jpeg_headers([file])
    view, rotation = _find_view(data, feature, header, make_key)
    channels = feature.channels or (1 if header.components == 1 else 3)
    pixels = np.empty((*view.size, channels), np.uint8)
    part = _part_of(view, rotation, pixels, feature, (header.height, header.width))
    for _, reason in _decode([file], [part], feature, None):
        raise BadValueError(reason)
    return pixels, view.position


def _bytes_of(image: memoryview) -> Pixels:
    return np.frombuffer(image, np.uint8)


def _decode(
    images: Sequence[Pixels],
    parts: Sequence[_Part],
    feature: ImageFeature,
    tables: Pixels | None,
) -> list[tuple[int, str]]:
    failed = _jpeg.decode_jpegs(
        images,
        [part.view for part in parts],
        [part.target for part in parts],
        None if tables is None else tables.reshape(-1).view(np.uint8),
        fast=feature.fast or feature.tf_compatible,
    )
    return [(at, f"the image cannot be decoded: {reason}") for at, reason in failed]


def _find_view(
    data: memoryview, feature: ImageFeature, header: Any, make_key: KeyFactory
) -> tuple[View, Rotation | None]:
    """Return the part of an image that a feature uses, and how the image is rotated before."""
    if header.reason:
        raise BadValueError(f"the image cannot be decoded: {header.reason}")
    check_pixels(header.height, header.width, feature.max_pixels)
    rotation = rotation_of(data) if feature.apply_exif_orientation else None
    size = header.height, header.width
    if rotation is not None and rotation.swaps:
        size = header.width, header.height
    return find_view(feature, *size, make_key), rotation


def _part_of(
    view: View,
    rotation: Rotation | None,
    inner: Pixels,
    feature: ImageFeature,
    stored_size: tuple[int, int],
) -> _Part:
    """Return what to decode so that an array becomes a view of the rotated image.

    The stored image is resized first and rotated when it is written: the strides of the array do
    both the rotation and the mirroring.
    """
    target = inner[:, ::-1] if view.is_flipped else inner
    height, width = stored_size
    if rotation is not None:
        rotated = (width, height) if rotation.swaps else (height, width)
        target = rotation.undo(target)
        view = rotation.undo_view(view, rotated)
    eighths = view.eighths() if feature.fast else 8
    if eighths < 8:
        view = _scaled(view, eighths, height, width)
    return _Part(_jpeg.ImageView(view.box, view.resized_box, view.size, eighths), target)


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
