"""Decoders of gzip, zlib and Zstandard streams, which all have the same interface."""

from __future__ import annotations

import zlib
from typing import Protocol, cast

from isal import igzip_lib

from .byte_source import ByteBuffer
from .compression import Compression
from .zstd import ZstdDecoder

# Deflate refers back to at most this many bytes (RFC 1951).
WINDOW_BYTES = 1 << 15
# Errors of decoders. The stubs of isal declare its error class as an instance.
DECODE_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)

_FLAGS: dict[Compression, int] = {"gzip": igzip_lib.DECOMP_GZIP, "zlib": igzip_lib.DECOMP_ZLIB}


class Decoder(Protocol):
    """A decoder of one gzip member, zlib stream, deflate stream or Zstandard frame.

    The interface is that of :class:`bz2.BZ2Decompressor`. The decoder keeps the input that it has
    not decoded yet.
    """

    @property
    def eof(self) -> bool:
        """True once all of it was decoded, and its checksum is right."""

    @property
    def needs_input(self) -> bool:
        """True if all that the input so far decodes to was returned."""

    @property
    def unused_data(self) -> bytes:
        """At the end, the input after it."""

    def decompress(self, data: bytes | memoryview | ByteBuffer, max_length: int) -> bytes:
        """Return up to ``max_length`` decoded bytes.

        Args:
            data: Input that follows that of earlier calls.
            max_length: Largest number of bytes to return.

        Raises:
            IsalError, zlib.error: If the stream is damaged.
        """


def start_member(compression: Compression) -> Decoder:
    """Return a decoder of a gzip member, zlib stream or Zstandard frame."""
    if compression == "zstd":
        return ZstdDecoder()
    return cast("Decoder", igzip_lib.IgzipDecompressor(flag=_FLAGS[compression]))


def start_inside(window: bytes) -> Decoder:
    """Return a decoder of the rest of a deflate stream.

    Args:
        window: Up to 32 KiB of the stream before that.
    """
    decoder = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE, zdict=window)
    return cast("Decoder", decoder)


def unpack_window(packed: bytes) -> bytes:
    """Decompress the window of a seek point.

    Raises:
        IsalError: If it is damaged.
    """
    decoder = start_member("zlib")
    window = decoder.decompress(packed, WINDOW_BYTES + 1)
    if len(window) > WINDOW_BYTES or not decoder.eof:
        raise zlib.error("a window is damaged")
    return window
