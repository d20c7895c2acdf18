"""Decoding that follows parsing: images, and raw arrays whose shape stands in the record."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from .dtypes import MOST_VALUES, item_bytes
from .specs import ImageFeature, RawFeature

BAD_BOOL = "a byte of a bool array is neither 0 nor 1"

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class BadValueError(ValueError):
    """A value cannot be decoded; the message says why. Becomes a DecodeError with its place."""


def decode_image(data: bytes | memoryview, feature: ImageFeature) -> npt.NDArray[np.uint8]:
    """Decodes one image to uint8 ``[H, W, C]``, resized if the feature says so.

    Raises:
        BadValueError: it is no image, is damaged or cut short, or claims too many pixels.
    """
    try:
        # Pillow warns of images over its own, larger limit. That is not suppressed: warning filters
        # belong to the process, and images are decoded in threads.
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > feature.max_pixels:
                raise BadValueError(
                    f"the image claims {image.width} x {image.height} pixels, more than "
                    f"max_pixels={feature.max_pixels}"
                )
            return _to_array(image, feature)
    except BadValueError:
        raise
    except Exception as error:  # Pillow's plugins raise nearly anything on hostile bytes
        raise BadValueError(f"the image cannot be decoded: {error}") from error


def _to_array(image: Image.Image, feature: ImageFeature) -> npt.NDArray[np.uint8]:
    converted = _to_mode(image, _MODES[feature.channels])
    if feature.size is not None:
        height, width = feature.size
        converted = converted.resize((width, height), Image.Resampling.BILINEAR)
    array = np.asarray(converted)
    return array[:, :, np.newaxis] if array.ndim == 2 else array


def _to_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I;16"):
        # Pillow clips 16-bit gray to 255; TensorFlow's decoders keep the upper byte, as is right.
        image = Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    return image.convert(mode)


def store_image(
    image: npt.NDArray[np.uint8], feature: ImageFeature, out: npt.NDArray[np.generic]
) -> None:
    """Writes a decoded image into its column: layout, dtype and scale as the feature says."""
    arranged = image.transpose(2, 0, 1) if feature.layout == "CHW" else image
    if feature.dtype == "uint8":
        out[...] = arranged
    else:
        np.multiply(arranged, np.float32(1 / 255), out=out, casting="unsafe")


def check_raw_shape(shape: Sequence[int], size: int, feature: RawFeature) -> tuple[int, ...]:
    """The shape of one raw array of ``size`` bytes.

    Raises:
        BadValueError: the shape has a negative size, is too large even for an empty array, or does
            not hold that many bytes.
    """
    most = 1  # strides are products of sizes, also where one of the others is 0
    for extent in shape:
        if extent < 0:
            raise BadValueError(f"its shape {list(shape)} has a negative size")
        most *= max(1, extent)
        if most >= MOST_VALUES:
            raise BadValueError(f"its shape {list(shape)} is larger than any memory")
    if math.prod(shape) * item_bytes(feature.dtype) != size:
        raise BadValueError(
            f"it has {size} bytes, its shape {list(shape)} of {feature.dtype} needs "
            f"{math.prod(shape) * item_bytes(feature.dtype)}"
        )
    return tuple(shape)
