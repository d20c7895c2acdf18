"""Remote objects as byte sources."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from ..cache.stored_chunks import StoredChunks
from ..chunk_cache import Chunk, process_cache
from ..chunked_file import ChunkedFile
from ..digest import digest_text
from ..stamp import NANOSECONDS, Stamp
from ..thread_pool import REMOTE_THREADS, shared_pool
from .failures import FetchError, HelperError, error_of
from .messages import is_strong
from .options import RemoteOptions
from .process import ObjectAccess, access
from .ranges import GAP_BYTES, MOST_PART_BYTES, plan_requests
from .urls import OBJECT_STORES, can_pin, scheme_of

# Without a cache on the local disk the first chunk is small, so that the first bytes come soon.
_FIRST_CHUNK_BYTES = 1 << 20
_MOST_BYTES_AHEAD = 64 << 20
_LEAST_SHARE_AHEAD = 3  # one part of so many of the memory is for chunks that are read ahead
# A time of the last change identifies content once it is this old: it may have a resolution of
# seconds, and an object may be replaced twice within one.
_SECONDS_UNTIL_SURE = 60


class RemoteFile(ChunkedFile):
    """An object of a store, read exactly as it was when it was first seen.

    Nothing is requested when it is opened. With a cache on the local disk, all reads are of whole
    chunks. Else only reads that continue the one before them are, and the chunks after them are
    read ahead; all others request what they need.

    Args:
        url: Public URL.
        stamp: Stamp of the object as it was first seen.
        options: Options for remote objects.
    """

    def __init__(self, url: str, stamp: Stamp, options: RemoteOptions) -> None:
        stored = None
        identity = None if options.cache is None else identity_of(url, stamp, options)
        ahead_bytes = min(_MOST_BYTES_AHEAD, options.fetch_bytes // _LEAST_SHARE_AHEAD)
        chunk_bytes = min(MOST_PART_BYTES, max(1, ahead_bytes // 8))
        first_bytes = min(_FIRST_CHUNK_BYTES, chunk_bytes)
        if options.cache is not None and identity is not None:
            first_bytes = chunk_bytes = options.cache.block_bytes
        starts = np.unique(np.r_[0, np.arange(first_bytes, stamp.size, chunk_bytes), stamp.size])
        if options.cache is not None and identity is not None:
            stored = StoredChunks.of(options.cache, identity, starts)
        cache = process_cache(options.fetch_bytes)
        super().__init__(url, stamp, starts, stored or object(), cache=cache, stored=stored)
        self.is_pinned = can_pin(url)
        self._options = options
        self._way: ObjectAccess | None = None
        self._next = -1  # offset where a read would continue the last one
        self._in_row = 0  # number of reads that continued the one before
        self._most_ahead = max(1, min(REMOTE_THREADS, ahead_bytes // chunk_bytes))
        # Chunks that are read ahead, by process and number: a forked child has no threads.
        self._ahead: dict[tuple[int, int], Future[Chunk]] = {}
        self._pool: ThreadPoolExecutor | None = None  # its threads end with the last file

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.size - offset))
        self._in_row = self._in_row + 1 if offset == self._next else 0
        self._next = offset + size
        if self._in_row and self.stored is None:
            return super().read_into(offset, out)
        self.read_ranges(np.array([(offset, size, 0)]), np.frombuffer(out, np.uint8))
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        is_outside = ranges[:, 0] + ranges[:, 1] > self.size
        if is_outside.any():
            return int(is_outside.argmax())
        stored = self.stored
        if stored is None:
            self._fetch(ranges, out)
        else:  # what is on the local disk is not copied to the cache in memory
            self._gather(
                [
                    (number, parts)
                    for number, parts in self._split(ranges)
                    if not stored.read(number, self.size_of(number), parts, out)
                ],
                out,
            )
        return None

    def close(self) -> None:
        for done in self._ahead.values():
            done.cancel()
        self._ahead = {}

    def load(self, number: int, size: int) -> Chunk:
        del size
        whole = self.size_of(number)
        data = _core.allocate(whole)
        self._fetch(np.array([(self.starts[number], whole, 0)]), data)
        return Chunk(data, None)

    # ---- chunks that are read ahead ----

    def _prefetch(self, numbers: list[int]) -> None:
        # Twice as many as there were reads in a row: a program may read little.
        end = numbers[-1] + 1 + min(self._most_ahead, 2 * self._in_row)
        wanted = [*numbers, *range(numbers[-1] + 1, min(end, self.count))][: self._most_ahead + 1]
        before, self._ahead = self._ahead, {}
        process = os.getpid()
        for number in wanted[1:]:
            done = before.pop((process, number), None)
            if done is None:
                self._pool = shared_pool(REMOTE_THREADS)
                done = self._pool.submit(super()._chunk, number, self.size_of(number))
            self._ahead[process, number] = done
        first = before.pop((process, wanted[0]), None)
        if first is not None:
            self._ahead[process, wanted[0]] = first
        for done in before.values():
            done.cancel()

    def _chunk(self, number: int, size: int) -> Chunk:
        done = self._ahead.pop((os.getpid(), number), None)
        if done is not None and not done.cancel():  # a thread has begun
            done.result()
        # The cache has it, unless it was dropped: what was read ahead may be damaged.
        return super()._chunk(number, size)

    # ---- requests ----

    def _fetch(self, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges from the store; once more if the helper has ended."""
        for begin, end, failure in self.failures or ():
            if ((ranges[:, 0] < end) & (ranges[:, 0] + ranges[:, 1] > begin)).any():
                raise error_of(failure, self.path)
        requests = plan_requests(ranges, self._options.fetch_bytes, GAP_BYTES)
        for is_last in (False, True):
            way = self._way  # another thread may change it
            if way is None or way.pid != os.getpid():
                way = self._way = access(self.path, self._options)
            try:
                way.client.fetch(way.store, way.key, self.stamp, requests, out)
                break
            except FetchError as error:
                self._way = None  # the next request finds its credentials again
                if self.failures is not None:  # without the error, whose frames hold this object
                    self.failures.append((error.begin, error.end, error.failure))
                raise error_of(error.failure, self.path) from None
            except HelperError:
                self._way = None
                if is_last:
                    raise


def identity_of(url: str, stamp: Stamp, options: RemoteOptions) -> str | None:
    """Return text that identifies the content of an object, without secrets.

    Args:
        url: Public URL.
        stamp: Stamp of the object.
        options: Options of the access.

    Returns:
        None if it has no identity that is sure to change with its content.
    """
    etag, version = map(str, stamp.file)
    seconds = stamp.mtime_ns // NANOSECONDS
    if not is_strong(etag) and not version:
        if not seconds or time.time() - seconds < _SECONDS_UNTIL_SURE:
            return None
        version = str(stamp.mtime_ns)
    scheme = scheme_of(url)
    where = options.place(scheme) if scheme in OBJECT_STORES else options.identity
    return digest_text(repr((url, where, etag, version, stamp.size)), size=16)
