"""Local files and pipes."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from typing import TypeAlias

from .. import _core
from .byte_source import HEAD_BYTES, ByteBuffer, ByteSource, Ints, read_bytes
from .several_sources import read_ranges
from .stamp import Stamp

StrPath: TypeAlias = str | os.PathLike[str]


class _OpenFile(ByteSource):
    """A source that reads a file descriptor."""

    def __init__(self, path: StrPath, flags: int = 0) -> None:
        self.path = os.fspath(path)
        self._descriptor = os.open(self.path, os.O_RDONLY | flags)
        # Not a method __del__: at the interpreter's exit it would miss the names of its module. The
        # system then closes the file: reads in other threads may still be running.
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._close.atexit = False
        status = os.fstat(self._descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        self.stamp = stamp_of(status)
        self.is_seekable = is_seekable_file(status)
        if self.is_seekable:
            self.file_watch = _core.FileWatch(
                self._descriptor, self.stamp.size, self.stamp.mtime_ns
            )

    def close(self) -> None:
        self._descriptor = -1
        self.descriptor = self.file_watch = None
        self._close()


class LocalFile(_OpenFile):
    """A local file, read by ``pread``.

    It is not mapped: if a mapped file is truncated, reading it kills the process.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
        OSError: If the path is a pipe, or cannot be opened.
    """

    def __init__(self, path: StrPath) -> None:
        super().__init__(path, os.O_NONBLOCK)  # opening a pipe would wait for a writer
        if not self.is_seekable:
            raise OSError(
                errno.ESPIPE, "a pipe has no index: it is read once, from front to back", self.path
            )
        self.descriptor = self._descriptor

    @property
    def size(self) -> int:
        """Present size of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, offset: int, out: memoryview) -> int:
        done = 0
        while done < len(out):
            got = os.preadv(self._descriptor, [out[done:]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        return read_ranges([self], [0, len(ranges)], ranges, out)


class PipeFile(_OpenFile):
    """A pipe, FIFO or terminal, which is read once, from front to back, by one thread."""

    def __init__(self, path: StrPath) -> None:
        super().__init__(path)
        self._buffered = b""  # read from the pipe, but not by the caller
        self._offset = 0  # of the next byte for the caller

    @property
    def size(self) -> None:
        return None

    def head(self) -> bytes:
        """Return some of the first bytes, which remain to be read: at least 12, if there are.

        Raises:
            ValueError: If they were read already.
        """
        if self._offset:
            raise ValueError("the first bytes of the pipe were read already")
        while len(self._buffered) < 12 and (more := os.read(self._descriptor, HEAD_BYTES)):
            self._buffered += more
        return self._buffered

    def read_into(self, offset: int, out: memoryview) -> int:
        self._check_offset(offset)
        if self._buffered:
            got = min(len(self._buffered), len(out))
            out[:got] = self._buffered[:got]
            self._buffered = self._buffered[got:]
        else:
            got = os.readv(self._descriptor, [out])
        self._offset += got
        return got

    def _check_offset(self, offset: int) -> None:
        if offset != self._offset:
            raise ValueError(f"offset must be {self._offset}, the pipe's position, got {offset}")


def head_of(source: ByteSource) -> bytes:
    """Return the first bytes of a stream: at least 12, unless it is shorter."""
    return source.head() if isinstance(source, PipeFile) else read_bytes(source, 0, HEAD_BYTES)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file by its status.

    Times before 1678 or after 2262 wrap around to 64 bits, as in the native core.
    """
    mtime_ns = (status.st_mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63)
    return Stamp((status.st_dev, status.st_ino), status.st_size, mtime_ns)


def is_seekable_file(status: os.stat_result) -> bool:
    """Return whether a file with this status can be read at any offset, and more than once."""
    mode = status.st_mode
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)
