"""Binary files for writing outputs that have no name yet."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from .._storage.local import StrPath
from .._storage.outputs import Pending

_BUFFER_BYTES = 1 << 16


def open_named(temporary: StrPath, path: StrPath, mode: str = "wb") -> BinaryIO:
    """Open a temporary file for writing; errors of the system name its target.

    Args:
        temporary: Path of the file to open.
        path: Path that errors name.
        mode: ``"wb"``, or ``"xb"`` if the file must not exist.
    """
    return io.BufferedWriter(_NamedFile(temporary, path, mode), _BUFFER_BYTES)


class _NamedFile(io.FileIO):
    def __init__(self, temporary: StrPath, path: StrPath, mode: str) -> None:
        super().__init__(temporary, mode)
        self._path = path

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]  # any buffer
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(self._path)) from error


class PendingStream(io.RawIOBase):
    """A pending output as a file that is written from start to end. It is stored when closed."""

    def __init__(self, pending: Pending) -> None:
        self._pending = pending

    def buffered(self) -> BinaryIO:
        """Return the file with a buffer."""
        return io.BufferedWriter(self, _BUFFER_BYTES)

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._pending.size

    def close(self) -> None:
        """Wait until the content is stored."""
        if not self.closed:
            self._pending.sync()
        super().close()

    def write(self, data: object, /) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]  # any buffer
        self._pending.write(view)
        return len(view)
