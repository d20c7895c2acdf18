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
_SECONDS_TO_WAIT = 0.02  # for blocks that other processes download


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
    downloads = fill.downloads()
    next_download = functools.partial(next, downloads, None)
    try:
        while (part := await _in_thread(next_download)) is not None:
            begin, size = part
            if not size:
                await asyncio.sleep(_SECONDS_TO_WAIT)
                continue
            result = await fetch_range(fetch.part(begin, size))
            if isinstance(result, Failure):
                return result
    finally:
        downloads.close()
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
