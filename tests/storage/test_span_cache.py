"""The bound of the cache of decoded spans."""

from __future__ import annotations

from torchrec_io.storage.span_cache import SpanCache


class Item:
    """An item of the cache that keeps nothing when it is evicted."""

    is_busy = False

    def evict(self) -> int:
        return 0


class Blocks:
    """A holder of memory outside of the cache."""

    held_bytes = 0


def test_memory_outside_of_the_cache_counts() -> None:
    cache = SpanCache(100)
    items = [Item() for _ in range(10)]
    blocks = Blocks()
    with cache.lock:
        cache.holders.add(blocks)
        for item in items:
            cache.add(item, 10)
        assert cache.used == 100
        blocks.held_bytes = 60
        cache.add(Item(), 10)
        assert cache.used == 40
        blocks.held_bytes = 1000
        cache.add(Item(), 10)
        assert cache.used == 20  # a quarter is always for the cache
        del blocks
        for item in items:
            cache.add(item, 10)
        assert cache.used == 100
