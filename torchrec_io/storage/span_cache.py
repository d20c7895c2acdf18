"""Memory for decoded spans of compressed files, shared by the threads of a process."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from .byte_source import ByteBuffer

DEFAULT_CACHE_BYTES = 256 << 20
# One part of so many of the capacity is for the cache, whatever is held outside of it.
_LEAST_SHARE = 4
# Spans that are decoded by threads that would wait otherwise.
_MOST_SOON = 1 << 12


class Cached(Protocol):
    """Something in the cache.

    Attributes:
        is_busy: True while a thread decodes it.
    """

    is_busy: bool

    def evict(self) -> int:
        """Free memory; return the number of bytes that are kept. The lock is held.

        An item may be evicted before its memory is filled.
        A second call without an :meth:`SpanCache.add` between the two keeps nothing.
        """


class Holder(Protocol):
    """Something that holds decoded data outside of the cache.

    Attributes:
        held_bytes: Number of bytes that it holds.
    """

    held_bytes: int


class SpanCache:
    """Bounds the memory of decoded spans. What was used least recently is dropped first.

    An item that is evicted may keep a part, for reads that were announced. Such parts are dropped
    only if there is nothing else.

    Attributes:
        lock: Lock of the cache and of all that is in it. Threads wait on it for spans that other
            threads decode.
        capacity: Largest number of bytes.
        used: Number of bytes in the cache.
        holders: Objects that hold decoded data outside of the cache, which counts, too. A quarter
            of the capacity is always for the cache.
        soon: Claims of spans that are read soon, in the order of the reads. With the lock, a claim
            returns the function that decodes the span, for one thread that calls it without the
            lock; or None if that is not needed anymore.
    """

    def __init__(self, capacity: int = DEFAULT_CACHE_BYTES) -> None:
        self.lock = threading.Condition()
        self.capacity = capacity
        self.used = 0
        self.holders: weakref.WeakSet[Holder] = weakref.WeakSet()
        self.soon: deque[Callable[[], Callable[[], None] | None]] = deque(maxlen=_MOST_SOON)
        self._claimed: dict[int, Cached] = {}  # by thread
        self._spare: ByteBuffer | None = None
        self._whole: OrderedDict[Cached, int] = OrderedDict()  # last used last
        self._parts: OrderedDict[Cached, int] = OrderedDict()

    def claim(self, item: Cached) -> None:
        """Note that this thread decodes an item until :meth:`release`. The lock is held."""
        self._claimed[threading.get_ident()] = item
        item.is_busy = True

    def release(self) -> None:
        """Note that this thread decodes nothing anymore. Also after an interrupt anywhere."""
        thread = threading.get_ident()
        if thread not in self._claimed:
            return
        with self.lock:
            self._claimed[thread].is_busy = False
            self.lock.notify_all()
            del self._claimed[thread]

    def take_spare(self, size: int) -> ByteBuffer | None:
        """Return a buffer of about a size that is not used anymore, if there is one."""
        spare, self._spare = self._spare, None
        return spare if spare is not None and size <= len(spare) <= 2 * size else None

    def give_spare(self, buffer: ByteBuffer) -> None:
        """Keep a buffer that nothing refers to. New memory takes as long as decoding into it."""
        # All of it, not only the part that was used last.
        self._spare = buffer.base if isinstance(buffer.base, np.ndarray) else buffer

    def touch(self, item: Cached) -> None:
        """Note that an item is used. The lock is held."""
        self._whole.move_to_end(item)

    def add(self, item: Cached, size: int) -> None:
        """Add a whole item, and evict others. The lock is held."""
        self.discard(item)
        self._whole[item] = size
        self.used += size
        self._shrink()

    def _shrink(self) -> None:
        held = sum(holder.held_bytes for holder in self.holders)
        most = max(self.capacity - held, self.capacity // _LEAST_SHARE)
        while self.used > most and len(self._whole) > 1:
            oldest, size = self._whole.popitem(last=False)
            self.used -= size
            kept = oldest.evict()
            self.used += kept
            if kept:
                self._parts[oldest] = kept
        while self.used > most and self._parts:
            oldest, size = self._parts.popitem(last=False)
            self.used -= size
            oldest.evict()

    def discard(self, item: Cached) -> None:
        """Remove an item, if it is there. The lock is held."""
        self.used -= self._whole.pop(item, 0) + self._parts.pop(item, 0)


_caches: dict[tuple[int, int], SpanCache] = {}


def process_cache(memory_bytes: int) -> SpanCache:
    """Return the cache that all files of this process share which ask for the same memory.

    A third of the memory is for indexes, the plans of what is read soon, and spans in use.
    """
    key = (os.getpid(), memory_bytes)
    return _caches.get(key) or _caches.setdefault(key, SpanCache(memory_bytes * 2 // 3))
