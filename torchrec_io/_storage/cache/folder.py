"""The folder of a cache: its blocks, which process downloads one, and which ones are removed.

A process claims a block before it downloads it: it creates an empty ``.part`` file and locks it. To
store the block, it holds the lock of the folder, makes room, adds the size of the block to the
count of the folder, writes the data and renames the file. So each block is downloaded by one
process at a time, and the folder never exceeds its bound.

The locks end with the process, however that ends. The ``.part`` file of a killed process is used by
the next claim of the block, or removed when room is made. Its size may stay counted until then,
when the sizes of all files are added up again.
"""

from __future__ import annotations

import contextlib
import errno
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

from ..cache_folder import make_cache_folder
from ..file_lock import is_open_at, release, try_lock
from .block_file import CachedBlock, file_bytes, write_block

logger = logging.getLogger("torchrec_io")

_STATE_NAME = "torchrec_io-cache"
_STATE = struct.Struct("<8sQQ")
_MAGIC = b"TIOCACH1"
_NAME = re.compile(r"(?P<object>[0-9a-f]{32})-[0-9a-f]+\.(?P<kind>block|part)")
_PAGE_BYTES = 4096
# Counted for each file in addition to its content: its entry in the folder.
_ENTRY_BYTES = 256
# Counted for the folder itself and the state.
_BASE_BYTES = 4 * _PAGE_BYTES
# Making room frees this part of the bound more, because it inspects all files.
_SPARE = 50
# Files that are removed after one look at all files, at most: their names are in memory.
_MOST_REMOVED = 1 << 16
_SECONDS_TO_LOCK = 30.0
# The time of the last use of a block is stored when it is older than this.
_SECONDS_BETWEEN_USES = 10.0
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class StoredFile(NamedTuple):
    """A file of the cache.

    Attributes:
        path: Path of the file.
        object: Digest of the object that the block belongs to.
        is_part: True until the block is complete.
        size: Size in bytes, as the file system counts it.
        used_ns: Time of its last use, in nanoseconds since 1970.
    """

    path: str
    object: str
    is_part: bool
    size: int
    used_ns: int


