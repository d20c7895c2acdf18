"""Counting of the frames of a GIF. It detects truncated files, which Pillow accepts."""

from __future__ import annotations

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B


def count_frames(data: memoryview) -> int:
    """Return the number of frames of a GIF, found by its blocks. Nothing is decompressed.

    Raises:
        ValueError: If the file is truncated, or has unknown blocks.
    """
    try:
        return _count_frames(data)
    except IndexError:
        raise ValueError("it is truncated") from None


def _count_frames(data: memoryview) -> int:
    frames = 0
    # The signature and the screen descriptor have 13 bytes, then the global color table follows.
    at = _end_of_colors(data, 10, 13)
    while data[at] != _TRAILER:
        if data[at] == _EXTENSION:
            at += 2
        elif data[at] == _IMAGE:
            frames += 1
            # A local color table may follow, then the size of the first codes.
            at = _end_of_colors(data, at + 9, at + 10) + 1
        else:
            raise ValueError("it has a block of an unknown kind")
        while data[at]:
            at += 1 + data[at]
        at += 1
    return frames


def _end_of_colors(data: memoryview, flags_at: int, colors_at: int) -> int:
    """Return the end offset of a color table; ``colors_at`` if the file has none."""
    flags = data[flags_at]
    return colors_at + (3 << (1 + (flags & 7)) if flags & 0x80 else 0)
