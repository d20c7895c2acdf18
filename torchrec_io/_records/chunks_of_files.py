"""Compressed files of a reader: their chunks, and which records in them are trusted."""

from __future__ import annotations

import bisect
import functools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._storage.byte_source import ByteBuffer, ByteSource
from .._storage.chunk_cache import ChunkCache
from .._storage.compressed_file import CompressedFile
from .index import RecordIndex
from .record_block import RecordBlock

if TYPE_CHECKING:
    from .._storage.cache.block_cache import BlockCache

logger = logging.getLogger("torchrec_io")

# Decompressing the data more often than this in an epoch is reported.
_MANY_DECODINGS = 5


def open_chunks(
    index: RecordIndex, file: ByteSource, cache: ChunkCache, disk: BlockCache | None
) -> CompressedFile:
    """Return the decompressed content of a compressed file.

    Args:
        index: Index of the file.
        file: The open file.
        cache: Cache of decoded chunks, which stay there when the file is closed.
        disk: Cache on the local disk that keeps decoded chunks.
    """
    assert index.compression is not None
    points, size, stored = index.seek_points, index.stream_bytes, None
    if disk is not None:
        from .._storage.cache.stored_chunks import StoredChunks  # noqa: PLC0415  # seldom needed

        identity = index.location.content_identity(file.stamp)
        if identity is not None:
            starts = np.append(points.chunk_starts(size)[0], size)
            stored = StoredChunks.of(disk, f"{index.compression} {identity}", starts)
    find_valid_end = None
    if index.format.is_self_checking:
        find_valid_end = functools.partial(_find_valid_end, index)
    return CompressedFile(
        file,
        index.compression,
        points,
        size,
        cache,
        stored=stored,
        find_valid_end=find_valid_end,
        may_continue=bool(index.gaps),
    )


def report_decodings(
    indexes: Sequence[RecordIndex], cache_bytes: int, block: int | None = None
) -> bool:
    """Log if a shuffle decompresses files very often; return whether it does.

    Args:
        indexes: Index of each file.
        cache_bytes: Memory of the cache, half of which is for prefetching.
        block: Number of records that are read together; None: each is read alone.
    """
    compressed = [index for index in indexes if index.compression]
    # Three quarters of the memory are for prefetched data; half of that is read each time.
    size = sum(index.stream_bytes for index in compressed)
    times = max(1, size / (0.75 * cache_bytes / 2))
    # Of the largest file alone: the indexes of others may not be in memory.
    largest = max(compressed, key=lambda index: index.stream_bytes)
    points, size = largest.seek_points, largest.stream_bytes
    if block is not None:
        # The chunks that a block begins and ends in are decompressed.
        block_bytes = block * max(1, size / max(1, len(largest)))
        chunk_bytes = size / len(points.chunk_starts(size)[0])
        times = min(times, 1 + chunk_bytes / block_bytes)
    times *= points.chunks_to_reach(size)
    if times <= _MANY_DECODINGS:
        return False
    logger.warning(
        "shuffle=%s decompresses the files about %.0f times in an epoch, with cache_bytes=%d"
        ": use %s, a larger cache, or torchrec-io compress or decompress",
        True if block is None else f"Shuffle(block={block})",
        times,
        cache_bytes,
        "shuffle=Shuffle(block=...)" if block is None else "larger blocks",
    )
    return True


def _find_valid_end(index: RecordIndex, begin: int, data: ByteBuffer) -> int:
    """Return the stream offset where the first damaged record of a damaged chunk starts.

    Damage to compressed data may repeat earlier bytes. So what follows it, up to the next seek
    point, may be records that look valid, but are others again.

    Args:
        index: Index of the file.
        begin: Stream offset of the chunk.
        data: The bytes of the chunk that could be decoded.
    """

    def first_from(offset: int) -> int:
        """Return the first record that starts at an offset or later."""
        return bisect.bisect_left(
            range(len(index)), offset, key=lambda n: int(index.locate(np.array([n]))[0][0])
        )

    first, last = first_from(begin), first_from(begin + len(data))
    starts, ends = index.locate(np.arange(first, last))
    whole = int(np.searchsorted(ends, begin + len(data), side="right"))
    starts, ends = starts[:whole], ends[:whole]
    frames = RecordBlock(data, starts - begin, ends - starts, np.arange(whole))
    _, faults = index.format.extract(frames, verify_crc=True)
    if faults:
        return int(starts[faults[0][0]])
    return int(ends[-1]) if whole else begin
