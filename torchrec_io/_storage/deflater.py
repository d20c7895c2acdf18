"""Compression of a file while it is written."""

from __future__ import annotations

from typing import Any

from isal import isal_zlib

from .compression import WINDOW_BITS, Compression
from .outputs import Pending
from .seek_points import SeekPointRecorder, SeekPoints
from .zstd import load_zstd

# A file consists of gzip members or Zstandard frames, and decompression can start at each of them.
# To read one record, at most this much is decompressed. A zlib file is a single stream, because
# TensorFlow reads only the first one. Its parts do not refer to earlier ones.
_MEMBER_BYTES = 1 << 20
# Large records are compressed in parts of this size.
_PART_BYTES = 1 << 20


class Deflater:
    """Compresses a stream into a file.

    Args:
        file: File to write to.
        compression: Compression of the file.
    """

    def __init__(self, file: Pending, compression: Compression) -> None:
        self._points = SeekPointRecorder()
        self._file = file
        self._compression = compression
        # None between members. There is no member without input: TensorFlow stops at such a one.
        self._compressor: Any = None
        self._stream_bytes = 0
        self._member_start = 0
        self._flushed = 0  # stream bytes whose compressed form is all in the file

    @property
    def seek_points(self) -> SeekPoints:
        """Seek points of the file: its members or frames, or parts of the zlib stream."""
        return self._points.finish()

    @property
    def unflushed(self) -> int:
        """Number of stream bytes that may not be in the file yet."""
        return self._stream_bytes - self._flushed

    def max_file_bytes(self, size: int) -> int:
        """Return an upper bound of the file's size after ``size`` more bytes of stream."""
        held = self.unflushed + size
        # A stored block takes 5 bytes for 64 KiB; a header and a trailer take 18.
        return self._file.size + held + (held >> 6) + 64

    def write(self, *parts: bytes | memoryview) -> None:
        """Append whole frames."""
        size = sum(map(len, parts))
        member_bytes = self._stream_bytes - self._member_start
        if member_bytes + size > _MEMBER_BYTES:
            self._cut()
        self._begin()
        for part in parts:
            data = memoryview(part)
            self._points.add_data(data)
            for at in range(0, len(data), _PART_BYTES):
                self._file.write(self._compressor.compress(data[at : at + _PART_BYTES]))
        self._stream_bytes += size

    def _cut(self) -> None:
        """Let decompression start at the next frame."""
        if self._compression != "zlib":
            self.flush()
        elif self._compressor is not None:
            self._file.write(self._compressor.flush(isal_zlib.Z_FULL_FLUSH))
            self._flushed = self._member_start = self._stream_bytes
            self._points.add_block(self._stream_bytes, 8 * self._file.size, b"")

    def flush(self) -> None:
        """Write everything that was appended to the file."""
        if self._compressor is not None:
            if self._compression != "zlib":
                self._end()
            else:
                self._file.write(self._compressor.flush(isal_zlib.Z_SYNC_FLUSH))
        self._flushed = self._stream_bytes

    def finish(self) -> None:
        """End the stream. An empty stream gets a header and a trailer, too."""
        if not self._points.points:
            self._begin()
        if self._compressor is not None:
            self._end()

    def _begin(self) -> None:
        if self._compressor is None:
            self._compressor = (
                load_zstd().ZstdCompressor()
                if self._compression == "zstd"
                else isal_zlib.compressobj(wbits=WINDOW_BITS[self._compression])
            )
            self._member_start = self._stream_bytes
            self._points.add_start(self._stream_bytes, self._file.size)

    def _end(self) -> None:
        self._file.write(self._compressor.flush())
        self._compressor = None
