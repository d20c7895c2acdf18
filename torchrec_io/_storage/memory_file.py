"""A part of a file in memory."""

from __future__ import annotations

from .byte_source import ByteSource, read_bytes


class MemoryFile(ByteSource):
    """A part of a file, read at once. The file seems to end where the part does.

    Args:
        file: The file.
        offset: Offset of the part in the file.
        size: Size of the part in bytes.
    """

    def __init__(self, file: ByteSource, offset: int, size: int) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self._offset = offset
        self._data = read_bytes(file, offset, size)

    @property
    def size(self) -> int:
        return self._offset + len(self._data)

    def read_into(self, offset: int, out: memoryview) -> int:
        begin = offset - self._offset
        data = self._data[begin : begin + len(out)] if begin >= 0 else b""
        out[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the source: a no-op, because no file is open."""
