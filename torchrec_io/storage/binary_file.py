"""Binary files for reading, of paths and URLs alike."""

from __future__ import annotations

import io
from typing import BinaryIO

from .byte_source import ByteSource
from .local import StrPath
from .opening import is_remote, local_name, open_file
from .remote.options import RemoteOptions

_BUFFER_BYTES = 1 << 20


def open_binary(path: StrPath, remote: RemoteOptions) -> BinaryIO:
    """Open a file or remote object for reading.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be opened.
    """
    if not is_remote(path):
        return open(local_name(path), "rb")
    return io.BufferedReader(_SourceFile(open_file(path, remote)), _BUFFER_BYTES)


class _SourceFile(io.RawIOBase):
    """A byte source as a file."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: self._source.stamp.size}
        self._offset = max(0, starts[whence] + offset)
        return self._offset

    def tell(self) -> int:
        return self._offset

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # any buffer
        done = self._source.read_into(self._offset, view)
        self._offset += done
        return done

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
