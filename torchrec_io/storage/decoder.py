"""Decoders of gzip, zlib and Zstandard streams, which all have the same interface."""

from __future__ import annotations

import zlib
from typing import Protocol

import numpy as np

from .byte_source import ByteBuffer
from .compression import Compression
from .isal_decoder import IsalDecoder
from .zstd import ZstdDecoder

# Deflate refers back to at most this many bytes (RFC 1951).
WINDOW_BYTES = 1 << 15
_WINDOW_PACKING: Compression = "zlib"


class Decoder(Protocol):
    """A decoder of one gzip member, zlib stream, deflate stream or Zstandard frame."""

    @property
    def is_done(self) -> bool:
        """True once all of it was decoded, and its checksum is right."""

    def decode(self, data: ByteBuffer, out: ByteBuffer) -> tuple[int, int]:
        """Decode until the output is full, the input does not suffice, or the stream ends.

        Args:
            data: Input. What was not consumed must precede the next input.
            out: Memory for the output.

        Returns:
            Number of bytes consumed and produced. The former is negative at the end if the decoder
            has kept input of earlier calls that it does not need.

        Raises:
            zlib.error: If the stream is damaged.
        """


def start_member(compression: Compression) -> Decoder:
    """Return a decoder of a gzip member, zlib stream or Zstandard frame."""
    if compression == "zstd":
        return ZstdDecoder()
    return IsalDecoder.of_member(compression)


def start_inside(window: bytes, bit: int, first: int) -> Decoder:
    """Return a decoder of a deflate stream that starts inside a byte, or at its first bit.

    Args:
        window: Up to 32 KiB before the start of the stream.
        bit: Bit of the byte where the stream starts, from 0 to 7.
        first: The byte.

    Returns:
        The decoder. Its next input is that byte if ``bit`` is 0, else the byte after it.

    Raises:
        zlib.error: If no stream can start with these bits.
    """
    return IsalDecoder.inside(window, bit, first)


def unpack_window(packed: bytes) -> bytes:
    """Decompress the window of a seek point.

    Raises:
        zlib.error: If it is damaged.
    """
    decoder = start_member(_WINDOW_PACKING)
    window = np.empty(WINDOW_BYTES + 1, np.uint8)
    _, size = decoder.decode(np.frombuffer(packed, np.uint8), window)
    if size > WINDOW_BYTES or not decoder.is_done:
        raise zlib.error("a window is damaged")
    return window[:size].tobytes()
