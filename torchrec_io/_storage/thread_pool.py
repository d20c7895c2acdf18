"""A small pool of threads for work that waits for storage."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .file_limit import most_open_files
from .ordered_pool import OrderedPool

# Threads that wait for answers of a store: they need no processor.
REMOTE_THREADS = 32

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def most_storage_threads() -> int:
    """Return the number of threads for work that waits for storage: at most 8.

    Each may have several files open, so there are fewer if few files may be open.
    """
    return max(1, min(8, os.cpu_count() or 1, most_open_files() // 16))


def shared_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool that all of this process share which ask for as many threads.

    Its threads end when nobody holds it. A call that waits for another one of the pool must be able
    to do that work itself.
    """
    return _pools.setdefault((os.getpid(), threads), ThreadPoolExecutor(threads, "torchrec_io"))


_pools: weakref.WeakValueDictionary[tuple[int, int], ThreadPoolExecutor] = (
    weakref.WeakValueDictionary()
)


def map_in_threads(
    work: Callable[[_Item], _Result], items: Sequence[_Item], threads: int | None = None
) -> list[_Result]:
    """Apply a function to each item in a pool of threads and return the results in order.

    Items are processed in chunks because each one is cheap.

    Args:
        work: The function.
        items: The items.
        threads: Number of threads; by default at most 8.

    Raises:
        Exception: The exception of ``work``, for the first chunk with an item that raised one.
            Chunks that no thread has begun are left out.
    """

    def do_chunk(chunk: Sequence[_Item]) -> list[_Result]:
        return [work(item) for item in chunk]

    jobs = threads or most_storage_threads()
    size = max(1, min(64, len(items) // (4 * jobs)))
    chunks = [items[at : at + size] for at in range(0, len(items), size)]
    with OrderedPool(do_chunk, jobs) as pool:
        return [result for chunk in pool.map(chunks) for result in chunk]
