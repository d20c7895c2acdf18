"""From the levels 0 to 255 of decoded images to the values of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._schema.dtypes import numeric_bytes
from .._schema.image_spec import ImageFeature

_LEVELS = np.arange(256)
_UNIT = np.float32(1 / 255)


def value_tables(feature: ImageFeature) -> npt.NDArray[Any] | None:
    """Return the value of each level in each channel; ``[C, 256]``, None if it is the level.

    Floats are computed in float32, as torchvision's ``ToDtype(scale=True)`` and ``Normalize`` do,
    and then rounded to the dtype. The bits of a bfloat16 are a uint16. The values of a uint16 are
    those of images that are not PNGs.
    """
    channels = feature.channels or 4
    if feature.dtype == "uint8":
        return None
    if feature.dtype == "uint16":
        return np.tile((_LEVELS * 256).astype(np.uint16), (channels, 1))
    values = np.tile(_LEVELS.astype(np.float32) * _UNIT, (channels, 1))
    if feature.mean is not None:
        values -= np.array(feature.mean, np.float32)[:, np.newaxis]
    if feature.std is not None:
        values /= np.array(feature.std, np.float32)[:, np.newaxis]
    dtype = "<u2" if feature.dtype == "bfloat16" else feature.column_dtype
    return np.frombuffer(numeric_bytes(values, feature.column_dtype), dtype).reshape(channels, 256)


def fill_values(feature: ImageFeature, tables: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the value of each channel of the pixels around images; ``[C]`` or ``[1]``."""
    if tables is None:
        return np.array([feature.fill], np.uint8)
    if feature.dtype == "uint16":
        return np.array([feature.fill * 257], np.uint16)
    return tables[: feature.channels or 1, feature.fill]


def inner_part(
    value: npt.NDArray[Any],
    position: tuple[int, int],
    size: tuple[int, int],
    fill: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Return the part of a value that an image covers, and fill the rest.

    Args:
        value: Memory of the value; ``[..., H, W, C]``.
        position: Top and left of the image.
        size: Height and width of the image.
        fill: Value of each channel of the other pixels.
    """
    (top, left), (height, width) = position, size
    if (height, width) != value.shape[-3:-1]:
        value[..., :top, :, :] = fill
        value[..., top + height :, :, :] = fill
        value[..., top : top + height, :left, :] = fill
        value[..., top : top + height, left + width :, :] = fill
    return value[..., top : top + height, left : left + width, :]


def write_levels(
    pixels: npt.NDArray[Any], out: npt.NDArray[Any], tables: npt.NDArray[Any] | None
) -> None:
    """Write pixels to an array of the same shape ``[..., C]``, converting levels to values."""
    if tables is None or pixels.dtype != np.uint8:
        out[...] = pixels
        return
    for channel in range(pixels.shape[-1]):
        out[..., channel] = tables[channel][pixels[..., channel]]