class Claim(NamedTuple):
    """The right to write a block. This process has it until it publishes or abandons the block.

    Attributes:
        folder: Folder of the cache.
        name: Name of the block.
        descriptor: Descriptor of its part, which is locked.
    """

    folder: CacheFolder
    name: str
    descriptor: int

    def publish(self, data: memoryview) -> None:
        """Write the block and give up the claim.

        Raises:
            OSError: If the block cannot be written, or there is no room.
        """
        try:
            self.folder.store(self, data)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give up the claim, and remove a block that is not complete."""
        with contextlib.suppress(OSError):
            if self.has_part():
                os.unlink(self.folder.part_path(self.name))
        release(self.descriptor)

    def has_part(self) -> bool:
        """Return whether the part of this claim is in the folder."""
        return is_open_at(self.descriptor, self.folder.part_path(self.name))


class CacheFolder(NamedTuple):
    """A folder of blocks. Safe to use from several threads and processes, and after a fork.

    Attributes:
        path: The folder. It is created when a block is claimed.
        max_bytes: Largest size of all its files.
    """

    path: str
    max_bytes: int

    def block_path(self, name: str) -> str:
        """Return the path of a block that is complete."""
        return f"{self.path}/{name}.block"

    def part_path(self, name: str) -> str:
        """Return the path of a block that is claimed."""
        return f"{self.path}/{name}.part"

    # ---- blocks ----

    def open(self, name: str, size: int) -> CachedBlock | None:
        """Open a block, and note that it is used; return None if the cache has none to use."""
        try:
            descriptor = _open_regular(self.block_path(name), os.O_RDONLY)
            block = CachedBlock(name, descriptor, size)
            status = os.fstat(descriptor)
            if not self._is_trusted(status):
                return None
        except (OSError, ValueError):  # missing, of another user, or damaged
            return None
        if time.time() - status.st_mtime > _SECONDS_BETWEEN_USES:
            with contextlib.suppress(OSError):  # another user's file may not allow it
                os.utime(descriptor)
        return block

    def claim(self, name: str) -> Claim | None:
        """Claim a block; return None if another process has claimed it.

        Raises:
            OSError: If the folder cannot be used.
        """
        make_cache_folder(self.path)
        claim = Claim(self, name, self._create(self.part_path(name)))
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, claim.descriptor)
            # The part is gone if another process had the lock, and gave it up meanwhile.
            if try_lock(claim.descriptor) and claim.has_part():
                closing.pop_all()
                return claim
        return None

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
            TimeoutError: If another process keeps the lock.
        """
        descriptor = self._create(os.path.join(self.path, _STATE_NAME))
        try:
            end = time.monotonic() + _SECONDS_TO_LOCK
            while not try_lock(descriptor):
                if time.monotonic() > end:
                    raise TimeoutError(errno.ETIMEDOUT, "the cache stays locked", self.path)
                time.sleep(0.001)
            yield descriptor
        finally:
            release(descriptor)

    def store(self, claim: Claim, data: memoryview) -> None:
        """Write a block that this process has claimed.

        It is counted first: a process that is killed leaves a count that is too large, never one
        that is too small.

        Raises:
            OSError: If the block cannot be written, or there is no room.
        """
        size = _size_on_disk(file_bytes(len(data))) + _ENTRY_BYTES
        with self.locked() as state:
            if not claim.has_part():
                return  # the folder was removed meanwhile
            used = self._make_room(state, size)
            _write_state(state, used + size, self.max_bytes)
            write_block(claim.descriptor, claim.name, data)
            os.rename(self.part_path(claim.name), self.block_path(claim.name))

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
            for file in heapq.nsmallest(_MOST_REMOVED, self.files(), key=_removal_order):
                if used <= most - self.max_bytes // _SPARE:
                    break
                if self.remove(file.path):
                    used -= file.size
        if used > most:
            raise OSError(errno.ENOSPC, "the cache has no room for a block", self.path)
        return used

    def remove(self, path: str) -> bool:
        """Remove a file of the cache, unless it is locked; return whether it is gone."""
        descriptor = None
        try:
            with contextlib.suppress(OSError):  # a link in its place, or of another user
                descriptor = _open_regular(path, os.O_RDWR)
            if descriptor is not None and not try_lock(descriptor):
                return False
            os.unlink(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        finally:
            if descriptor is not None:
                release(descriptor)
        return True

    def clear(self) -> None:
        """Remove all blocks, except blocks that a process is writing.

        Raises:
            OSError: If the folder cannot be used.
        """
        with self.locked() as state:
            _, bound = _read_state(state)
            for file in self.files():
                self.remove(file.path)
            _write_state(state, self._count(), bound or 0)

    def files(self) -> Iterator[StoredFile]:
        """Yield the files of the cache. Other files in the folder do not belong to it."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                matched = _NAME.fullmatch(entry.name)
                if matched is None:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # removed by now
                    continue
                is_part = matched["kind"] == "part"
                size, used_ns = _counted(status), status.st_mtime_ns
                yield StoredFile(entry.path, matched["object"], is_part, size, used_ns)

    def bound(self) -> int | None:
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

    def _create(self, path: str) -> int:
        """Open a file for writing, for all who may write to the folder."""
        mode = os.stat(self.path).st_mode & 0o666
        descriptor = _open_regular(path, os.O_RDWR | os.O_CREAT, mode)
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


def _removal_order(file: StoredFile) -> tuple[bool, int]:
    """Return a key to sort files by: parts first, which are removed unless they are claimed."""
    return not file.is_part, file.used_ns


def _size_on_disk(size: int) -> int:
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES


def _counted(status: os.stat_result) -> int:
    """Return the size that a file counts. A block that is claimed, but not written, has none."""
    size = max(_size_on_disk(status.st_size), status.st_blocks * 512)
    return size + _ENTRY_BYTES if size else 0


@functools.lru_cache(maxsize=64)
def log_unwritable(directory: str, reason: str) -> None:
    """Log once that a cache cannot be written."""
    logger.warning(
        "the cache %s cannot be written (%s): data is read without it", directory, reason
    )


def reason_of(error: OSError) -> str:
    """Return why a cache cannot be written, in words."""
    return os.strerror(error.errno or errno.EIO)
