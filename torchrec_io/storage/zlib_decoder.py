"""Decoders of zlib, and of the package isal for builds without native decompression."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from isal import igzip_lib

from .byte_source import ByteBuffer
from .compression import WINDOW_BITS, Compression
from .deflate_start import start_decoder

# The stubs of isal declare its error class as an instance.
_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
# Each call makes memory for its output.
_OUTPUT_BYTES = 1 << 20


class ZlibDecoder:
    """A decoder of one gzip member, zlib stream or deflate stream.

    Args:
        decoder: Object of ``decompressobj`` of zlib, or of a module with the same functions.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    @classmethod
    def of_member(cls, module: Any, compression: Compression) -> ZlibDecoder:
        """Return a decoder of a gzip member or a zlib stream."""
        return cls(module.decompressobj(WINDOW_BITS[compression]))

    @classmethod
    def inside(cls, module: Any, window: bytes, bit: int, first: int) -> ZlibDecoder:
        """Return a decoder that starts inside a deflate stream; see :func:`start_decoder`."""
        try:
            return cls(start_decoder(module.decompressobj, window, bit, first))
        except _ERRORS as error:
            raise zlib.error(str(error)) from None

    @property
    def is_done(self) -> bool:
        """True once all of it was decoded, and its checksum is right."""
        return bool(self._decoder.eof)

    def decode(self, data: ByteBuffer, out: ByteBuffer) -> tuple[int, int]:
        """Decode like the decoders of :mod:`~torchrec_io.storage.decoder`."""
        found = self._decompress(data, min(len(out), _OUTPUT_BYTES))
        out[: len(found)] = np.frombuffer(found, np.uint8)
        left = self._decoder.unused_data if self.is_done else self._decoder.unconsumed_tail
        return len(data) - len(left), len(found)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all bytes that can be decoded with some more input."""
        yield self._decompress(data, 0)

    def _decompress(self, data: bytes | ByteBuffer, max_length: int) -> bytes:
        try:
            found: bytes = self._decoder.decompress(data, max_length)
        except _ERRORS as error:
            raise zlib.error(str(error)) from None
        return found
