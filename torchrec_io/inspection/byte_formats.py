"""Guesses of the format of bytes: an image, text, a serialized tensor. They are not checks."""

from __future__ import annotations

import functools
import io
import warnings

import numpy as np

from .. import _core

IMAGES = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP")
TEXT, TENSOR, OTHER, EMPTY = "UTF-8 text", "serialized tensor", "bytes", "empty"

# The planes of Unicode that have characters which can be printed.
_PLANES = (0, 1, 2, 3, 14)


def sniff(data: bytes) -> str:
    """Return the format that bytes seem to have: one of the names above, or that of a file."""
    return _core.sniff(data, printable())


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and the height in an image's header, or None if it is damaged."""
    from PIL import Image  # noqa: PLC0415  # slow to import, and few records have images

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=IMAGES) as image:
                return image.width, image.height
    except Exception:  # noqa: BLE001  # decoders raise almost anything on damaged data
        return None


@functools.cache
def no_controls() -> _core.CharacterSet:
    """Return all characters except control characters."""
    is_text = np.ones(_core.CHARACTER_SET_BYTES * 8, bool)
    is_text[:0x20] = is_text[0x7F:0xA0] = False
    return _core.CharacterSet(np.packbits(is_text, bitorder="little"))


@functools.cache
def printable() -> _core.CharacterSet:
    """Return the characters that ``str.isprintable`` accepts."""
    is_printable = np.zeros(_core.CHARACTER_SET_BYTES * 8, bool)
    for plane in _PLANES:
        codes = range(plane << 16, (plane + 1) << 16)
        is_printable[codes.start : codes.stop] = [chr(code).isprintable() for code in codes]
    return _core.CharacterSet(np.packbits(is_printable, bitorder="little"))
