"""Binary files for reading, of paths and URLs alike."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from .byte_source import ByteSource
from .location import Location

_BUFFER_BYTES = 1 << 20


def open_binary(location: Location) -> BinaryIO:
    """Open a file or remote object for reading.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be opened.
    """
    if location.local_path is not None:
        return open(location.local_path, "rb")
    return io.BufferedReader(_OwningReader(location.open()), _BUFFER_BYTES)


class SourceReader(io.RawIOBase):
    """A byte source as a readable file. If it is compressed, it seeks only forwards."""

    def __init__(self, source: ByteSource) -> None:
        super().__init__()
        self._source = source
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._source.size
        target = offset + (self._offset if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            if size is None:
                raise io.UnsupportedOperation("the size of a compressed file is not known")
            target += size
        if target < 0:
            raise ValueError(f"offset must not be negative, got {target}")
        if target < self._offset and size is None:
            raise io.UnsupportedOperation("a compressed file can only be read from front to back")
        self._offset = target
        return target

    def readinto(self, buffer: Any) -> int:
        out = memoryview(buffer).cast("B")
        got = self._source.read_into(self._offset, out)
        self._offset += got
        return got


class _OwningReader(SourceReader):
    """A reader that closes its source."""

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
