"""Where bytes live: a source that can be read at any offset, and local files."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core

StrPath: TypeAlias = "str | os.PathLike[str]"


class ByteSource(Protocol):
    """A stream of bytes that can be read at any offset. Safe to use from several threads."""

    path: str

    def read_into(self, offset: int, out: memoryview) -> int:
        """Fills ``out`` from stream offset ``offset`` on; gives less only at the end."""

    def read_ranges(self, ranges: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> int | None:
        """Reads ranges, ``[n, 3]``: stream offset, size, place in ``out``.

        Returns:
            None, or the number of the first range that reaches past the end.
        """

    def will_need(self, ranges: npt.NDArray[np.int64]) -> None:
        """Hints that ranges are about to be read."""


class Stamp(NamedTuple):
    """What tells a file from another one of its name, and from itself before a change."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file by its status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LocalFile:
    """A file read by ``pread``.

    Not mapped: a file that is cut short under a map kills the process, here it is a short read.

    Attributes:
        path: Its name.
        stamp: What it was when it was opened.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such file.
        OSError: it cannot seek, as a pipe cannot.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self._descriptor, status = _open(self.path)
        if not _seeks(status):
            raise OSError(errno.ESPIPE, "only a file that can seek has an index", self.path)
        self.stamp = Stamp.of(status)

    def __del__(self) -> None:
        # Closed when the last user drops it, so a thread that still reads is never cut off.
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    @property
    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._descriptor).st_size

    def read_into(self, offset: int, out: memoryview) -> int:
        done = 0
        while done < len(out):
            got = os.preadv(self._descriptor, [out[done:]], offset + done)
            if got == 0:
                break
            done += got
        return done

    def read_ranges(self, ranges: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> int | None:
        short = _core.read_ranges(self._descriptor, ranges, out)
        return None if short < 0 else short

    def will_need(self, ranges: npt.NDArray[np.int64]) -> None:
        _core.advise_ranges(self._descriptor, ranges)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``."""
        return os.pread(self._descriptor, size, offset)

    def mapped(self, size: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes, mapped; read-only uint8.

        They must not be touched once the file was cut short.
        """
        return _core.map_file(self._descriptor, size)


def _open(path: str) -> tuple[int, os.stat_result]:
    descriptor = os.open(path, os.O_RDONLY)
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return descriptor, status


def _seeks(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) or stat.S_ISBLK(status.st_mode)


def write_atomically(path: StrPath, data: bytes) -> None:
    """Writes a whole file or none: to a temporary file beside it, which is then renamed."""
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; give it the mode that open() would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
