"""PNGs with 16 bits a channel. Pillow keeps all bits only of gray ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .inflate import inflate

Pixels16: TypeAlias = npt.NDArray[np.uint16]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Number of channels of each color type: gray, RGB, gray and alpha, RGBA.
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# First row, first column, row step and column step of each pass of an interlaced image (Adam7).
_ADAM7_PASSES = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)
_SINGLE_PASS = ((0, 0, 1, 1),)


class Header(NamedTuple):
    """The fields of a PNG's IHDR chunk."""

    width: int
    height: int
    depth: int
    color_type: int
    compression: int
    filters: int
    interlace: int


def read_header(data: memoryview) -> Header | None:
    """Return the header of a PNG; None if the data is not a PNG, or truncated."""
    if bytes(data[:8]) != SIGNATURE or bytes(data[12:16]) != b"IHDR" or len(data) < 29:
        return None
    return Header(*struct.unpack_from(">IIBBBBB", data, 16))


def read_pixels(data: memoryview, header: Header) -> Pixels16:
    """Decode a PNG with 16 bits a channel.

    A transparent color (tRNS chunk) becomes an alpha channel: 0 for pixels of that color, 65535 for
    others.

    Args:
        data: Bytes of the file.
        header: Header of the file. Its size must have been checked against ``max_pixels``.

    Returns:
        Pixels with their stored channels; uint16 ``[H, W, C]``.

    Raises:
        ValueError: If the file is damaged, truncated, or does not follow the specification.
    """
    channels = CHANNELS.get(header.color_type)
    is_known = header.interlace in (0, 1) and not (header.compression or header.filters)
    is_empty = min(header.width, header.height) < 1
    if header.depth != 16 or channels is None or not is_known or is_empty:
        raise ValueError("its header is invalid")
    passes = _ADAM7_PASSES if header.interlace else _SINGLE_PASS
    shapes = [
        (-(-(header.height - top) // down), -(-(header.width - left) // right))
        for top, left, down, right in passes
    ]
    stored, transparent = _read_chunks(data)
    if channels in (2, 4):
        transparent = None  # not allowed there; libpng ignores it, too
    size = sum(rows * (1 + 2 * channels * columns) for rows, columns in shapes if columns)
    content = inflate(stored, size, "as many as its size needs")
    if len(content) < size:
        raise ValueError("it has too few pixels")
    pixels = np.empty((header.height, header.width, channels), np.uint16)
    rest = np.frombuffer(bytearray(content), np.uint8)
    for (top, left, down, right), (rows, columns) in zip(passes, shapes, strict=True):
        if rows and columns:
            row_bytes = 2 * channels * columns
            part, rest = np.split(rest, [rows * (1 + row_bytes)])
            if not _core.unfilter_png(part, row_bytes, 2 * channels):
                raise ValueError("a row has an unknown filter")
            values = part.reshape(rows, 1 + row_bytes)[:, 1:].copy().view(">u2")
            pixels[top::down, left::right] = values.reshape(rows, columns, channels)
    return pixels if transparent is None else _add_alpha(pixels, transparent)


def _read_chunks(data: memoryview) -> tuple[bytes, bytes | None]:
    """Return the compressed pixels, and the transparent color if there is one."""
    stored: list[memoryview] = []
    transparent: bytes | None = None
    for kind, content in _iter_chunks(data):
        if kind == b"IDAT":
            stored.append(content)
        elif kind == b"tRNS":
            transparent = bytes(content)
        elif kind == b"IEND":
            break
        elif kind[0] & 0x20 == 0 and kind not in (b"IHDR", b"PLTE"):
            raise ValueError(f"it needs an unknown chunk, {kind!r}")
    return b"".join(stored), transparent


def _iter_chunks(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the kind and the content of each chunk."""
    at = len(SIGNATURE)
    while True:
        if len(data) - at < 12:
            raise ValueError("it is truncated")
        size = int.from_bytes(data[at : at + 4], "big")
        if size > len(data) - at - 12:
            raise ValueError("it is truncated")
        body = data[at + 4 : at + 8 + size]
        if zlib.crc32(body) != int.from_bytes(data[at + 8 + size : at + 12 + size], "big"):
            raise ValueError("a chunk does not match its checksum")
        yield bytes(body[:4]), body[4:]
        at += 12 + size


def _add_alpha(pixels: Pixels16, transparent: bytes) -> Pixels16:
    channels = pixels.shape[2]
    if len(transparent) != 2 * channels:
        raise ValueError("its transparent color is invalid")
    color = np.frombuffer(transparent, ">u2")
    alpha = np.where((pixels == color).all(axis=2, keepdims=True), 0, 0xFFFF)
    return np.concatenate((pixels, alpha.astype(np.uint16)), axis=2)


# libpng's weights of red, green and blue, in units of 1/32768.
_LUMA = np.array([9797, 19234, 3737], np.uint32)


def convert_channels(pixels: Pixels16, channels: int, stored: int) -> Pixels16:
    """Convert pixels to another number of channels, as libpng does.

    Args:
        pixels: Pixels; uint16 ``[H, W, 1 to 4]``.
        channels: Number of channels, 1 to 4; 0 for ``stored``.
        stored: Number of channels that the file has, without the alpha of a transparent color.
    """
    wanted = channels or stored
    had = pixels.shape[2]
    color = pixels[:, :, : had - (had in (2, 4))]
    if wanted < 3 and color.shape[2] == 3:
        luma = (color.astype(np.uint32) * _LUMA).sum(axis=2, keepdims=True, dtype=np.uint32)
        color = ((luma + 0x4000) >> 15).astype(np.uint16)
    elif wanted > 2 and color.shape[2] == 1:
        color = np.repeat(color, 3, axis=2)
    if wanted in (1, 3):
        return color
    alpha = pixels[:, :, -1:] if had in (2, 4) else np.full_like(pixels[:, :, :1], 0xFFFF)
    return np.concatenate((color, alpha), axis=2)
