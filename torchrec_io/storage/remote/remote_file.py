"""Remote objects as byte sources."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..byte_source import ByteBuffer, ByteSource, Ints, Stamp
from ..thread_pool import REMOTE_THREADS
from .client import HelperError, OpenObject
from .failures import error_of
from .fetcher import MOST_PART_BYTES, Fetcher, FetchError
from .messages import ObjectInfo
from .options import RemoteOptions
from .process import access, forget_refused
from .urls import can_pin

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks

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


class _Chunk(NamedTuple):
    """A part of an object that is read ahead.

    Attributes:
        begin: First byte.
        end: Byte after the last one.
        data: The bytes, once they are there.
    """

    begin: int
    end: int
    data: Future[ByteBuffer]


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
        self._reached: _Reached | None = None
        self._next = -1  # offset where a read would continue the last one
        self._ahead = 0  # number of bytes to read ahead
        self._chunks: list[_Chunk] = []  # read ahead, ascending

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.stamp.size - offset))
        if size:
            self._read_ahead(offset, size)
            self._read_chunks(offset, np.frombuffer(out, np.uint8)[:size])
            self._next = offset + size
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        is_outside = ranges[:, 0] + ranges[:, 1] > self.stamp.size
        if is_outside.any():
            return int(is_outside.argmax())
        self._read(ranges, out)
        return None

    def drop_kept(self, ranges: Ints) -> bool:
        del ranges
        return True  # the network may have changed what it was asked for

    def close(self) -> None:
        self._drop_chunks(self.stamp.size)

    # ---- reading ahead ----

    def _read_ahead(self, offset: int, size: int) -> None:
        """Read what follows a read, if that continues the one before it.

        A read that skips some bytes of what is read ahead continues it, too.
        """
        read_to = self._chunks[-1].end if self._chunks else self._next
        if not self._next <= offset <= max(read_to, self._next) or self._next < 0:
            self._drop_chunks(self.stamp.size)
            self._ahead = 0
            return
        self._drop_chunks(offset)
        most = min(_MOST_CHUNKS_AHEAD * MOST_PART_BYTES, self._options.fetch_bytes // 3)
        self._ahead = min(most, max(_FIRST_AHEAD_BYTES, 2 * self._ahead))
        end = min(self.stamp.size, offset + size + self._ahead)
        begin = max(offset, read_to)
        chunk = max(_LEAST_CHUNK_BYTES, min(MOST_PART_BYTES, self._ahead // 4))
        # Whole chunks only, so that requests do not become smaller and smaller.
        self._chunks += [
            _Chunk(at, at + chunk, _pool().submit(self._read_chunk, at, chunk))
            for at in range(begin, end, chunk)
            if at + chunk <= end or end == self.stamp.size
        ]

    def _read_chunk(self, begin: int, size: int) -> ByteBuffer:
        data = np.empty(min(size, self.stamp.size - begin), np.uint8)
        self._read(np.array([(begin, len(data), 0)]), data)
        return data

    def _read_chunks(self, offset: int, out: ByteBuffer) -> None:
        """Take bytes from what is read ahead, and read the others."""
        at, end = offset, offset + len(out)
        while at < end:
            chunks = [chunk for chunk in self._chunks if chunk.end > at]
            if chunks and chunks[0].begin <= at:
                begin, stop = chunks[0].begin, min(end, chunks[0].end)
                out[at - offset : stop - offset] = chunks[0].data.result()[
                    at - begin : stop - begin
                ]
            else:
                stop = min(end, chunks[0].begin) if chunks else end
                self._read(np.array([(at, stop - at, at - offset)]), out)
            at = stop

    def _drop_chunks(self, before: int) -> None:
        """Drop the chunks that end before an offset, or at the end of the object."""
        for chunk in self._chunks:
            if min(chunk.end, self.stamp.size) <= before:
                chunk.data.cancel()
        self._chunks = [each for each in self._chunks if min(each.end, self.stamp.size) > before]

    # ---- requests ----

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges; once more if the helper has ended."""
        for error in self.failures or ():
            is_inside = (ranges[:, 0] < error.end) & (ranges[:, 0] + ranges[:, 1] > error.begin)
            if is_inside.any():
                raise error_of(error.failure, self.path, self._reach().tried)
        try:
            self._fetch(ranges, out)
        except HelperError:
            self._reached = None
            self._fetch(ranges, out)

    def _fetch(self, ranges: Ints, out: ByteBuffer) -> None:
        reached = self._reach()
        try:
            reached.fetcher.read(reached.opened, ranges, out)
        except FetchError as error:
            forget_refused(reached.fetcher, reached.opened.store, error.failure)
            self._reached = None
            if self.failures is not None:
                self.failures.append(error)
            raise error_of(error.failure, self.path, reached.tried) from None

    def _reach(self) -> _Reached:
        """Return the way to the object in this process, which may be a forked child."""
        reached = self._reached
        if reached is None or reached.fetcher.pid != os.getpid():
            way = access(self.path, self._options)
            opened = way.open(info_of(self.stamp), self._blocks)
            self._reached = reached = _Reached(way.fetcher, opened, way.tried)
        return reached


_pools: dict[int, ThreadPoolExecutor] = {}  # of this process and its parents


def _pool() -> ThreadPoolExecutor:
    """Return the threads that wait for objects in this process."""
    process = os.getpid()
    return _pools.get(process) or _pools.setdefault(process, ThreadPoolExecutor(REMOTE_THREADS))


def stamp_of_info(info: ObjectInfo) -> Stamp:
    """Return the stamp of an object."""
    return Stamp((info.etag, info.version), info.size, info.mtime * _NANOSECONDS)


def info_of(stamp: Stamp) -> ObjectInfo:
    """Return what a stamp says about an object."""
    etag, version = map(str, stamp.file)
    return ObjectInfo("", stamp.size, etag, version, stamp.mtime_ns // _NANOSECONDS)
