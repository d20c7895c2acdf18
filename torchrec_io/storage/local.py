"""Where bytes live: a source that can be read at any offset, and local files."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import weakref
from collections.abc import Iterator, Sequence
from io import FileIO
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core

if TYPE_CHECKING:
    from typing_extensions import Self

StrPath: TypeAlias = "str | os.PathLike[str]"

# What is looked at to tell what is in a file.
_HEAD_BYTES = 1 << 12
# The fingerprint of a file covers this much at each of its ends.
_SAMPLE_BYTES = 1 << 16
_NO_ACCESS_TIME: int = getattr(os, "O_NOATIME", 0)  # only Linux has it


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


class OpenFile:
    """An open descriptor.

    Attributes:
        path: The file's name.
        stamp: What the file was when it was opened.
        seeks: Whether it can be read at any offset.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such file.
    """

    def __init__(self, path: StrPath, flags: int = 0) -> None:
        self.path = os.fspath(path)
        self._descriptor = os.open(self.path, os.O_RDONLY | flags)
        status = os.fstat(self._descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
        self.stamp = Stamp.of(status)
        self.seeks = _seeks(status)

    def __del__(self) -> None:
        # Closed when the last user drops it, so a thread that still reads is never cut off.
        if hasattr(self, "_descriptor"):
            self.close()

    def close(self) -> None:
        """Closes it early. Nobody may be reading."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class LocalFile(OpenFile):
    """A file read by ``pread``.

    Not mapped: a file that is cut short under a map kills the process, here it is a short read.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such file.
        OSError: it is a pipe, or else cannot be read at any offset.
    """

    def __init__(self, path: StrPath) -> None:
        # Opening a pipe would wait for somebody to write.
        flags = os.O_NONBLOCK
        # Noting that a file was read takes a tenth of the time of a small read. Only the file's
        # owner may do without.
        try:
            super().__init__(path, flags | _NO_ACCESS_TIME)
        except PermissionError:
            super().__init__(path, flags)
        if not self.seeks:
            raise OSError(
                errno.ESPIPE, "a pipe has no index: it is read once, from front to back", self.path
            )

    @property
    def descriptor(self) -> int:
        """Open as long as this object is there."""
        return self._descriptor

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
        return read_ranges([self], [0, len(ranges)], ranges, out).truncated_range

    def will_need(self, ranges: npt.NDArray[np.int64]) -> None:
        _core.advise_ranges(self._descriptor, ranges)

    def head(self) -> bytes:
        """The bytes at the front, or some of them."""
        return self.read(0, _HEAD_BYTES)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``."""
        return os.pread(self._descriptor, size, offset)

    def mapped(self, size: int) -> npt.NDArray[np.uint8]:
        """The first ``size`` bytes, mapped; read-only uint8.

        They must not be touched once the file was cut short.
        """
        return _core.map_file(self._descriptor, size)


class PipeFile(OpenFile):
    """What gives its bytes just once, from front to back: a FIFO, standard input, a terminal.

    Not for several threads.
    """

    def __init__(self, path: StrPath) -> None:
        super().__init__(path)
        self._held = b""  # read, but not yet given
        self._at = 0  # offset of what is given next

    def head(self) -> bytes:
        """Some bytes at the front, which are still to be read; 12 at least if there are so many."""
        if self._at:
            raise ValueError("the front is gone")
        while len(self._held) < 12 and (more := os.read(self._descriptor, _HEAD_BYTES)):
            self._held += more
        return self._held

    def read_into(self, offset: int, out: memoryview) -> int:
        """As a ByteSource has it, but gives what the pipe holds rather than wait for more."""
        self._check(offset)
        if self._held:
            got = min(len(self._held), len(out))
            out[:got] = self._held[:got]
            self._held = self._held[got:]
        else:
            got = os.readv(self._descriptor, [out])
        self._at += got
        return got

    def read(self, offset: int, size: int) -> bytes:
        """Between 1 and ``size`` bytes; none at the end."""
        self._check(offset)
        data, self._held = self._held[:size], self._held[size:]
        data = data or os.read(self._descriptor, size)
        self._at += len(data)
        return data

    def _check(self, offset: int) -> None:
        if offset != self._at:
            raise ValueError(f"a pipe is at byte {self._at}, byte {offset} cannot be read")


def read_ranges(
    sources: Sequence[ByteSource],
    cuts: Sequence[int],
    ranges: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> _core.ReadResult:
    """Reads ranges of several sources, by one call if all of them are local files.

    Args:
        sources: What is read.
        cuts: Where the ranges of each source start, and where those of the last one end.
        ranges: int64 ``[n, 3]``: stream offset, size, place in ``out``.
        out: uint8.
    """
    descriptors = [file.descriptor for file in sources if isinstance(file, LocalFile)]
    if len(descriptors) == len(sources):
        return _core.read_ranges(descriptors, cuts, ranges, out)
    for source, begin, end in zip(sources, cuts[:-1], cuts[1:], strict=True):
        short_of = source.read_ranges(ranges[begin:end], out)
        if short_of is not None:
            return _core.ReadResult(begin + short_of)
    return _core.ReadResult()


def open_file(path: StrPath) -> LocalFile | PipeFile:
    """Opens what is to be read from front to back, and only once."""
    return LocalFile(path) if seeks(path) else PipeFile(path)


def seeks(path: StrPath) -> bool:
    """Whether a file can be read at any offset, and more than once."""
    return _seeks(os.stat(path))


def _seeks(status: os.stat_result) -> bool:
    mode = status.st_mode
    return stat.S_ISREG(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)


def fingerprint(file: LocalFile, size: int) -> int:
    """64 bits over the first and the last 64 KiB of a file."""
    head = file.read(0, _SAMPLE_BYTES)
    # Of a small file both are the whole: it is read once.
    tail = head if size <= _SAMPLE_BYTES else file.read(size - _SAMPLE_BYTES, _SAMPLE_BYTES)
    digest = hashlib.blake2b(head, digest_size=8)
    digest.update(tail)
    return int.from_bytes(digest.digest(), "little")


class PendingFile:
    """A new file that gets its name only once it is whole; until then, a temporary one beside it.

    A context manager, at whose end it is removed unless it was renamed. So it is when it is dropped
    and when the interpreter ends, but only in the process that made it: a forked child leaves it to
    its parent.

    Attributes:
        path: The name it is meant to have; errors of the system name it.
        temporary: The name it has.
        size: Bytes written.

    Raises:
        IsADirectoryError: there is a directory of that name.
        OSError: there is something else of that name that is no file, or none can be made there.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self.size = 0
        check_replaceable(self.path)
        with _naming(self.path):
            while True:
                self.temporary = _name_beside(self.path)
                opened: list[FileIO] = []
                # Known before it is made: Ctrl-C may come in between. And no method of this object:
                # that would keep it alive.
                self._remove = weakref.finalize(
                    self, _remove_unfinished, opened, self.temporary, os.getpid()
                )
                try:
                    opened.append(_create(self.temporary))
                    break
                except FileExistsError:  # it is somebody else's
                    self._remove.detach()
        [self._file] = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, *parts: bytes | memoryview) -> None:
        """Appends bytes. After an error nobody knows how many of them are there."""
        left = [memoryview(part) for part in parts]
        with _naming(self.path):
            while left:
                done = os.writev(self._file.fileno(), left)
                self.size += done
                while left and done >= len(left[0]):
                    done -= len(left.pop(0))
                if left:
                    left[0] = left[0][done:]

    def lend(self) -> str:
        """Leaves writing to who opens it by its temporary name, which is given back.

        It takes no descriptor until :meth:`sync`: there may be more such files than those.
        """
        self._file.close()
        return self.temporary

    def sync(self) -> None:
        """Has the storage hold all of it; nothing can be written any more."""
        with _naming(self.path):
            if self._file.closed:
                _sync_path(self.temporary)
            else:
                os.fsync(self._file.fileno())
                self._file.close()

    def rename(self, path: StrPath | None = None) -> None:
        """Gives it its name, by default ``path``, in place of a file that has it."""
        target = self.path if path is None else os.fspath(path)
        with _naming(target):
            os.replace(self.temporary, target)
        self._remove.detach()

    def discard(self) -> None:
        """Removes it, unless it was renamed."""
        self._remove()


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Errors of the system say which file they are about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error


