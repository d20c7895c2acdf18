"""Decompression of gzip and zlib files from front to back."""

from __future__ import annotations

import zlib
from typing import Any, cast

from isal import igzip_lib, isal_zlib

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteSource
from .compression import WINDOW_BITS, Compression, is_gzip_magic, is_zlib_header, is_zlib_method

# The isal package's stubs declare its error class as an instance.
_INFLATE_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
_CHUNK_BYTES = 1 << 16


class Inflater:
    """Decompresses a file from front to back: all gzip members or zlib streams, in order.

    All bytes that can be decoded are returned before an error is raised. Only a damaged pipe loses
    the bytes that would be decoded together with the damage.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        stream_offset: Stream offset to start at.
        file_offset: File offset of the member or stream that starts there.

    Attributes:
        restarts: ``(stream offset, file offset)`` of each member or stream reached so far.
        damage_offset: File offset of the first byte that could not be decoded, once it is known.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        stream_offset: int = 0,
        file_offset: int = 0,
    ) -> None:
        self.restarts: list[tuple[int, int]] = []
        self.damage_offset: int | None = None
        self._file = file
        self._compression = compression
        self._file_offset = file_offset  # of the next compressed bytes to read
        self._stream_offset = stream_offset  # of the next bytes to return
        self._pending = b""  # compressed bytes that were read and not yet decoded
        self._decoder: Any = None
        self._error: TorchRecIOError | None = None
        self._saved = b""  # decoded bytes before the error

    @property
    def file_bytes_read(self) -> int:
        """File offset up to which compressed bytes were read."""
        return self._file_offset

    @property
    def member_offset(self) -> int:
        """File offset of the member that is decoded, or of what follows the last one."""
        if self._decoder is None:
            return self._file_offset - len(self._pending)
        return self.restarts[-1][1]

    @property
    def stream_start(self) -> int:
        """Stream offset of the start of the member that is decoded, or of what follows the last."""
        return self._stream_offset if self._decoder is None else self.restarts[-1][0]

    def read(self, size: int) -> bytes:
        """Return between 1 and ``size`` decoded bytes; ``b""`` at the end of the file.

        Raises:
            TruncatedFileError: If the file ends inside a compressed stream.
            CorruptRecordError: If the stream is damaged, or followed by other bytes.
        """
        while self._error is None or self._saved:
            if self._error is None and self._decoder is None and not self._begin_member():
                return b""
            data = self._take_saved(size) if self._saved else self._decode(size)
            if data:
                self._stream_offset += len(data)
                return data
            # The decoder gets more input only once it has returned all that it buffers.
            if self._error is None and self._decoder is not None and not self._fill():
                self._error = TruncatedFileError(
                    f"the file ends inside a {self._compression} stream",
                    path=self._file.path,
                    offset=self._stream_offset,
                )
        raise self._error

    def _fill(self) -> bool:
        """Read more of the file; return False at its end."""
        data = self._file.read(self._file_offset, _CHUNK_BYTES)
        self._file_offset += len(data)
        self._pending += data
        return len(data) > 0

    def _begin_member(self) -> bool:
        """Start decoding the next member; return False at the end of the file."""
        # Zeros after a member are padding, as for gzip(1).
        padding = b"\0" if self.restarts else b""
        self._pending = self._pending.lstrip(padding)
        while len(self._pending) < 4 and self._fill():
            self._pending = self._pending.lstrip(padding)
        if not self._pending:
            return False
        fault = self._find_header_fault()
        if fault is not None:
            self._error = CorruptRecordError(
                fault, path=self._file.path, offset=self._stream_offset
            )
            raise self._error
        self.restarts.append((self._stream_offset, self._file_offset - len(self._pending)))
        self._decoder = isal_zlib.decompressobj(WINDOW_BITS[self._compression])
        return True

    def _find_header_fault(self) -> str | None:
        """Return the fault of a header that the decoder accepts or describes badly."""
        if self.restarts and not self._is_member():
            return f"stray bytes follow the last {self._compression} stream"
        # RFC 1952, section 2.3.1.2: a reserved flag is an error.
        if self._compression == "gzip" and len(self._pending) > 3 and self._pending[3] & 0xE0:
            return "the gzip header has a reserved flag set"
        # RFC 1950, section 2.2: larger windows than 32 KiB are not allowed.
        if self._compression == "zlib" and self._pending[0] >> 4 > 7:
            return "the zlib header has an invalid window size"
        return None

    def _is_member(self) -> bool:
        """Return whether the pending bytes start a member, as far as they go."""
        if len(self._pending) == 1:
            first = self._pending[0]
            return first == 0x1F if self._compression == "gzip" else is_zlib_method(first)
        is_header = is_gzip_magic if self._compression == "gzip" else is_zlib_header
        return is_header(self._pending)

    def _decode(self, size: int) -> bytes:
        chunk, self._pending = self._pending, b""
        try:
            data: bytes = self._decoder.decompress(chunk, size)
        except _INFLATE_ERRORS as error:
            self._error = CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}", path=self._file.path
            )
            self._saved = self._decode_before_damage()
            self._error.offset = self._stream_offset + len(self._saved)
            return b""
        if self._decoder.eof:
            self._pending = self._decoder.unused_data
            self._decoder = None
        else:
            self._pending = self._decoder.unconsumed_tail
        return data

    def _take_saved(self, size: int) -> bytes:
        data, self._saved = self._saved[:size], self._saved[size:]
        return data

    def _decode_before_damage(self) -> bytes:
        """Return the bytes of the member before its damage that were not returned yet.

        The fast decoder drops the output of a failing call. So zlib decodes the member again, byte
        by byte in the chunk where it fails.
        """
        if not self._file.is_seekable:
            return b""
        stream_at, file_at = self.restarts[-1]
        skip = self._stream_offset - stream_at
        decoder = zlib.decompressobj(WINDOW_BITS[self._compression])
        saved = bytearray()
        while chunk := self._file.read(file_at, _CHUNK_BYTES):
            before = decoder.copy()
            try:
                data = decoder.decompress(chunk)
            except zlib.error:
                data, good = _decode_bytewise(before, chunk)
                self.damage_offset = file_at + good
                chunk = b""
            file_at += len(chunk)
            saved += data[skip:]
            skip -= min(skip, len(data))
            if not chunk:
                break
        return bytes(saved)


def _decode_bytewise(decoder: Any, data: bytes) -> tuple[bytes, int]:
    """Return all bytes that a zlib decoder returns before it fails, and how many it can read."""
    out = bytearray()
    for number, byte in enumerate(data):
        try:
            out += decoder.decompress(bytes([byte]))
        except zlib.error:
            return bytes(out), number
    return bytes(out), len(data)
