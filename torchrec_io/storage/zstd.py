"""Decoder of Zstandard frames."""

from __future__ import annotations

import importlib
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .byte_source import ByteBuffer

_CHUNK_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20
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
    """A decoder of one frame. It keeps the input that it has not decoded yet."""

    def __init__(self) -> None:
        self._module = load_zstd()
        self._decoder = self._module.ZstdDecompressor()
        self._header = b""
        self._decoded_bytes = 0

    @property
    def is_done(self) -> bool:
        """True once the whole frame was decoded."""
        return bool(self._decoder.eof)

    def decode(self, data: ByteBuffer, out: ByteBuffer) -> tuple[int, int]:
        """Decode like the decoders of :mod:`~torchrec_io.storage.decoder`."""
        found = self._decompress(data, min(len(out), _PIECE_BYTES))
        out[: len(found)] = np.frombuffer(found, np.uint8)
        left = len(self._decoder.unused_data) if self.is_done else 0
        return len(data) - left, len(found)

    def _decompress(self, data: bytes | ByteBuffer, max_length: int) -> bytes:
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
        if self.is_done:
            self._check_size()
        return decoded

    def _check_size(self) -> None:
        """Compare the size in the header, which libzstd ignores if the last block is empty."""
        size = self._module.get_frame_info(self._header).decompressed_size
        if size is not None and size != self._decoded_bytes:
            raise zlib.error(f"the header says {size} bytes, but there are {self._decoded_bytes}")

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all bytes that can be decoded with some more input."""
        while True:
            yield self._decompress(data, _PIECE_BYTES)
            data = b""
            if self.is_done or self._decoder.needs_input:
                return


def decode_before_damage(
    read: Callable[[int, int], bytes], start: int, skip: int
) -> tuple[bytes, int | None]:
    """Decode a damaged frame again, to get all bytes before the damage.

    Args:
        read: Function that returns bytes of the file by offset and size.
        start: File offset of the frame.
        skip: Number of decoded bytes to leave out.

    Returns:
        The decoded bytes, and the file offset of the first byte that cannot be decoded; None if
        the frame is not damaged.
    """
    _, damaged_chunk = _decode_by_chunks(read, start, skip, None)
    return _decode_by_chunks(read, start, skip, damaged_chunk)


def _decode_by_chunks(
    read: Callable[[int, int], bytes], at: int, skip: int, single_bytes: int | None
) -> tuple[bytes, int | None]:
    """Decode a frame in chunks, and in single bytes from a file offset on."""
    decoder = ZstdDecoder()
    decoded = bytearray()
    single = math.inf if single_bytes is None else single_bytes
    while not decoder.is_done and (chunk := read(at, _CHUNK_BYTES)):
        size = 1 if at >= single else len(chunk)
        for begin in range(0, len(chunk), size):
            try:
                for piece in decoder.pieces(chunk[begin : begin + size]):
                    decoded += piece[skip:]
                    skip -= min(skip, len(piece))
            except zlib.error:
                return bytes(decoded), at + begin
            if decoder.is_done:
                break
        at += len(chunk)
    return bytes(decoded), None
