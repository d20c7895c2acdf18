"""Zstandard frames, by objects like those of the module zlib."""

from __future__ import annotations

import importlib
import math
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

_CHUNK_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20


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
    """Decodes one frame, like the objects of ``zlib.decompressobj``.

    Attributes:
        unconsumed_tail: Always empty: the decoder keeps the input that it has not decoded yet.
    """

    unconsumed_tail = b""

    def __init__(self) -> None:
        module = load_zstd()
        self._decoder = module.ZstdDecompressor()
        self._error: type[Exception] = module.ZstdError

    @property
    def eof(self) -> bool:
        """True once the whole frame was decoded."""
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        """Input after the frame."""
        data: bytes = self._decoder.unused_data
        return data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most ``max_length`` decoded bytes.

        Raises:
            zlib.error: If the frame is damaged.
        """
        try:
            decoded: bytes = self._decoder.decompress(data, max_length)
        except self._error as error:
            raise zlib.error(str(error)) from None
        return decoded

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all bytes that can be decoded with some more input."""
        while True:
            yield self.decompress(data, _PIECE_BYTES)
            data = b""
            if self.eof or self._decoder.needs_input:
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
    while not decoder.eof and (chunk := read(at, _CHUNK_BYTES)):
        size = 1 if at >= single else len(chunk)
        for begin in range(0, len(chunk), size):
            try:
                for piece in decoder.pieces(chunk[begin : begin + size]):
                    decoded += piece[skip:]
                    skip -= min(skip, len(piece))
            except zlib.error:
                return bytes(decoded), at + begin
            if decoder.eof:
                break
        at += len(chunk)
    return bytes(decoded), None
