"""Guesses of the format of bytes: an image, text, a serialized tensor. They are not checks."""

from __future__ import annotations

import functools
import io
import warnings

import numpy as np

from .. import _core

IMAGES = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP")
TEXT, TENSOR, OTHER, EMPTY = "UTF-8 text", "serialized tensor", "bytes", "empty"

# Characters are divided into planes, most of which are empty.
_PLANE = 1 << 16


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
    is_printable[0x20:0x7F] = True
    for start in range(0, len(is_printable), _PLANE):
        characters = np.arange(start, start + _PLANE, dtype="<u4")
        characters = characters[(characters < 0xD800) | (characters > 0xDFFF)]
        # The representation of a string escapes all characters, in ASCII, that are not printable.
        shown = repr(characters.tobytes().decode("utf-32-le"))
        if not shown.isascii():
            found = np.frombuffer(shown.encode("utf-32-le"), "<u4")
            is_printable[found[found >= 0x80]] = True
    return _core.CharacterSet(np.packbits(is_printable, bitorder="little"))
