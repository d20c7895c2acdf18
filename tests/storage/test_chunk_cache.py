"""The cache of chunks: its bound, and threads that want the same chunk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from torchrec_io._storage.chunk_cache import Chunk, ChunkCache


def chunk(size: int) -> Chunk:
    return Chunk(np.zeros(size, np.uint8), None)


class Holder:
    """A holder of memory outside of the cache."""

    held_bytes = 0


def kept(cache: ChunkCache, numbers: range) -> list[int]:
    """Return the numbers of the chunks of 10 bytes that are in the cache, last used last."""
    missing: list[int] = []

    def load(number: int) -> Chunk:
        missing.append(number)
        raise KeyError

    for number in numbers:
        try:
            cache.get(("x", number), 10, lambda number=number: load(number))  # type: ignore[misc]
        except KeyError:
            continue
    return [number for number in numbers if number not in missing]


def test_what_was_used_least_recently_is_dropped() -> None:
    cache = ChunkCache(100)
    for number in range(12):
        cache.get(("x", number), 10, lambda: chunk(10))
        cache.get(("x", 0), 10, lambda: chunk(10))
    assert kept(cache, range(12)) == [0, *range(3, 12)]
    cache.get(("y", 0), 500, lambda: chunk(500))  # however large it is, it is kept
    cache.get(("y", 0), 500, lambda: pytest.fail("it was not kept"))
    assert kept(cache, range(12)) == []


def test_memory_outside_of_the_cache_counts() -> None:
    cache = ChunkCache(100)
    holder = Holder()
    cache.count_memory_of(holder)
    for held, count in ((60, 4), (1000, 2), (0, 10)):  # a quarter is always for the cache
        holder.held_bytes = held
        for number in range(20):
            cache.get(("x", number), 10, lambda: chunk(10))
        assert kept(cache, range(20)) == [*range(20 - count, 20)]
    holder.held_bytes = 1000
    del holder
    cache.get(("x", 0), 10, lambda: chunk(10))
    assert len(kept(cache, range(20))) == 10


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), KeyboardInterrupt()])
def test_threads_that_want_the_same_chunk(error: BaseException) -> None:
    """One of them loads it. If that fails, the next one does."""
    cache = ChunkCache(100)
    first_loads, go_on = threading.Event(), threading.Event()
    loads: list[int] = []

    def fail() -> Chunk:
        first_loads.set()
        assert go_on.wait(30)
        raise error

    def load() -> Chunk:
        loads.append(1)
        return chunk(10)

    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(cache.get, ("x", 0), 10, fail)
        assert first_loads.wait(30)
        others = [pool.submit(cache.get, ("x", 0), 10, load) for _ in range(4)]
        go_on.set()
        assert {len(other.result(30).data) for other in others} == {10}
        assert first.exception(30) is error
    assert loads == [1]


def test_a_chunk_that_is_dropped_while_a_thread_loads_it_is_not_kept() -> None:
    cache = ChunkCache(100)
    has_begun, go_on = threading.Event(), threading.Event()

    def load() -> Chunk:
        has_begun.set()
        assert go_on.wait(30)
        return chunk(10)

    with ThreadPoolExecutor(1) as pool:
        dropped = pool.submit(cache.get, ("x", 0), 10, load)
        assert has_begun.wait(30)
        cache.drop(("x", 0))
        again = cache.get(("x", 0), 10, lambda: chunk(20))  # does not wait for the other one
        go_on.set()
        assert len(dropped.result(30).data) == 10
    assert len(again.data) == 20
    assert cache.get(("x", 0), 10, lambda: pytest.fail("it was not kept")) is again
