"""The folder of a cache: its blocks, and which ones are removed.

A block is stored while the lock of the folder is held: room is made for it, its size is added to
the count of the folder, its data is written under a temporary name, and the file is renamed. So the
folder never exceeds its bound. The lock ends with the process, however that ends. The temporary
file of a killed process is removed by the next one that stores a block. Its size stays counted
until the sizes of all files are added up again.

The process that loads a block holds a lock of that block meanwhile, so that others wait for it
instead of loading the same one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import heapq
import logging
import os
import re
import stat
import struct
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from ..byte_source import ByteBuffer, Ints
from ..cache_folder import make_cache_folder
from ..file_lock import file_lock, release
from .block_file import file_bytes, read_block, write_block

logger = logging.getLogger("torchrec_io")

_STATE_NAME = "torchrec_io-cache"
_TEMPORARY_NAME = "torchrec_io-cache.part"
_STATE = struct.Struct("<8sQQ")
_MAGIC = b"TIOCACH1"
_NAME = re.compile(r"(?P<object>[0-9a-f]{32})-[0-9a-f]+\.block")
_PAGE_BYTES = 4096
# Counted for each file in addition to its content: its entry in the folder.
_ENTRY_BYTES = 256
# Counted for the folder itself and the state.
_BASE_BYTES = 4 * _PAGE_BYTES
# Making room frees this part of the bound more, because it inspects all files.
_SPARE = 50
# Files that are removed after one look at all files, at most: their names are in memory.
_MOST_REMOVED = 1 << 16
# The time of the last use of a block is stored when it is older than this.
_SECONDS_BETWEEN_USES = 10.0
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class CacheSummary(NamedTuple):
    """Content of a cache.

    Attributes:
        directory: Folder of the cache.
        size: Size of all its files in bytes, as the file system counts them.
        max_bytes: Bound that it was last used with; None if it was never used.
        blocks: Number of blocks.
        objects: Number of objects that the blocks belong to.
        oldest: Time of the last use of the block that was not used for longest, in seconds since
            1970; None without blocks.
    """

    directory: str
    size: int
    max_bytes: int | None
    blocks: int
    objects: int
    oldest: float | None


class StoredFile(NamedTuple):
    """A block of the cache.

    Attributes:
        path: Path of the file.
        object: Digest of the object that the block belongs to.
        size: Size in bytes, as the file system counts it.
        used_ns: Time of its last use, in nanoseconds since 1970.
    """

    path: str
    object: str
    size: int
    used_ns: int


class CacheFolder(NamedTuple):
    """A folder of blocks. Safe to use from several threads and processes, and after a fork.

    Attributes:
        path: The folder. It is created when a block is stored.
        max_bytes: Largest size of all its files.
    """

    path: str
    max_bytes: int

    def block_path(self, name: str) -> str:
        """Return the path of a block."""
        return f"{self.path}/{name}.block"

    # ---- blocks ----

    def read(self, name: str, size: int, ranges: Ints, out: ByteBuffer) -> bool:
        """Read ranges of a block, and note that it is used.

        Args:
            name: Name of the block.
            size: Size of its data in bytes.
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.

        Returns:
            Whether the cache has the block. A file in its place that cannot be used is removed.
        """
        path = self.block_path(name)
        try:
            descriptor = _open_regular(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        except OSError:
            self.remove(path)
            return False
        is_read = False
        try:
            status = os.fstat(descriptor)
            if self._is_trusted(status):
                is_read = read_block(descriptor, name, size, ranges, out)
            if is_read and time.time() - status.st_mtime > _SECONDS_BETWEEN_USES:
                with contextlib.suppress(OSError):  # another user's file may not allow it
                    os.utime(descriptor)
        except OSError:
            is_read = False
        finally:
            os.close(descriptor)
        if not is_read:
            self.remove(path)
        return is_read

    def store(self, name: str, data: ByteBuffer) -> None:
        """Store a block. If that is not possible, as on a full disk, it is logged once."""
        try:
            make_cache_folder(self.path)
            with self.locked() as state:
                if not os.path.lexists(self.block_path(name)):
                    self._write(state, name, data)
        except OSError as error:
            _log_unwritable(self.path, os.strerror(error.errno or errno.EIO))

    @contextlib.contextmanager
    def block_lock(self, name: str) -> Iterator[None]:
        """Hold the lock of a block. If the folder cannot be written, there is none."""
        with contextlib.suppress(OSError):
            make_cache_folder(self.path)
        with file_lock(f"{self.path}/{name}.lock", lambda: None):
            yield

    def _is_trusted(self, status: os.stat_result) -> bool:
        """Return whether a file is of this user, or of one who was given access to the folder.

        Checksums detect damage, not forgery.
        """
        if status.st_mode & stat.S_IWOTH:
            return False
        if status.st_uid in (os.geteuid(), 0):
            return True
        return not os.stat(self.path).st_mode & stat.S_IWOTH

    # ---- room ----

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the lock of the folder, and provide the descriptor of its state.

        Raises:
            OSError: If the folder cannot be written.
        """
        descriptor = self._open_writable(_STATE_NAME)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):  # there is one if a process was killed
                os.unlink(os.path.join(self.path, _TEMPORARY_NAME))
            yield descriptor
        finally:
            release(descriptor)

    def _write(self, state: int, name: str, data: ByteBuffer) -> None:
        """Write a block, while the folder is locked.

        It is counted first: a process that is killed leaves a count that is too large, never one
        that is too small.

        Raises:
            OSError: If the block cannot be written, or there is no room.
        """
        size = _size_on_disk(file_bytes(len(data))) + _ENTRY_BYTES
        used = self._make_room(state, size)
        _write_state(state, used + size, self.max_bytes)
        temporary = os.path.join(self.path, _TEMPORARY_NAME)
        descriptor = self._open_writable(_TEMPORARY_NAME)
        try:
            write_block(descriptor, name, data)
            os.rename(temporary, self.block_path(name))
        except OSError:
            os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)

    def _make_room(self, state: int, size: int) -> int:
        """Remove the blocks that were not used for longest, until a file of a size has room.

        Returns:
            Size of all files in bytes.
        """
        used, _ = _read_state(state)
        most = self.max_bytes - size
        if most < _BASE_BYTES:
            raise OSError(errno.EFBIG, "a block is larger than the cache", self.path)
        if used > most:
            used = self._count()
            for file in heapq.nsmallest(_MOST_REMOVED, self.files(), key=lambda file: file.used_ns):
                if used <= most - self.max_bytes // _SPARE:
                    break
                if self.remove(file.path):
                    used -= file.size
        if used > most:
            raise OSError(errno.ENOSPC, "the cache has no room for a block", self.path)
        return used

    def remove(self, path: str) -> bool:
        """Remove a file of the cache; return whether it is gone."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def clear(self) -> None:
        """Remove all blocks.

        Raises:
            OSError: If the folder cannot be used.
        """
        with self.locked() as state:
            _, bound = _read_state(state)
            for file in self.files():
                self.remove(file.path)
            _write_state(state, self._count(), bound or 0)

    def files(self) -> Iterator[StoredFile]:
        """Yield the blocks of the cache. Other files in the folder do not belong to it."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                matched = _NAME.fullmatch(entry.name)
                if matched is None:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # removed by now
                    continue
                size = max(_size_on_disk(status.st_size), status.st_blocks * 512) + _ENTRY_BYTES
                yield StoredFile(entry.path, matched["object"], size, status.st_mtime_ns)

    def summary(self) -> CacheSummary:
        """Return the present size and content of the cache.

        Raises:
            FileNotFoundError: If there is no such folder.
        """
        files = [*self.files()]
        return CacheSummary(
            directory=self.path,
            size=sum(file.size for file in files),
            max_bytes=self._bound(),
            blocks=len(files),
            objects=len({file.object for file in files}),
            oldest=min((file.used_ns / 1e9 for file in files), default=None),
        )

    def _bound(self) -> int | None:
        """Return the bound of the process that wrote last; None if it is not known."""
        with contextlib.suppress(OSError):  # missing, or of another user
            descriptor = _open_regular(os.path.join(self.path, _STATE_NAME), os.O_RDONLY)
            try:
                return _read_state(descriptor)[1]
            finally:
                os.close(descriptor)
        return None

    def _count(self) -> int:
        return _BASE_BYTES + sum(file.size for file in self.files())

    def _open_writable(self, name: str) -> int:
        """Open a file for writing, for all who may write to the folder."""
        mode = os.stat(self.path).st_mode & 0o666
        descriptor = _open_regular(os.path.join(self.path, name), os.O_RDWR | os.O_CREAT, mode)
        if mode & stat.S_IWGRP:
            with contextlib.suppress(OSError):  # another user's
                os.fchmod(descriptor, mode)  # whatever the umask
        return descriptor


def _read_state(descriptor: int) -> tuple[int, int | None]:
    """Return the size of all files, and the bound. An unknown size is larger than any bound."""
    data = os.pread(descriptor, _STATE.size, 0)
    if len(data) == _STATE.size and data.startswith(_MAGIC):
        _, used, bound = _STATE.unpack(data)
        return used, bound or None
    return sys.maxsize, None


def _write_state(descriptor: int, used: int, bound: int) -> None:
    os.pwrite(descriptor, _STATE.pack(_MAGIC, used, bound), 0)


def _open_regular(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file, unless it is a link, a pipe or a device, or has another name.

    Others may have put that into the folder. A pipe would be waited for, and what is written to a
    link would change a file elsewhere.
    """
    descriptor = os.open(path, flags | _OPEN_FLAGS, mode)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file with one name", path)


def _size_on_disk(size: int) -> int:
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES


@functools.lru_cache(maxsize=64)
def _log_unwritable(directory: str, reason: str) -> None:
    """Log once that a cache cannot be written."""
    logger.warning(
        "the cache %s cannot be written (%s): data is read without it", directory, reason
    )
