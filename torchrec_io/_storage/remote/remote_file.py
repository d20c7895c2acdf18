"""Remote objects as byte sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, ByteSource, Ints, Stamp
from ..thread_pool import REMOTE_THREADS
from .client import FetchError, HelperError
from .failures import error_of
from .messages import ObjectInfo
from .options import RemoteOptions
from .process import access
from .ranges import MOST_PART_BYTES, RangeRequest, plan_requests
from .urls import can_pin

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks

# A read that continues the one before it starts prefetching, by more each time.
_FIRST_PREFETCH_BYTES = 4 << 20
_MOST_PREFETCHED_PARTS = 8
_NANOSECONDS = 1_000_000_000


class _PrefetchedPart(NamedTuple):
    """A part of an object that is prefetched.

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
    """

    def __init__(self, url: str, stamp: Stamp, options: RemoteOptions) -> None:
        self.path = url
        self.stamp = stamp
        self.is_pinned = can_pin(url)
        self._options = options
        self._next = -1  # offset where a read would continue the last one
        self._prefetch_bytes = 0  # number of bytes to prefetch
        self._parts: list[_PrefetchedPart] = []  # ascending; replaced as a whole: there is no lock
        self._pid = os.getpid()

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.stamp.size - offset))
        if size:
            data = np.frombuffer(out, np.uint8)[:size]
            try:
                is_read = self._take_prefetched(offset, data)
            except CancelledError:  # by another thread, which reads elsewhere
                is_read = False
            if not is_read:
                self._read(np.array([(offset, size, 0)]), data)
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
        self._keep_parts([])

    # ---- prefetching ----

    def _take_prefetched(self, offset: int, out: ByteBuffer) -> bool:
        """Fill a buffer with prefetched bytes, and prefetch more.

        Returns:
            Whether that was possible. If the read does not continue the one before it, nothing is
            prefetched. A read that skips some prefetched bytes continues it, too.
        """
        end = offset + len(out)
        if self._pid != os.getpid():  # only the parent has the threads
            self._parts, self._pid = [], os.getpid()
        last, parts = self._next, self._parts  # other threads may change them
        read_to = max([last, *(part.end for part in parts)])
        if not 0 <= last <= offset <= read_to:
            self._prefetch_bytes = 0
            self._keep_parts([])
            return False
        most = min(_MOST_PREFETCHED_PARTS * MOST_PART_BYTES, self._options.fetch_bytes // 3)
        self._prefetch_bytes = min(most, max(_FIRST_PREFETCH_BYTES, 2 * self._prefetch_bytes))
        step = min(MOST_PART_BYTES, self._prefetch_bytes // 4)
        parts = [part for part in parts if part.end > offset]
        # Whole parts only, so that requests do not become smaller and smaller.
        for at in range(read_to, min(self.stamp.size, end + self._prefetch_bytes), step):
            stop = min(at + step, self.stamp.size)
            if stop <= end + self._prefetch_bytes:
                parts.append(_PrefetchedPart(at, stop, _pool().submit(self._read_part, at, stop)))
        self._keep_parts(parts)
        at = offset
        for part in parts:
            if part.begin <= at < end:
                stop = min(end, part.end)
                data = part.data.result()[at - part.begin : stop - part.begin]
                out[at - offset : stop - offset] = data
                at = stop
        return at == end

    def _keep_parts(self, parts: list[_PrefetchedPart]) -> None:
        """Drop all parts but some."""
        dropped = [part for part in self._parts if part not in parts]
        self._parts = parts
        for part in dropped:
            part.data.cancel()

    def _read_part(self, begin: int, end: int) -> ByteBuffer:
        data = np.empty(end - begin, np.uint8)
        self._read(np.array([(begin, len(data), 0)]), data)
        return data

    # ---- requests ----

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges."""
        self._fetch(ranges, None, lambda request, data: _core.gather(data, request.copies, out))

    def _fetch(
        self,
        ranges: Ints,
        blocks: ObjectBlocks | None,
        take: Callable[[RangeRequest, ByteBuffer], None],
    ) -> None:
        """Make the requests for ranges; once more if the helper has ended.

        Args:
            ranges: int64 ``[n, 3]``: offset, size, and offset in a buffer.
            blocks: Blocks of the object in a cache, which are fetched whole.
            take: Function that is called with each request and its bytes.
        """
        for error in self.failures or ():
            is_inside = (ranges[:, 0] < error.end) & (ranges[:, 0] + ranges[:, 1] > error.begin)
            if is_inside.any():
                raise error_of(error.failure, self.path)
        requests = plan_requests(ranges, self._options.fetch_bytes, blocks)
        for is_last in (False, True):
            way = access(self.path, self._options)
            try:
                way.client.fetch(way.store, info_of(self.stamp, way.key), requests, take)
                break
            except FetchError as error:
                if self.failures is not None:
                    self.failures.append(error)
                raise error_of(error.failure, self.path) from None
            except HelperError:
                if is_last:
                    raise


_pools: dict[int, ThreadPoolExecutor] = {}  # of this process and its parents


def _pool() -> ThreadPoolExecutor:
    """Return the threads that wait for objects in this process."""
    process = os.getpid()
    return _pools.get(process) or _pools.setdefault(process, ThreadPoolExecutor(REMOTE_THREADS))


def stamp_of_info(info: ObjectInfo) -> Stamp:
    """Return the stamp of an object."""
    return Stamp((info.etag, info.version), info.size, info.mtime * _NANOSECONDS)


def info_of(stamp: Stamp, key: str) -> ObjectInfo:
    """Return the size and version of an object of a name, from its stamp."""
    etag, version = map(str, stamp.file)
    return ObjectInfo(key, stamp.size, etag, version, stamp.mtime_ns // _NANOSECONDS)
