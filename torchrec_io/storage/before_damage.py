"""Decoding of a damaged member, stream or frame again, to get all bytes before the damage."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

_CHUNK_BYTES = 1 << 16
_SMALL_BYTES = 1 << 8


class PieceDecoder(Protocol):
    """A decoder that takes all input at once."""

    @property
    def is_done(self) -> bool:
        """True once all was decoded."""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all bytes that can be decoded with some more input."""


def decode_before_damage(
    read: Callable[[int, int], bytes],
    make: Callable[[], PieceDecoder],
    start: int,
    skip: int,
    near: int,
) -> tuple[bytes, int | None]:
    """Decode again, up to damage, in ever smaller pieces.

    Args:
        read: Function that returns bytes of the file by offset and size.
        make: Function that returns a decoder.
        start: File offset of the input of the decoder.
        skip: Number of decoded bytes to leave out.
        near: File offset before which no damage is expected.

    Returns:
        The decoded bytes, and the file offset of the first byte that cannot be decoded; None if
        there is no damage.
    """
    found, damage = _decode(_pieces(read, start, near, _SMALL_BYTES), make(), skip)
    if damage is not None:
        found, damage = _decode(_pieces(read, start, damage, 1), make(), skip)
    return found, damage


def _pieces(
    read: Callable[[int, int], bytes], at: int, near: int, size: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the input with its file offsets, in pieces of a size from an offset on."""
    while chunk := read(at, min(_CHUNK_BYTES, near - at) if at < near else _CHUNK_BYTES):
        step = len(chunk) if at < near else size
        for begin in range(0, len(chunk), step):
            yield at + begin, chunk[begin : begin + step]
        at += len(chunk)


def _decode(
    pieces: Iterator[tuple[int, bytes]], decoder: PieceDecoder, skip: int
) -> tuple[bytes, int | None]:
    """Return what can be decoded of the input, and the offset of the piece that cannot."""
    decoded = bytearray()
    for at, data in pieces:
        try:
            for piece in decoder.pieces(data):
                decoded += piece[skip:]
                skip -= min(skip, len(piece))
        except zlib.error:
            return bytes(decoded), at
        if decoder.is_done:
            break
    return bytes(decoded), None
