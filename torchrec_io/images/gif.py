"""How many frames a GIF has, and whether it is whole: Pillow takes a cut for the end."""

from __future__ import annotations

from .bad_value import BadValueError

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B


def frames_of(data: memoryview) -> int:
    """The number of frames of a GIF, found by its blocks; nothing is decompressed.

    Raises:
        BadValueError: it is cut short, or has something else between its blocks.
    """
    try:
        return _count(data)
    except IndexError:
        raise BadValueError("the image cannot be decoded: it is cut short") from None


def _count(data: memoryview) -> int:
    frames = 0
    at = _behind_colors(data, 10, 13)  # what the signature, the sizes and the colors take
    while data[at] != _TRAILER:
        if data[at] == _EXTENSION:
            at += 2
        elif data[at] == _IMAGE:
            frames += 1
            at = _behind_colors(data, at + 9, at + 10) + 1  # and the size of the first codes
        else:
            raise BadValueError("the image cannot be decoded: there is no block where one belongs")
        while data[at]:
            at += 1 + data[at]
        at += 1
    return frames


def _behind_colors(data: memoryview, flags_at: int, colors_at: int) -> int:
    """Where a table of colors ends, if the flags say that there is one."""
    flags = data[flags_at]
    return colors_at + (3 << (1 + (flags & 7)) if flags & 0x80 else 0)
