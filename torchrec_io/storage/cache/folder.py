"""The folder of a cache: which blocks it has, who downloads one, and which are removed.

All that makes the folder larger is reserved first, under a lock: a process *claims* a block by
creating its file with its final size, under a temporary name, and locking it. So each block is
downloaded by one process at a time, and the folder never exceeds its bound. The file also gets its
final name, or is given up, under the lock of the folder: whoever counts the files counts it once.
The locks end with the process, however that ends; what it leaves is taken over, or removed to make
room.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import heapq
import os
import re
import stat
import struct
import time
import weakref
from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..cache_folder import make_cache_folder
from ..file_limit import most_open_files
from .block_file import (
    SECONDS_BETWEEN_TOUCHES,
    CachedBlock,
    file_bytes,
    open_block,
    write_block,
)

if TYPE_CHECKING:
    from .block_table import BlockTable

_STATE_NAME = "torchrec_io-cache"
_STATE = struct.Struct("<8sQQ")
_MAGIC = b"TIOCACH1"
_NAME = re.compile(r"(?P<object>[0-9a-f]{32})-[0-9a-f]+\.(?P<kind>block|part)")
_PAGE_BYTES = 4096
# Counted for each file beside its content: its entry in the folder.
_ENTRY_BYTES = 256
# Counted for the folder itself and the state.
_BASE_BYTES = 4 * _PAGE_BYTES
# Making room frees this part of the bound more, because it looks at all files.
_SPARE = 50
# Files that are removed after one look at all files, at most: their names are in memory.
_MOST_REMOVED = 1 << 16
# The lock is waited for until nothing has changed the state for this time: who looks at very many
# files shows that it goes on.
_SECONDS_TO_LOCK = 30.0
_SECONDS_TO_SHOW = 1.0
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class CacheFullError(OSError):
    """There is no room for a block: all of the cache is being written."""


class StoredFile(NamedTuple):
    """A file of the cache.

    Attributes:
        used_ns: Time of its last use, in nanoseconds since 1970.
        name: Name of the file.
        object: Digest of the object that the block belongs to.
        size: Size in bytes, as the file system counts it.
        is_part: True while it is being written.
    """

    used_ns: int
    name: str
    object: str
    size: int
    is_part: bool


class Claim:
    """The right to write a block, which this process has until it publishes or abandons it.

    Attributes:
        counted: Size that the file counts in the folder.
    """

    def __init__(self, folder: CacheFolder, name: str, descriptor: int) -> None:
        self._folder = folder
        self._name = name
        self._descriptor = descriptor
        self.counted = 0

    def publish(self, data: memoryview) -> None:
        """Write the block and give up the claim.

        Raises:
            OSError: If the block cannot be written. The claim is abandoned.
        """
        try:
            write_block(self._descriptor, self._name, data)
            with self._folder.locked() as state:
                if self._has_file():  # otherwise the folder was removed meanwhile
                    # A file system may allocate more than the size.
                    more = _counted(os.fstat(self._descriptor)) - self.counted
                    if more > 0:
                        state.used += more
                        self.counted += more
                    os.rename(self._path, self._folder.block_path(self._name))
        except TimeoutError:  # of the lock
            self.drop()
            raise
        except BaseException:
            self.abandon()
            raise
        self._release()

    def abandon(self) -> None:
        """Give up the claim without a block."""
        try:
            with self._folder.locked() as state:
                if self._has_file():
                    os.unlink(self._path)
                    state.used -= self.counted
        except OSError:
            self.drop()
        else:
            self._release()

    def drop(self) -> None:
        """Remove the file, which stays counted."""
        with contextlib.suppress(OSError):
            if self._has_file():
                os.unlink(self._path)
        self._release()

    @property
    def _path(self) -> str:
        return self._folder.part_path(self._name)

    def _has_file(self) -> bool:
        """Return whether the file of this claim is in the folder."""
        return _has_name(self._descriptor, self._path)

    def _release(self) -> None:
        _unlock(self._descriptor)
        os.close(self._descriptor)


class CacheFolder:
    """A folder of blocks. Safe to use from several threads and processes, and after a fork.

    Args:
        path: The folder. It is created when a block is claimed.
        max_bytes: Largest size of all its files.

    Attributes:
        path: The folder.
        opened: Blocks that this process has open, in the order in which they were opened: the
            table of each, and its number there. Changed without a lock, which a fork might copy
            while it is held.
        most_open: Largest number of these.
    """

    def __init__(self, path: str, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self.opened: deque[tuple[weakref.ref[BlockTable], int]] = deque()
        self.most_open = max(16, min(4096, most_open_files() // 3))

    def block_path(self, name: str) -> str:
        """Return the path of a block that is complete."""
        return f"{self.path}/{name}.block"

    def part_path(self, name: str) -> str:
        """Return the path of a block that is being written."""
        return f"{self.path}/{name}.part"

    # ---- blocks ----

    def open(self, name: str, size: int) -> CachedBlock | None:
        """Open a block; return None if the cache has none that is valid."""
        try:
            descriptor = _open_regular(self.block_path(name), os.O_RDONLY)
        except OSError:  # missing, or of another user
            return None
        block = None
        try:
            status = os.fstat(descriptor)
            if self._is_trusted(status):
                block = open_block(name, descriptor, size)
                if block is None:
                    self.discard(name)
                elif time.time() - status.st_mtime < SECONDS_BETWEEN_TOUCHES:
                    block.touched = time.monotonic()
        except OSError:
            pass  # as if it were missing
        finally:
            if block is None:
                os.close(descriptor)
        return block

    def discard(self, name: str) -> bool:
        """Remove a damaged block; return whether it is gone."""
        try:
            os.unlink(self.block_path(name))
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True

    def _is_trusted(self, status: os.stat_result) -> bool:
        """Return whether a file is of this user, or of one who was given access to the folder.

        Checksums detect damage, not forgery.
        """
        if status.st_mode & stat.S_IWOTH:
            return False
        if status.st_uid in (os.geteuid(), 0):
            return True
        return not os.stat(self.path).st_mode & stat.S_IWOTH

    # ---- claims ----

    def claim(self, name: str, size: int) -> Claim | None:
        """Claim a block that the cache lacks, and make room for it.

        Returns:
            None if another process has claimed it, or the cache has it by now.

        Raises:
            CacheFullError: If there is no room.
            OSError: If the folder cannot be used.
        """
        make_cache_folder(self.path)
        with self.locked() as state:
            if os.path.lexists(self.block_path(name)):
                if self.open(name, size) is not None:
                    return None
                os.unlink(self.block_path(name))
            descriptor = self._create(self.part_path(name))
            try:
                # A claim that is given up without the lock of the folder takes the name away.
                is_own = _try_lock(descriptor) and _has_name(descriptor, self.part_path(name))
            except BaseException:
                os.close(descriptor)
                raise
            if not is_own:
                os.close(descriptor)
                return None
            claim = Claim(self, name, descriptor)
            try:
                claim.counted = self._reserve(state, descriptor, file_bytes(size))
            except BaseException:
                claim.drop()
                raise
        return claim

    def _reserve(self, state: _State, descriptor: int, size: int) -> int:
        """Give a claimed file its size, and return how much that counts."""
        status = os.fstat(descriptor)
        counted = _size_on_disk(size) + _ENTRY_BYTES
        if status.st_size != size:  # otherwise left by a process that was killed
            self._make_room(state, counted)
            state.used += counted  # first: a kill leaves too large a number, never too small a one
            os.ftruncate(descriptor, size)
        return counted

    # ---- room ----

    def _make_room(self, state: _State, size: int) -> None:
        """Remove the blocks that were not used for longest until there is room."""
        goal = self._max_bytes - size - self._max_bytes // _SPARE // size * size
        stuck: set[str] = set()
        while state.used + size > self._max_bytes:
            used, oldest = self._find_oldest(state, state.used - goal, stuck)
            is_full = used + size > self._max_bytes
            for file in oldest if is_full else ():
                state.show()
                if used <= goal:
                    break
                if self._remove(file):
                    used -= file.size
                else:
                    stuck.add(file.name)
            state.used = used
            if is_full and not oldest:
                raise CacheFullError(errno.ENOSPC, "the cache has no room for a block", self.path)

    def _find_oldest(
        self, state: _State, size: int, stuck: Collection[str]
    ) -> tuple[int, list[StoredFile]]:
        """Return the size of all files, and the blocks that were not used for longest.

        Files of killed processes are removed.

        Args:
            state: The state of the folder.
            size: Size of all blocks that are wanted.
            stuck: Names of blocks that cannot be removed.
        """
        used, kept = _BASE_BYTES, 0
        newest_first: list[tuple[int, StoredFile]] = []
        for file in self._files_shown(state):
            if file.is_part and self._remove(file):
                continue
            used += file.size
            if file.is_part or file.name in stuck:
                continue
            heapq.heappush(newest_first, (-file.used_ns, file))
            kept += file.size
            while kept - newest_first[0][1].size >= size or len(newest_first) > _MOST_REMOVED:
                kept -= heapq.heappop(newest_first)[1].size
        return used, [file for _, file in sorted(newest_first, reverse=True)]

    def _remove(self, file: StoredFile) -> bool:
        """Remove a file that no process writes; return whether it is gone."""
        path = os.path.join(self.path, file.name)
        try:
            flags = os.O_RDONLY if file.is_part else os.O_WRONLY
            descriptor = _open_regular(path, flags)
        except OSError:
            descriptor = -1
        try:
            if file.is_part:
                if descriptor < 0 or not _try_lock(descriptor):
                    return False
            elif descriptor >= 0:
                os.ftruncate(descriptor, 0)  # frees the space even if a process has it open
            os.unlink(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        return True

    def files(self) -> Iterator[StoredFile]:
        """Yield the files of the cache. Other files of the folder are none of its own."""
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
                used_ns, counted = status.st_mtime_ns, _counted(status)
                yield StoredFile(used_ns, entry.name, matched["object"], counted, is_part)

    def _files_shown(self, state: _State) -> Iterator[StoredFile]:
        """Yield the files of the cache, and show others that this takes long."""
        for file in self.files():
            state.show()
            yield file

    def bound(self) -> int | None:
        """Return the bound that the last process had; None if it is not known."""
        try:
            descriptor = _open_regular(os.path.join(self.path, _STATE_NAME), os.O_RDONLY)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            data = file.read(_STATE.size)
        known = _STATE.unpack(data) if len(data) == _STATE.size else (b"", 0, 0)
        return known[2] or None if known[0] == _MAGIC else None

    def clear(self) -> None:
        """Remove all blocks that no process is writing.

        Raises:
            OSError: If the folder cannot be used.
        """
        with self.locked() as state:
            for file in self._files_shown(state):
                self._remove(file)
            state.used = self._count(state)

    @contextlib.contextmanager
    def locked(self) -> Iterator[_State]:
        """Hold the lock of the folder."""
        path = os.path.join(self.path, _STATE_NAME)
        while True:
            descriptor = self._create(path)
            try:
                self._wait_for_lock(descriptor)
                if _has_name(descriptor, path):  # otherwise the folder was removed meanwhile
                    state = _State(descriptor, self._max_bytes)
                    if not state.is_known:
                        state.used = self._count(state)
                    yield state
                    return
            finally:
                _unlock(descriptor)
                os.close(descriptor)

    def _wait_for_lock(self, descriptor: int) -> None:
        """Lock the state.

        Raises:
            TimeoutError: If nothing changes the state for long, as if its process is stopped.
        """
        seen, end = 0, 0.0
        while not _try_lock(descriptor):
            changed = os.fstat(descriptor).st_mtime_ns
            if changed != seen:
                seen, end = changed, time.monotonic() + _SECONDS_TO_LOCK
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "the cache stays locked", self.path)
            time.sleep(0.002)

    def _create(self, path: str) -> int:
        """Open a file for writing, for all who may write to the folder."""
        mode = os.stat(self.path).st_mode & 0o666
        descriptor = _open_regular(path, os.O_RDWR | os.O_CREAT, mode)
        if mode & stat.S_IWGRP:
            with contextlib.suppress(OSError):  # another user's
                os.fchmod(descriptor, mode)  # whatever the umask
        return descriptor

    def _count(self, state: _State) -> int:
        return _BASE_BYTES + sum(file.size for file in self._files_shown(state))


class _State:
    """Number of bytes that a cache uses, in a file. Its lock is held.

    Attributes:
        is_known: Whether the file has that number.
    """

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        data = os.pread(descriptor, _STATE.size, 0)
        magic, used, bound = _STATE.unpack(data) if len(data) == _STATE.size else (b"", 0, 0)
        self.is_known = magic == _MAGIC
        self._used: int = used
        self._next_show = time.monotonic() + _SECONDS_TO_SHOW
        if self.is_known and bound != max_bytes:
            self.used = used

    @property
    def used(self) -> int:
        return self._used

    @used.setter
    def used(self, used: int) -> None:
        self._used = max(_BASE_BYTES, used)
        os.pwrite(self._descriptor, _STATE.pack(_MAGIC, self._used, self._max_bytes), 0)

    def show(self) -> None:
        """Show those who wait for the lock that this process goes on. Most calls do nothing."""
        now = time.monotonic()
        if now >= self._next_show:
            self._next_show = now + _SECONDS_TO_SHOW
            os.utime(self._descriptor)


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


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    """Unlock a file: forked processes may have it open, too."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _has_name(descriptor: int, path: str) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _size_on_disk(size: int) -> int:
    return -(-size // _PAGE_BYTES) * _PAGE_BYTES


def _counted(status: os.stat_result) -> int:
    """Return the size of a file as it is counted: on the disk, once all of it is written."""
    if not status.st_size:  # claimed, but not reserved yet
        return 0
    return max(_size_on_disk(status.st_size), status.st_blocks * 512) + _ENTRY_BYTES


@functools.lru_cache(maxsize=64)
def cache_folder_at(path: str, max_bytes: int) -> CacheFolder:
    """Return the object for a folder that all of this process uses."""
    return CacheFolder(path, max_bytes)
