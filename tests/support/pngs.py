"""PNG files that common libraries do not write: 8 or 16 bits, any row filter, interlaced."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
# First row, first column and steps of each pass of an interlaced image.
_PASSES = [
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
]

Wide = npt.NDArray[np.uint16]


def wide_noise(height: int, width: int, channels: int, seed: int = 0) -> Wide:
    """Return random pixels of 16 bits."""
    shape = (height, width, channels)
    return np.random.default_rng([seed, *shape]).integers(0, 1 << 16, shape, np.uint16)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    check = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + check


def header_of(array: Any, **others: int) -> bytes:
    """Return the IHDR chunk of pixels. ``others`` overrides fields."""
    height, width, channels = array.shape
    fields = {
        "width": width,
        "height": height,
        "depth": 8 * array.itemsize,
        "color": COLOR_TYPES[channels],
        "compression": 0,
        "filters": 0,
        "interlace": 0,
        **others,
    }
    return chunk(b"IHDR", struct.pack(">IIBBBBB", *fields.values()))


def rows_of(array: Any, filters: Iterable[int] = (0,)) -> bytes:
    """Return the filtered rows of pixels. The filters alternate."""
    out = b""
    size = array.itemsize * array.shape[2]
    turns = itertools.cycle(filters)
    above = bytes(size + array[0].nbytes) if len(array) else b""
    for values in array:
        row = (
            bytes(size) + values.astype(values.dtype.newbyteorder(">")).tobytes()
        )  # pixel of zeros on the left
        kind = next(turns)
        filtered = bytearray()
        for i in range(size, len(row)):
            a, b, c = row[i - size], above[i], above[i - size]
            filtered.append((row[i] - _predicted(kind, a, b, c)) % 256)
        out += bytes([kind]) + bytes(filtered)
        above = row
    return out


def _predicted(kind: int, a: int, b: int, c: int) -> int:
    paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
    return [0, a, b, (a + b) // 2, paeth][kind]


def png_of(
    array: Any,
    *,
    filters: Iterable[int] = (0,),
    interlaced: bool = False,
    extra: bytes = b"",
    pieces: int = 1,
) -> bytes:
    """Return a PNG file of uint8 or uint16 pixels ``[H, W, 1 to 4]``.

    Args:
        array: Pixels.
        filters: Filters of the rows, which alternate.
        interlaced: Whether the rows are stored in seven passes.
        extra: Chunks between the header and the pixels.
        pieces: Number of chunks that hold the pixels.
    """
    parts = [array]
    if interlaced:
        parts = [array[top::down, left::right] for top, left, down, right in _PASSES]
    rows = b"".join(rows_of(part, filters) for part in parts if part.size)
    data = zlib.compress(rows)
    step = -(-len(data) // pieces)
    chunks = [chunk(b"IDAT", data[at : at + step]) for at in range(0, len(data), step)]
    return file_of(header_of(array, interlace=int(interlaced)), extra, *chunks)


def file_of(*chunks: bytes) -> bytes:
    """Return a PNG file of some chunks. The last chunk is added."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")
