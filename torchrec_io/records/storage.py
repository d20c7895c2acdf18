"""Where bytes live: a source that can be read at any offset, and local files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Protocol, TypeAlias

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


class LocalFile:
    """A file read by ``pread``.

    Not mapped: a file that is cut short under a map kills the process, here it is a short read.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        with open(self.path, "rb", buffering=0) as file:  # open() knows what is no file
            self._descriptor = os.dup(file.fileno())

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
