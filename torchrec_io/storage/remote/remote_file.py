"""Remote objects as byte sources."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from ..byte_source import ByteBuffer, ByteSource, Ints, Stamp
from .client import HelperError, OpenObject
from .failures import error_of
from .fetcher import MOST_PART_BYTES, Fetcher, FetchError
from .messages import ObjectInfo
from .options import RemoteOptions
from .process import access, forget_refused
from .urls import can_pin

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks

_Result = TypeVar("_Result")

# A read that continues the one before it starts reading ahead, by more each time.
_FIRST_AHEAD_BYTES = 2 << 20
_LEAST_CHUNK_BYTES = 1 << 20
_MOST_CHUNKS_AHEAD = 8
_NANOSECONDS = 1_000_000_000


class _Reached(NamedTuple):
    """An object that this process can read.

    Attributes:
        fetcher: Fetches its bytes.
        opened: The object, for the fetcher.
        tried: Credentials that requests have, in words.
    """

    fetcher: Fetcher
    opened: OpenObject
    tried: str


class RemoteFile(ByteSource):
    """An object of a store, read exactly as it was when it was first seen.

    Nothing is requested when it is opened.

    Args:
        url: Public URL.
        stamp: Stamp of the object as it was first seen.
        options: Options for remote objects.
        blocks: Blocks of the object in a cache; None without a cache.
    """

    def __init__(
        self,
        url: str,
        stamp: Stamp,
        options: RemoteOptions,
        blocks: ObjectBlocks | None = None,
    ) -> None:
        self.path = url
        self.stamp = stamp
        self.is_pinned = can_pin(url)
        self._options = options
        self._blocks = blocks
        self._reached: list[_Reached] = []  # one at most
        self._is_in_epoch = False
        self._asks_again = True  # for what failed before
        self._next = -1  # offset where a read would continue the last one
        self._ahead = 0  # number of bytes to read ahead
        self._chunks: list[tuple[int, int]] = []  # read ahead: begin and end, ascending
        # Not a method __del__: it may run while the lock of the fetcher is held.
        weakref.finalize(self, _forget_chunks, self._chunks, self._reached).atexit = False

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.stamp.size - offset))
        if size:
            self._read_ahead(offset, size)
            self._read(np.array([(offset, size, 0)]), np.frombuffer(out, np.uint8)[:size])
            self._next = offset + size
            if self._next == self.stamp.size:
                self._drop_chunks(self._next)
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        return self.begin_reading(ranges, out)()

    def begin_reading(self, ranges: Ints, out: ByteBuffer) -> Callable[[], int | None]:
        first = self._first_outside(ranges)
        if first is not None:
            return lambda: first
        self._begin_urgent(ranges)

        def finish() -> None:
            self._read(ranges, out)

        return finish

    def _first_outside(self, ranges: Ints) -> int | None:
        """Return the number of the first range that extends past the end, if there is one."""
        is_outside = ranges[:, 0] + ranges[:, 1] > self.stamp.size
        return int(is_outside.argmax()) if is_outside.any() else None

    def will_need(self, ranges: Ints) -> None:
        self._try(lambda target: self._fetcher.announce(target, ranges))

    def _will_not_need(self, ranges: Ints) -> None:
        self._try(lambda target: self._fetcher.forget(target, ranges))

    def begin_epoch(self) -> None:
        self._is_in_epoch = self._asks_again = True

    def close(self) -> None:
        _forget_chunks(self._chunks, self._reached)

    # ---- reading ahead ----

    def _read_ahead(self, offset: int, size: int) -> None:
        """Fetch what follows a read, if that continues the one before it.

        A read that skips some bytes of what was fetched ahead continues it, too.
        """
        fetched_to = self._chunks[-1][1] if self._chunks else self._next
        if not self._next <= offset <= max(fetched_to, self._next) or self._next < 0:
            self._drop_chunks(self.stamp.size)
            self._ahead = 0
            return
        self._drop_chunks(offset)
        most = min(_MOST_CHUNKS_AHEAD * MOST_PART_BYTES, self._options.fetch_bytes // 3)
        self._ahead = min(most, max(_FIRST_AHEAD_BYTES, 2 * self._ahead))
        end = min(self.stamp.size, offset + size + self._ahead)
        begin = max(offset, fetched_to)
        chunk = max(_LEAST_CHUNK_BYTES, min(MOST_PART_BYTES, self._ahead // 4))
        # Whole chunks only, so that requests do not become smaller and smaller.
        new = [
            (at, min(at + chunk, self.stamp.size))
            for at in range(begin, end, chunk)
            if at + chunk <= end or end == self.stamp.size
        ]
        if new:
            self._chunks += new
            self.will_need(_as_ranges(new))

    def _drop_chunks(self, before: int) -> None:
        """Drop the chunks that end before an offset."""
        done = [each for each in self._chunks if each[1] <= before]
        if done:
            del self._chunks[: len(done)]
            self._will_not_need(_as_ranges(done))

    # ---- requests ----

    def _begin_urgent(self, ranges: Ints) -> None:
        self._try(lambda target: self._fetcher.announce(target, ranges, is_urgent=True))

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        self._try(lambda target: self._fetcher.read(target, ranges, out))

    @property
    def _fetcher(self) -> Fetcher:
        return self._reach().fetcher

    def _reach(self) -> _Reached:
        """Return the way to the object in this process, which may be a forked child."""
        if not self._reached or self._reached[0].fetcher.pid != os.getpid():
            way = access(self.path, self._options)
            self._reached[:] = [
                _Reached(way.fetcher, way.open(info_of(self.stamp), self._blocks), way.tried)
            ]
        return self._reached[0]

    def _try(self, work: Callable[[OpenObject], _Result]) -> _Result:
        """Do something with the object; once more if the helper process has ended."""
        try:
            return self._do(work)
        except HelperError:
            self._reached.clear()
            self._chunks.clear()
            return self._do(work)

    def _do(self, work: Callable[[OpenObject], _Result]) -> _Result:
        reached = self._reach()
        if self._asks_again:
            self._asks_again = not self._is_in_epoch
            reached.fetcher.ask_again(reached.opened, drops_announced=self._is_in_epoch)
        try:
            return work(reached.opened)
        except FetchError as error:
            forget_refused(reached.fetcher, reached.opened.store, error.failure)
            self._reached.clear()
            raise error_of(error.failure, self.path, reached.tried) from None


def _forget_chunks(chunks: list[tuple[int, int]], reached: list[_Reached]) -> None:
    """Drop what was read ahead by a file that is not used anymore."""
    if chunks and reached and reached[0].fetcher.pid == os.getpid():
        reached[0].fetcher.forget_later(reached[0].opened, _as_ranges(chunks))
    chunks.clear()


def stamp_of_info(info: ObjectInfo) -> Stamp:
    """Return the stamp of an object."""
    return Stamp((info.etag, info.version), info.size, info.mtime * _NANOSECONDS)


def info_of(stamp: Stamp) -> ObjectInfo:
    """Return what a stamp says about an object."""
    etag, version = map(str, stamp.file)
    return ObjectInfo("", stamp.size, etag, version, stamp.mtime_ns // _NANOSECONDS)


def _as_ranges(chunks: list[tuple[int, int]]) -> Ints:
    return np.array([(begin, end - begin, 0) for begin, end in chunks], np.int64)
