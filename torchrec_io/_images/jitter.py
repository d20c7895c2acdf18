"""Random changes of the colors of decoded images."""

from __future__ import annotations

import functools

import numpy as np

from .. import _core
from .._schema.color_jitter import ColorJitter
from .decode import DecodedImage


@functools.lru_cache(maxsize=64)
def native_jitter(jitter: ColorJitter) -> _core.ColorJitter:
    """Return the native form of a spec."""
    return _core.ColorJitter(*jitter.ranges, jitter.p)


def change_colors(image: DecodedImage, jitter: ColorJitter, key: bytes) -> DecodedImage:
    """Change the colors of an image at random.

    Args:
        image: Image with pixels uint8 ``[H, W, 3]``, which may be changed.
        jitter: Ranges of the changes.
        key: Key of the random numbers; 16 bytes.
    """
    pixels = np.require(image.pixels, requirements=["C", "W"])
    native_jitter(jitter).apply(pixels, key)
    return image._replace(pixels=pixels)
