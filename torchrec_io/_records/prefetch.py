"""Prefetching of records: the records of several plans are read together before they are used."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from .._storage.thread_pool import shared_pool
from ..errors import TorchRecIOError
from .open_files import OpenFiles

ReadPlan: TypeAlias = _core.ReadPlan


class _Buffer:
    """The frames of plans that are read together, one after the other.

    Args:
        size: Size of the frames in bytes.
        pool: Threads that read them. It lives as long as a buffer.

    Attributes:
        memory: The frames, once they are read.
        readings: Bounds in the buffer of each part of a file that is read at once, which may have
            bytes of other parts between them; and its result: True once all was read, False if it
            could not be. Parts that no thread has begun to read when the buffer is dropped are
            cancelled.
    """

    def __init__(self, size: int, pool: ThreadPoolExecutor) -> None:
        self.readings: list[tuple[int, int, Future[bool]]] = []
        self.memory = _core.allocate(size)
        self._pool = pool

    def __del__(self) -> None:
        for _, _, done in self.readings:
            done.cancel()


class RecordPrefetcher:
    """Prefetches the records of many plans together, so that each part of a file is read once.

    The prefetched bytes of a plan are dropped with the plan. Safe to use from several threads, not
    after a fork.

    Args:
        files: The files.
        threads: Number of threads that read.
    """

    def __init__(self, files: OpenFiles, threads: int) -> None:
        self._files = files
        self._threads = threads
        self._lock = threading.Lock()
        self._buffers: weakref.WeakSet[_Buffer] = weakref.WeakSet()
        # Each plan with its buffer, and the offset of its frames there.
        self._places: weakref.WeakKeyDictionary[ReadPlan, tuple[_Buffer, int]] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def held_bytes(self) -> int:
        """Memory of prefetched records that were not taken yet, in bytes."""
        with self._lock:
            return sum(len(buffer.memory) for buffer in self._buffers)

    def begin(self, plans: Sequence[ReadPlan]) -> None:
        """Begin to read plans.

        Raises:
            TorchRecIOError, OSError, MemoryError: If that is not possible. Nothing is prefetched.
        """
        joined = plans[0] if len(plans) == 1 else ReadPlan.joined(plans)
        parts = [
            (file, part)
            for file, ranges in joined.by_file()
            for source in self._files.open([file])
            for part in source.split(ranges)
        ]
        with self._lock:
            pool = shared_pool(self._threads)
            buffer = _Buffer(joined.buffer_bytes, pool)
            for file, part in parts:
                # A copy: an array of the plan would keep the plan.
                done = pool.submit(self._read, file, part.copy(), buffer.memory)
                first, last = int(part[:, 2].min()), int((part[:, 1] + part[:, 2]).max())
                buffer.readings.append((first, last, done))
            self._buffers.add(buffer)
            begin = 0
            for plan in plans:
                self._places[plan] = buffer, begin
                begin += plan.buffer_bytes

    def take(self, plan: ReadPlan) -> ByteBuffer | None:
        """Return the frames of a plan, once.

        Returns:
            uint8 of ``plan.buffer_bytes``, which may be a view of the frames of several plans; None
            if they must be read, or read again to raise an error.
        """
        buffer, begin = self._places.pop(plan, (None, 0))
        if buffer is None:
            return None
        end = begin + plan.buffer_bytes
        needed = [done for first, last, done in buffer.readings if first < end and last > begin]
        if not all(done.result() for done in needed):
            return None
        frames = buffer.memory[begin:end]
        return buffer.memory if len(frames) == len(buffer.memory) else frames

    def _read(self, file: int, ranges: Ints, out: ByteBuffer) -> bool:
        """Read ranges of a file into a buffer; return whether that was possible."""
        try:
            self._files.read([file], [0, len(ranges)], ranges, out)
        except (TorchRecIOError, OSError, MemoryError):
            return False  # raised when the plan itself is read
        return True