def check_replaceable(path: str) -> None:
    """Raises OSError if no file of that name can be made, or what has it is no file."""
    with _naming(path), contextlib.suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "a device, pipe or socket is not replaced by a file")


def _name_beside(path: str) -> str:
    """A name that no file in the same folder is likely to have."""
    folder, name = os.path.split(path)
    # Readers' patterns and directories pass over names that begin with a dot.
    return os.path.join(folder, f".{name[:50]}-{secrets.token_hex(4)}")


def _create(path: str) -> FileIO:
    """A new file, of the mode that open() gives."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    return os.fdopen(descriptor, "wb", buffering=0)


def _remove_unfinished(opened: list[FileIO], temporary: str, owner: int) -> None:
    with contextlib.suppress(OSError):
        for file in opened:
            file.close()
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def write_atomically(path: StrPath, data: bytes, *, durable: bool = True) -> None:
    """Writes a whole file or none: to a temporary file beside it, which is then renamed.

    Args:
        path: Of the file.
        data: What is in it.
        durable: Wait until the storage holds it. Without, it may be lost or damaged if the machine
            fails within the next seconds: enough for what can be made again and has a checksum.
    """
    with PendingFile(path) as file:
        file.write(data)
        if durable:
            file.sync()
        else:
            file.lend()
        file.rename()


def sync_folder(path: StrPath) -> None:
    """Has the storage hold the names in a folder, where it can be told to."""
    with contextlib.suppress(OSError):
        _sync_path(path)


def _sync_path(path: StrPath) -> None:
    """Has the storage hold what has a name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
