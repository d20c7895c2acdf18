"""Fetches through a cache. Runs in the helper process alone."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..cache.filling import BlockFill
from ..cache.object_blocks import ObjectBlocks
from .failures import Failure
from .messages import Fetch

_Result = TypeVar("_Result")


async def fetch_blocks(
    fetch: Fetch,
    blocks: ObjectBlocks,
    memory: memoryview,
    fetch_range: Callable[[Fetch], Awaitable[str | Failure]],
) -> str | Failure:
    """Bring whole blocks of an object into memory, and those that the cache lacks into the cache.

    Args:
        fetch: The range of the blocks.
        blocks: The blocks of the object.
        memory: Memory for the range.
        fetch_range: Function that downloads a range of the object.

    Returns:
        Why the blocks could not be written to the cache, ``""`` if they could; or a failure.
    """
    fill = BlockFill(blocks, fetch.begin, memory)
    try:
        while not fill.is_done:
            runs = await _in_thread(fill.next_runs)
            for begin, size in runs:
                result = await fetch_range(fetch.part(begin, size))
                if isinstance(result, Failure):
                    return result
                await _in_thread(functools.partial(fill.store, begin, size))
            if not runs and not fill.is_done:
                await asyncio.sleep(fill.pause())
    finally:
        fill.close()
    return fill.trouble


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Run a function that waits for the disk, to its end even if this is cancelled.

    It uses memory that the parent assigns again after that.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    finally:
        await asyncio.wait([future])
