"""Files that appear under their names only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import weakref
from collections.abc import Iterator
from io import FileIO
from typing import Self

from .byte_source import ByteSource
from .local import LocalFile, StrPath
from .temporary import temporary_name

_NO_FOLDER_SYNC = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP)


class PendingFile:
    """A new file that is written under a temporary name and then renamed.

    The temporary file lies in the same folder. It is removed at the end of a ``with`` block, when
    the object is dropped, or when the interpreter exits, unless it was renamed. Only the process
    that created the file removes it, not a forked child.

    Args:
        path: Name that the file gets.
        mode: Permissions, from which the umask is subtracted.

    Attributes:
        path: Name that the file gets; system errors name it.
        temporary: Temporary name.
        size: Number of bytes written.

    Raises:
        IsADirectoryError: If the name is that of a directory.
        OSError: If the name is that of a device or pipe, or no file can be created in the folder.
    """

    def __init__(self, path: StrPath, mode: int = 0o666) -> None:
        self.path = os.fspath(path)
        self.size = 0
        self._owner = os.getpid()
        check_replaceable(self.path)
        with _errors_naming(self.path):
            self.temporary = temporary_name(self.path)
            opened: list[FileIO] = []
            # Registered first, because Ctrl-C may come right after the file is created. Not a
            # method of this object, which would keep the object alive.
            self._remove = weakref.finalize(
                self, _remove_unfinished, opened, self.temporary, self._owner
            )
            opened.append(_create(self.temporary, mode))
        [self._file] = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def write(self, *parts: bytes | memoryview) -> None:
        """Append bytes. After an error, the number of bytes in the file is undefined."""
        with _errors_naming(self.path):
            done = os.writev(self._file.fileno(), parts)
        self.size += done
        if done < sum(map(len, parts)):  # seldom
            self.write(memoryview(b"".join(parts))[done:])

    def source(self) -> ByteSource:
        """Open the content that was written so far."""
        return LocalFile(self.temporary)

    def sync(self) -> None:
        """Wait until all bytes are on storage. Nothing can be written afterwards.

        The object holds no descriptor from then on: there may be more files than descriptors.
        """
        if not self._file.closed:
            with _errors_naming(self.path):
                os.fsync(self._file.fileno())
                self._file.close()

    def rename(self, path: StrPath | None = None) -> None:
        """Rename the file, replacing any file of that name.

        Args:
            path: New name. Default: ``self.path``.
        """
        target = self.path if path is None else os.fspath(path)
        with _errors_naming(target):
            os.replace(self.temporary, target)
        self._remove.detach()

    def discard(self) -> None:
        """Remove the temporary file. Nothing happens if it was renamed."""
        self._remove.detach()
        _remove_unfinished([self._file], self.temporary, self._owner)


def check_replaceable(path: str) -> None:
    """Raise OSError if the path is a directory, device or pipe, or cannot be accessed."""
    with _errors_naming(path), contextlib.suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "a device, pipe or socket is not replaced by a file")


def output_exists(path: StrPath) -> FileExistsError:
    """Return the error of an output that exists, and may not be replaced."""
    return FileExistsError(
        errno.EEXIST,
        "the output exists; choose another name, or replace it with force=True (--force)",
        os.fspath(path),
    )


def write_atomically(
    path: StrPath, data: bytes, *, durable: bool = True, mode: int = 0o666
) -> None:
    """Write a complete file, or none: write a temporary file and rename it.

    Args:
        path: Name of the file.
        data: Content of the file.
        durable: Wait until the content is on storage. Otherwise it may be lost or damaged if the
            machine fails within seconds, which is acceptable for content that has a checksum and
            can be created again.
        mode: Permissions, from which the umask is subtracted.
    """
    with PendingFile(path, mode) as file:
        file.write(data)
        if durable:
            file.sync()
        file.rename()


def sync_folder(path: StrPath) -> None:
    """Wait until the names in a folder are on storage, if the file system supports that.

    Raises:
        OSError: If the system reports that they may not be there.
    """
    try:
        sync_path(path or os.curdir)
    except OSError as error:
        # A folder that must not be read cannot be opened; some file systems have no such call.
        if error.errno not in _NO_FOLDER_SYNC:
            raise OSError(error.errno, error.strerror, os.fspath(path) or os.curdir) from error


def sync_path(path: StrPath) -> None:
    """Wait until a file, or the names in a folder, are on storage.

    Raises:
        OSError: If the system reports that they may not be there.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _errors_naming(path: str) -> Iterator[None]:
    """Add the path to system errors raised in the block."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error


def _create(path: str, mode: int) -> FileIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    return os.fdopen(descriptor, "wb", buffering=0)


def _remove_unfinished(opened: list[FileIO], temporary: str, owner: int) -> None:
    with contextlib.suppress(OSError):
        for file in opened:
            file.close()
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
