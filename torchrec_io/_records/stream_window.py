"""A part of a stream in memory, which moves forwards."""

from __future__ import annotations

import numpy as np

from .._storage.byte_source import ByteBuffer, ByteSource, file_bytes_read
from ..errors import TorchRecIOError

# Stands for the end of a stream of unknown size.
UNKNOWN_END = 2**63 - 1

_WINDOW_BYTES = 1 << 20


class StreamWindow:
    """A part of a stream in memory, which moves forwards.

    Args:
        source: Stream to read.
        at: Stream offset to start from.
        end: Stream offset where the window stops.

    Attributes:
        source: Stream to read.
        at: Stream offset of the first byte.
        damage: Damage that ends the stream, once it was reached.
        stream_end: End of the stream when it was opened, if that is known.
    """

    def __init__(self, source: ByteSource, at: int = 0, end: int = UNKNOWN_END) -> None:
        self.source = source
        self.at = at
        self.damage: TorchRecIOError | None = None
        # A file that grows while it is read is read up to its first size.
        self.stream_end = end if source.size is None else min(end, source.size)
        self._buffer = np.empty(_WINDOW_BYTES, np.uint8)
        self._size = 0

    @property
    def content(self) -> ByteBuffer:
        """Bytes of the window, valid until the next :meth:`drop` or :meth:`fill`; uint8."""
        return self._buffer[: self._size]

    @property
    def file_bytes_read(self) -> int:
        """Number of bytes of the file read so far."""
        return file_bytes_read(self.source, self.at + self._size)

    def fill(self, need: int, at_once: int | None = None) -> bool:
        """Read more of the stream; return False at its end.

        Memory grows with the bytes that are read, not with what a damaged length asks for.

        Args:
            need: Number of bytes that the window should hold in the end.
            at_once: Most bytes that are read beyond what is needed. Default: 1 MiB.
        """
        most = max(_WINDOW_BYTES if at_once is None else at_once, need)
        if self._size == len(self._buffer):
            self._move_to(np.empty(min(2 * self._size, most), np.uint8), 0)
        stop = min(len(self._buffer), most, self.stream_end - self.at)
        if self.damage is not None or stop <= self._size:
            return False
        try:
            got = self.source.read_into(self.at + self._size, self._buffer.data[self._size : stop])
        except TorchRecIOError as damage:
            self.damage = damage
            self.drop_kept()
            return False
        self._size += got
        return got > 0

    def drop_kept(self) -> None:
        """Drop the cached data of the window, which is damaged: the next reader loads it again."""
        if self.source.is_seekable:
            size = max(1, self._size)
            self.source.drop_kept(np.array([(self.at, size, 0)]))

    def skip(self, count: int) -> bool:
        """Drop the first bytes; return False if the stream ends before.

        They are read if the size of the stream is not known, but not kept, however many they are.
        """
        if count > self._size and self.source.size is not None:
            self.at += count
            self._size = 0
            return self.at <= self.stream_end
        while count > self._size:
            count -= self._size
            self.drop(self._size)
            if not self.fill(1):
                return False
        self.drop(count)
        return True

    def drop(self, count: int) -> None:
        """Drop the first bytes."""
        can_shrink = self._size - count <= _WINDOW_BYTES < len(self._buffer)
        self._move_to(np.empty(_WINDOW_BYTES, np.uint8) if can_shrink else self._buffer, count)
        self.at += count

    def _move_to(self, buffer: ByteBuffer, skip: int) -> None:
        rest = self._size - skip
        buffer[:rest] = self._buffer[skip : self._size]
        self._buffer = buffer
        self._size = rest
