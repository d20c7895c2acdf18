"""Remote objects as byte sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..byte_source import ByteBuffer, ByteSource, Ints, Stamp
from .connection import HelperError
from .failures import error_of
from .fetcher import MOST_PART_BYTES, Fetcher, FetchError, OpenObject
from .messages import ObjectInfo
from .options import RemoteOptions
from .process import ObjectAccess, access
from .urls import can_pin

_Result = TypeVar("_Result")

# A read that continues the one before it starts reading ahead, by more each time.
_FIRST_AHEAD_BYTES = 2 << 20
_LEAST_CHUNK_BYTES = 1 << 20
_MOST_CHUNKS_AHEAD = 8
_NANOSECONDS = 1_000_000_000


class RemoteFile(ByteSource):
    """An object of a store, read exactly as it was when it was first seen.

    Nothing is requested when it is opened.

    Args:
        url: Public URL.
        stamp: Stamp of the object as it was first seen.
        options: How it is accessed.
    """

    def __init__(self, url: str, stamp: Stamp, options: RemoteOptions) -> None:
        self.path = url
        self.stamp = stamp
        self.is_pinned = can_pin(url)
        self._options = options
        self._access: ObjectAccess | None = None
        self._pid = -1
        self._next = -1  # offset where a read would continue the last one
        self._ahead = 0  # number of bytes to read ahead
        self._chunks: list[tuple[int, int]] = []  # read ahead: begin and end, ascending

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.stamp.size - offset))
        if size:
            self._read_ahead(offset, size)
            self._read(np.array([(offset, size, 0)]), np.frombuffer(out, np.uint8)[:size])
            self._next = offset + size
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        return self.begin_reading(ranges, out)()

    def begin_reading(self, ranges: Ints, out: ByteBuffer) -> Callable[[], int | None]:
        outside = np.flatnonzero(ranges[:, :2].sum(axis=1) > self.stamp.size)
        if len(outside):
            first = int(outside[0])
            return lambda: first
        self._try(lambda target: self._fetcher.announce(target, ranges, is_urgent=True))

        def finish() -> None:
            self._read(ranges, out)

        return finish

    def will_need(self, ranges: Ints) -> None:
        self._try(lambda target: self._fetcher.announce(target, ranges))

    def will_not_need(self, ranges: Ints) -> None:
        self._try(lambda target: self._fetcher.forget(target, ranges))

    def close(self) -> None:
        if self._pid == os.getpid() and self._chunks and not self._fetcher.client.has_failed():
            self.will_not_need(_as_ranges(self._chunks))
        self._chunks = []

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
        most = min(_MOST_CHUNKS_AHEAD * MOST_PART_BYTES, self._fetcher.most_ahead // 2)
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
            self._chunks = self._chunks[len(done) :]
            self.will_not_need(_as_ranges(done))

    # ---- requests ----

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        self._try(lambda target: self._fetcher.read(target, ranges, out))

    @property
    def _fetcher(self) -> Fetcher:
        return self._reach().fetcher

    def _reach(self) -> ObjectAccess:
        """Return the way to the object in this process, which may be a forked child."""
        if self._access is None or self._pid != os.getpid():
            self._access = access(self.path, self._options)
            self._pid = os.getpid()
        return self._access

    def _try(self, work: Callable[[OpenObject], _Result]) -> _Result:
        """Do something with the object; once more if the helper process has ended."""
        try:
            return self._do(work)
        except HelperError:
            self._access = None
            return self._do(work)

    def _do(self, work: Callable[[OpenObject], _Result]) -> _Result:
        reached = self._reach()
        try:
            return work(reached.open(info_of(self.stamp)))
        except FetchError as error:
            raise error_of(error.failure, self.path, reached.tried) from None


def stamp_of_info(info: ObjectInfo) -> Stamp:
    """Return the stamp of an object."""
    return Stamp((info.etag, info.version), info.size, info.mtime * _NANOSECONDS)


def info_of(stamp: Stamp) -> ObjectInfo:
    """Return what a stamp says about an object."""
    etag, version = map(str, stamp.file)
    return ObjectInfo("", stamp.size, etag, version, stamp.mtime_ns // _NANOSECONDS)


def _as_ranges(chunks: list[tuple[int, int]]) -> Ints:
    return np.array([(begin, end - begin, 0) for begin, end in chunks], np.int64)
