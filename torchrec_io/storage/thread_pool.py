"""A small pool of threads for work that waits for storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .file_limit import most_open_files

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def most_storage_threads() -> int:
    """Return the number of threads for work that waits for storage: at most 8.

    Each may have several files open, so there are fewer if few files may be open.
    """
    return max(1, min(8, os.cpu_count() or 1, most_open_files() // 16))


def storage_threads() -> ThreadPoolExecutor:
    """Return a pool of at most 8 threads."""
    return ThreadPoolExecutor(most_storage_threads())


def map_in_threads(work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
    """Apply a function to each item in a pool of threads and return the results in order.

    Items are processed in chunks because each one is cheap.
    """
    with storage_threads() as pool:
        size = max(1, min(64, len(items) // 32))
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
        done = pool.map(lambda chunk: [work(item) for item in chunk], chunks)
        return [result for chunk in done for result in chunk]
