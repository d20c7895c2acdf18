"""Decoder of Zstandard frames."""

from __future__ import annotations

import importlib
import sys
import zlib
from typing import Any

from .byte_source import ByteBuffer

_MAGIC_BYTES = 4
# Largest size of the header of a frame (RFC 8878, section 3.1.1).
_HEADER_BYTES = 18


def load_zstd() -> Any:
    """Return the module of Python 3.14, or its backport.

    Raises:
        ImportError: If it is not installed.
    """
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            "Zstandard files need backports.zstd: pip install torchrec-io[zstd]"
        ) from None


class ZstdDecoder:
    """A decoder of one frame; see :class:`~torchrec_io._storage.decoder.Decoder`."""

    def __init__(self) -> None:
        self._module = load_zstd()
        self._decoder = self._module.ZstdDecompressor()
        self._header = b""
        self._decoded_bytes = 0

    @property
    def eof(self) -> bool:
        """True once the whole frame was decoded."""
        return bool(self._decoder.eof)

    @property
    def needs_input(self) -> bool:
        """True if all that the input so far decodes to was returned."""
        return bool(self._decoder.needs_input)

    @property
    def unused_data(self) -> bytes:
        """At the end, the input after it."""
        return bytes(self._decoder.unused_data)

    def decompress(self, data: bytes | memoryview | ByteBuffer, max_length: int) -> bytes:
        """Return up to ``max_length`` decoded bytes."""
        is_first = not self._header
        if len(self._header) < _HEADER_BYTES:
            self._header += bytes(data[: _HEADER_BYTES - len(self._header)])
        try:
            if is_first:
                # libzstd checks a frame in another way if it gets all of it at once. So it never
                # does, and what is damaged does not depend on the size of a read.
                self._decoder.decompress(data[:_MAGIC_BYTES])
                data = data[_MAGIC_BYTES:]
            decoded: bytes = self._decoder.decompress(data, max_length)
        except self._module.ZstdError as error:
            raise zlib.error(str(error)) from None
        self._decoded_bytes += len(decoded)
        if self.eof:
            self._check_size()
        return decoded

    def _check_size(self) -> None:
        """Compare the size in the header, which libzstd ignores if the last block is empty."""
        size = self._module.get_frame_info(self._header).decompressed_size
        if size is not None and size != self._decoded_bytes:
            raise zlib.error(f"the header says {size} bytes, but there are {self._decoded_bytes}")
