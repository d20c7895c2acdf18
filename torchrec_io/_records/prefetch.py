"""Prefetching of records: the records of several plans are read together before they are used."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from .._storage.chunked_file import ChunkedFile
from ..errors import TorchRecIOError
from .open_files import OpenFiles

ReadPlan: TypeAlias = _core.ReadPlan


class _Reading(NamedTuple):
    """A part of a file that is read at once.

    Attributes:
        begin: Offset in the buffer of its first byte.
        end: Offset after its last byte. There are bytes of other parts between the two.
        done: True once all of it was read; False if it could not be.
    """

    begin: int
    end: int
    done: Future[bool]


class _Buffer:
    """The frames of plans that are read together, one after the other.

    Args:
        size: Size of the frames in bytes.
        pool: Threads that read them. It lives as long as a buffer.

    Attributes:
        memory: The frames, once they are read.
        readings: Parts of files that are read into it. Parts that no thread has begun to read when
            the buffer is dropped are cancelled.
    """

    def __init__(self, size: int, pool: ThreadPoolExecutor) -> None:
        self.readings: list[_Reading] = []
        self.memory = _core.allocate(size)
        self._pool = pool

    def __del__(self) -> None:
        for each in self.readings:
            each.done.cancel()


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
        self._pool: Callable[[], ThreadPoolExecutor | None] = lambda: None
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
            for part in (source.split(ranges) if isinstance(source, ChunkedFile) else [ranges])
        ]
        with self._lock:
            pool = self._pool() or ThreadPoolExecutor(self._threads, "torchrec_io prefetch")
            self._pool = weakref.ref(pool)
            buffer = _Buffer(joined.buffer_bytes, pool)
            for file, part in parts:
                # A copy: an array of the plan would keep the plan.
                done = pool.submit(self._read, file, part.copy(), buffer.memory)
                end = int((part[:, 1] + part[:, 2]).max())
                buffer.readings.append(_Reading(int(part[:, 2].min()), end, done))
            self._buffers.add(buffer)
            begin = 0
            for plan in plans:
                self._places[plan] = buffer, begin
                begin += plan.buffer_bytes

    def take(self, plan: ReadPlan, *, shares_memory: bool) -> ByteBuffer | None:
        """Return the frames of a plan, once.

        Args:
            plan: The plan.
            shares_memory: Whether they may be a part of the frames of several plans.

        Returns:
            uint8 of ``plan.buffer_bytes``; None if they must be read, or read again to raise an
            error.
        """
        buffer, begin = self._places.pop(plan, (None, 0))
        if buffer is None:
            return None
        end = begin + plan.buffer_bytes
        done = [each.done for each in buffer.readings if each.begin < end and each.end > begin]
        if not all(each.result() for each in done):
            return None
        frames = buffer.memory[begin:end]
        return frames if shares_memory or len(frames) == len(buffer.memory) else frames.copy()

    def _read(self, file: int, ranges: Ints, out: ByteBuffer) -> bool:
        """Read ranges of a file into a buffer; return whether that was possible."""
        try:
            self._files.read([file], [0, len(ranges)], ranges, out)
        except (TorchRecIOError, OSError, MemoryError):
            return False  # raised when the plan itself is read
        return True
