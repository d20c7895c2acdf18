"""PNGs of 16 bits a channel, of which Pillow keeps only 8 unless they are gray."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from .bad_value import BadValueError
from .inflate import inflate

Wide = npt.NDArray[np.uint16]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Channels by the color type: gray, RGB, gray and alpha, RGBA.
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# The passes of an interlaced image (Adam7): the first row and column of each, and its steps.
_PASSES = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)
_WHOLE = ((0, 0, 1, 1),)


class Header(NamedTuple):
    """What a PNG says of itself: the fields of its IHDR chunk."""

    width: int
    height: int
    depth: int
    color_type: int
    compression: int
    filters: int
    interlace: int


def header_of(data: memoryview) -> Header | None:
    """The header of a PNG; None if it is none, or cut short."""
    if bytes(data[:8]) != SIGNATURE or bytes(data[12:16]) != b"IHDR" or len(data) < 29:
        return None
    return Header(*struct.unpack_from(">IIBBBBB", data, 16))


def read_wide(data: memoryview, header: Header) -> Wide:
    """The pixels of a PNG of 16 bits: uint16 ``[H, W, C]``, channels as they are stored.

    A transparent color (the tRNS chunk) makes an alpha channel of 0 where it stands, and of 65535
    elsewhere.

    Args:
        data: Of the file.
        header: Its header, of a size that was found to be no bomb.

    Raises:
        BadValueError: it is damaged, cut short, or not as the specification wants it.
    """
    channels = CHANNELS.get(header.color_type)
    sizes = min(header.width, header.height)
    is_known = header.interlace in (0, 1) and not (header.compression or header.filters)
    if header.depth != 16 or channels is None or not is_known or sizes < 1:
        raise BadValueError("the image cannot be decoded: its header makes no sense")
    passes = _PASSES if header.interlace else _WHOLE
    shapes = [
        (-(-(header.height - top) // down), -(-(header.width - left) // right))
        for top, left, down, right in passes
    ]
    stored, transparent = _parts_of(data)
    if channels in (2, 4):
        transparent = None  # it does not belong there; libpng, too, passes over it
    most = sum(rows * (1 + 2 * channels * columns) for rows, columns in shapes if columns)
    content = inflate(stored, most, "as many as its size needs")
    if len(content) < most:
        raise BadValueError("the image cannot be decoded: it has too few pixels")
    pixels = np.empty((header.height, header.width, channels), np.uint16)
    rest = np.frombuffer(bytearray(content), np.uint8)
    for (top, left, down, right), (rows, columns) in zip(passes, shapes, strict=True):
        if rows and columns:
            row = 2 * channels * columns
            size = rows * (1 + row)
            part, rest = rest[:size], rest[size:]
            if not _core.unfilter_png(part, row, 2 * channels):
                raise BadValueError("the image cannot be decoded: no such filter of a row")
            values = part.reshape(rows, 1 + row)[:, 1:].copy().view(">u2")
            pixels[top::down, left::right] = values.reshape(rows, columns, channels)
    return pixels if transparent is None else _with_alpha(pixels, transparent)


def _parts_of(data: memoryview) -> tuple[bytes, bytes | None]:
    """The compressed pixels, and the transparent color if there is one."""
    stored: list[memoryview] = []
    transparent: bytes | None = None
    for kind, content in _chunks(data):
        if kind == b"IDAT":
            stored.append(content)
        elif kind == b"tRNS":
            transparent = bytes(content)
        elif kind == b"IEND":
            break
        elif kind[0] & 0x20 == 0 and kind not in (b"IHDR", b"PLTE"):
            raise BadValueError(f"the image cannot be decoded: it needs an unknown chunk, {kind!r}")
    return b"".join(stored), transparent


def _chunks(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    at = len(SIGNATURE)
    while True:
        if len(data) - at < 12:
            raise BadValueError("the image cannot be decoded: it is cut short")
        size = int.from_bytes(data[at : at + 4], "big")
        if size > len(data) - at - 12:
            raise BadValueError("the image cannot be decoded: it is cut short")
        body = data[at + 4 : at + 8 + size]
        if zlib.crc32(body) != int.from_bytes(data[at + 8 + size : at + 12 + size], "big"):
            raise BadValueError("the image cannot be decoded: the checksum of a chunk is wrong")
        yield bytes(body[:4]), body[4:]
        at += 12 + size


def _with_alpha(pixels: Wide, transparent: bytes) -> Wide:
    channels = pixels.shape[2]
    if len(transparent) != 2 * channels:
        raise BadValueError("the image cannot be decoded: its transparent color is none")
    color = np.frombuffer(transparent, ">u2")
    alpha = np.where((pixels == color).all(axis=2, keepdims=True), 0, 0xFFFF)
    return np.concatenate((pixels, alpha.astype(np.uint16)), axis=2)


# libpng's weights of red, green and blue, of which it has 32768.
_LUMA = np.array([9797, 19234, 3737], np.uint32)


def with_channels(pixels: Wide, channels: int, stored: int) -> Wide:
    """Pixels with another number of channels, as libpng makes them.

    Args:
        pixels: uint16 ``[H, W, 1 to 4]``.
        channels: 1 to 4, or 0: ``stored``.
        stored: As many as the image has, but for the alpha of a transparent color.
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
