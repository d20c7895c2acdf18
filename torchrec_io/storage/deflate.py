"""Compressing a file as it is written."""

from __future__ import annotations

from typing import Any

from isal import isal_zlib

from .compressed import WINDOW_BITS, Compression
from .local import PendingFile

# A gzip file is many members, one after another, and reading can start at each: so much of the
# stream is decompressed for a record, at most. TensorFlow reads only the first stream of a ZLIB
# file, which therefore is just one.
_MEMBER_BYTES = 1 << 20
# A large record is compressed in such pieces.
_PIECE_BYTES = 1 << 20


class Deflater:
    """Compresses a stream into a file.

    Attributes:
        restarts: ``(stream offset, file offset)`` of each gzip member, or of the zlib stream.
    """

    def __init__(self, file: PendingFile, compression: Compression) -> None:
        self.restarts: list[tuple[int, int]] = []
        self._file = file
        self._compression = compression
        self._compressor: Any = None  # never one without input: TensorFlow stops at such a member
        self._stream = 0  # bytes taken
        self._member_start = 0
        self._settled = 0  # of the bytes taken, those whose compressed bytes are all in the file

    @property
    def unsettled(self) -> int:
        """Bytes taken of which the file may not hold all yet."""
        return self._stream - self._settled

    def most_bytes(self, size: int) -> int:
        """How large the file can become with ``size`` more bytes of stream, at most."""
        held = self.unsettled + size
        # Stored blocks have 5 bytes for 64 KiB, headers and trailers 18.
        return self._file.size + held + (held >> 6) + 64

    def write(self, *parts: bytes | memoryview) -> None:
        """Appends whole frames."""
        size = sum(map(len, parts))
        if self._stream - self._member_start + size > _MEMBER_BYTES and self._compression == "gzip":
            self.settle()
        self._begin()
        for part in parts:
            data = memoryview(part)
            for at in range(0, len(data), _PIECE_BYTES):
                self._file.write(self._compressor.compress(data[at : at + _PIECE_BYTES]))
        self._stream += size

    def settle(self) -> None:
        """Has the file hold all that was taken."""
        if self._compressor is not None:
            if self._compression == "gzip":
                self._end()
            else:
                self._file.write(self._compressor.flush(isal_zlib.Z_SYNC_FLUSH))
        self._settled = self._stream

    def finish(self) -> None:
        """Ends the stream; of one without bytes, too."""
        if not self.restarts:
            self._begin()
        if self._compressor is not None:
            self._end()

    def _begin(self) -> None:
        if self._compressor is None:
            self._compressor = isal_zlib.compressobj(wbits=WINDOW_BITS[self._compression])
            self._member_start = self._stream
            self.restarts.append((self._stream, self._file.size))

    def _end(self) -> None:
        self._file.write(self._compressor.flush())
        self._compressor = None
