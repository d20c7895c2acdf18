"""The front of a stream, up to an offset."""

from __future__ import annotations

from ..errors import TorchRecIOError
from .byte_source import ByteSource


class FrontOfStream(ByteSource):
    """The bytes of a stream before an offset.

    Args:
        source: The stream.
        end: Offset where the stream ends for its readers. The stream must reach that far.
    """

    def __init__(self, source: ByteSource, end: int) -> None:
        self.path = source.path
        self.stamp = source.stamp
        self.is_seekable = source.is_seekable
        self.file_watch = source.file_watch
        self.is_pinned = source.is_pinned
        self._source = source
        self._end = end

    @property
    def size(self) -> int:
        return self._end

    def read_into(self, offset: int, out: memoryview) -> int:
        return self._source.read_into(offset, out[: max(0, self._end - offset)])

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        return self._source.read_before_damage(offset, out[: max(0, self._end - offset)])

    def file_bytes_read(self, offset: int) -> int:
        return self._source.file_bytes_read(offset)

    def close(self) -> None:
        self._source.close()
        self.file_watch = None
