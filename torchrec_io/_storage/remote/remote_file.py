"""Remote objects as byte sources."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ..byte_source import ByteBuffer, ByteSource, Ints, Stamp
from ..thread_pool import REMOTE_THREADS
from .client import FetchError, HelperError
from .failures import error_of
from .messages import ObjectInfo
from .options import RemoteOptions
from .process import ObjectAccess, access
from .ranges import GAP_BYTES, MOST_PART_BYTES, plan_requests
from .urls import can_pin

# A read that continues the one before it starts to read ahead: a part, then larger ones.
_FIRST_PART_BYTES = 1 << 20
_MOST_PARTS_AHEAD = 8
_NANOSECONDS = 1_000_000_000


class _PartAhead(NamedTuple):
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
    """

    def __init__(self, url: str, stamp: Stamp, options: RemoteOptions) -> None:
        self.path = url
        self.stamp = stamp
        self.is_pinned = can_pin(url)
        self._options = options
        self._way: ObjectAccess | None = None
        self._gap_bytes = GAP_BYTES  # neighbors this close share a request
        self._lock = threading.Lock()  # held by the thread that reads ahead
        self._next = -1  # offset where a read would continue the last one
        self._parts: list[_PartAhead] = []  # that are read ahead, ascending
        self._pid = os.getpid()

    @property
    def size(self) -> int:
        return self.stamp.size

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.stamp.size - offset))
        if size:
            data, done = np.frombuffer(out, np.uint8)[:size], 0
            if self._lock.acquire(blocking=False):  # else another thread reads ahead
                try:
                    done = self._read_on(offset, data)
                finally:
                    self._lock.release()
            if done < size:
                self._read(np.array([(offset + done, size - done, done)]), data)
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

    # ---- reading ahead ----

    def _read_on(self, offset: int, out: ByteBuffer) -> int:
        """Fill a buffer with bytes that were read ahead, and read more of the object ahead.

        Nothing is read ahead if the read does not continue the one before it. A read that skips
        some bytes that were read ahead continues it, too.

        Returns:
            Number of bytes, which may be less than are wanted.
        """
        end = offset + len(out)
        if self._pid != os.getpid():  # only the parent has the threads
            self._parts, self._pid = [], os.getpid()
        last, self._next = self._next, end
        read_to = self._parts[-1].end if self._parts else last
        if not 0 <= last <= offset <= read_to:
            self._keep_parts([])
            return 0
        most = min(MOST_PART_BYTES, self._options.fetch_bytes // (3 * _MOST_PARTS_AHEAD))
        size = min(most, _FIRST_PART_BYTES)
        if self._parts:
            size = min(most, 2 * (self._parts[-1].end - self._parts[-1].begin))
        parts = [part for part in self._parts if part.end > offset]
        begin = max(read_to, end)
        for _ in range(min(2, _MOST_PARTS_AHEAD - len(parts))):
            stop = min(begin + size, self.size)
            if begin < stop:
                parts.append(_PartAhead(begin, stop, _pool().submit(self._read_part, begin, stop)))
                begin, size = stop, min(most, 2 * size)
        self._keep_parts(parts)
        at = offset
        for part in parts:
            if part.begin <= at < end:
                stop = min(end, part.end)
                data = part.data.result()[at - part.begin : stop - part.begin]
                out[at - offset : stop - offset] = data
                at = stop
        return at - offset

    def _keep_parts(self, parts: list[_PartAhead]) -> None:
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
        """Read ranges, as :meth:`read_ranges` does."""
        self._fetch(ranges, out)

    def _fetch(self, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges from the store; once more if the helper has ended."""
        for error in self.failures or ():
            is_inside = (ranges[:, 0] < error.end) & (ranges[:, 0] + ranges[:, 1] > error.begin)
            if is_inside.any():
                raise error_of(error.failure, self.path)
        requests = plan_requests(ranges, self._options.fetch_bytes, self._gap_bytes)
        for is_last in (False, True):
            way = self._way  # another thread may change it
            if way is None or way.pid != os.getpid():
                way = self._way = access(self.path, self._options)
            try:
                way.client.fetch(way.store, info_of(self.stamp, way.key), requests, out)
                break
            except FetchError as error:
                self._way = None  # the next request finds its credentials again
                if self.failures is not None:
                    self.failures.append(error)
                raise error_of(error.failure, self.path) from None
            except HelperError:
                self._way = None
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
