"""Chunks of streams in memory, shared by the threads of a process."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, TypeAlias

from ..errors import TorchRecIOError
from .byte_source import ByteBuffer

DEFAULT_CACHE_BYTES = 256 << 20
# One part of so many of the capacity is for chunks, whatever is held outside of the cache.
_LEAST_SHARE = 4

ChunkKey: TypeAlias = "tuple[Hashable, int]"


class Chunk(NamedTuple):
    """A part of a stream in memory, which does not change.

    Attributes:
        data: The bytes that may be read, from the start of the chunk on; uint8.
        damage: Why the stream is damaged after them; None if they end because no more were wanted.
    """

    data: ByteBuffer
    damage: TorchRecIOError | None


class Holder(Protocol):
    """Something that holds data outside of the cache, which counts within its capacity."""

    @property
    def held_bytes(self) -> int:
        """Number of bytes that it holds."""


class ChunkCache:
    """Keeps chunks, up to a size. Those that were used least recently are dropped first.

    Memory that is still read is freed only after that.

    Args:
        capacity: Largest number of bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self._capacity = capacity
        self._lock = threading.Lock()
        self._used = 0
        self._chunks: OrderedDict[ChunkKey, Chunk] = OrderedDict()  # last used last
        self._loading: dict[ChunkKey, threading.Event] = {}

    def get(self, key: ChunkKey, size: int, load: Callable[[], Chunk]) -> Chunk:
        """Return a chunk from memory, or load it, or wait for the thread that does.

        Args:
            key: Identifier of the stream, and number of the chunk.
            size: Number of its first bytes that are wanted.
            load: Function that loads at least these, or all before damage.
        """
        while True:
            done = threading.Event()
            try:
                with self._lock:
                    chunk = self._chunks.get(key)
                    if chunk is not None and (chunk.damage or len(chunk.data) >= size):
                        self._chunks.move_to_end(key)
                        return chunk
                    under_way = self._loading.setdefault(key, done)
                if under_way is done:
                    chunk = load()
                    with self._lock:
                        if self._loading.get(key) is done:  # it was not dropped meanwhile
                            self._add(key, chunk)
                    return chunk
            finally:  # also after an interrupt: other threads wait
                with self._lock:
                    if self._loading.get(key) is done:
                        del self._loading[key]
                done.set()
            under_way.wait()

    def count_memory_of(self, holder: Holder) -> None:
        """Let the memory of an object count within the capacity.

        A quarter of that is always for chunks.
        """
        with self._lock:
            self._holders.add(holder)

    def drop(self, key: ChunkKey) -> None:
        """Drop a chunk, also one that a thread is loading: it is not kept."""
        with self._lock:
            self._drop(key)
            self._loading.pop(key, None)

    def _add(self, key: ChunkKey, chunk: Chunk) -> None:
        self._drop(key)
        self._chunks[key] = chunk
        self._used += chunk.data.nbytes
        held = sum(holder.held_bytes for holder in self._holders)
        most = max(self._capacity - held, self._capacity // _LEAST_SHARE)
        while self._used > most and len(self._chunks) > 1:
            self._drop(next(iter(self._chunks)))

    def _drop(self, key: ChunkKey) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is not None:
            self._used -= chunk.data.nbytes

    def restart(self) -> None:
        """Start without threads that load chunks, as in a forked process."""
        self._lock = threading.Lock()
        self._loading = {}


_caches: weakref.WeakValueDictionary[tuple[int, int], ChunkCache] = weakref.WeakValueDictionary()


def process_cache(memory_bytes: int) -> ChunkCache:
    """Return the cache that all readers of this process share which ask for the same memory.

    It exists as long as one of them. A sixth of the memory is for indexes, plans, and chunks that
    are being loaded.
    """
    return _caches.setdefault((os.getpid(), memory_bytes), ChunkCache(memory_bytes * 5 // 6))


def _restart_caches() -> None:
    for cache in list(_caches.values()):
        cache.restart()


os.register_at_fork(after_in_child=_restart_caches)
