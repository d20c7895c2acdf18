"""Decoders of the package isal."""

from __future__ import annotations

import zlib
from typing import Any, cast

import numpy as np
from isal import igzip_lib, isal_zlib

from .byte_source import ByteBuffer
from .compression import WINDOW_BITS, Compression
from .deflate_start import start_decoder

# The stubs of isal declare its error class as an instance.
_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
# Each call makes memory for its output.
_OUTPUT_BYTES = 1 << 20


class IsalDecoder:
    """A decoder of one gzip member, zlib stream or deflate stream.

    Args:
        decoder: Object of ``isal_zlib.decompressobj``.
    """

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder

    @classmethod
    def of_member(cls, compression: Compression) -> IsalDecoder:
        """Return a decoder of a gzip member or a zlib stream."""
        return cls(isal_zlib.decompressobj(WINDOW_BITS[compression]))

    @classmethod
    def inside(cls, window: bytes, bit: int, first: int) -> IsalDecoder:
        """Return a decoder that starts inside a deflate stream; see :func:`start_decoder`."""
        try:
            return cls(start_decoder(isal_zlib.decompressobj, window, bit, first))
        except _ERRORS as error:
            raise zlib.error(str(error)) from None

    @property
    def is_done(self) -> bool:
        """True once all of it was decoded, and its checksum is right."""
        return bool(self._decoder.eof)

    def decode(self, data: ByteBuffer, out: ByteBuffer) -> tuple[int, int]:
        """Decode like the decoders of :mod:`~torchrec_io.storage.decoder`."""
        try:
            found = self._decoder.decompress(data, min(len(out), _OUTPUT_BYTES))
        except _ERRORS as error:
            raise zlib.error(str(error)) from None
        out[: len(found)] = np.frombuffer(found, np.uint8)
        left = self._decoder.unused_data if self.is_done else self._decoder.unconsumed_tail
        return len(data) - len(left), len(found)
