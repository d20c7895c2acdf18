"""The chunks of the compressed files of a reader, and which records in them are trusted."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..checks import printable
from ..errors import CorruptRecordError, TorchRecIOError
from ..storage.byte_source import ByteBuffer, ByteSource, Ints, Stamp, find_size
from ..storage.chunk_cache import process_cache
from ..storage.chunked_file import ChunkedFile
from ..storage.opening import open_decompressed
from .index import RecordIndex, make_recorder

if TYPE_CHECKING:
    from ..storage.cache.block_cache import BlockCache
    from ..storage.seek_points import SeekPoints

logger = logging.getLogger("torchrec_io")

# Decompressing the data more often than this in an epoch is reported.
_MANY_DECODINGS = 5


class ChunksOfFiles:
    """Opens the decompressed content of compressed files.

    Args:
        cache_bytes: Memory for decoded chunks in this process, in bytes.
        disk: Cache on the local disk that keeps decoded chunks.

    Attributes:
        cache: Cache of the decoded chunks, which stay there when a file is closed.
    """

    def __init__(self, cache_bytes: int, disk: BlockCache | None = None) -> None:
        self.cache = process_cache(cache_bytes)
        self._disk = disk
        # Results for files whose index has no seek points: these, or damage.
        self._searched: dict[tuple[int, Stamp], SeekPoints | TorchRecIOError] = {}

    def open(self, number: int, index: RecordIndex, file: ByteSource) -> ChunkedFile:
        """Return the decompressed content of a compressed file.

        Args:
            number: Number of the file among those of the reader.
            index: Index of the file.
            file: The open file.

        Raises:
            CorruptRecordError: If the file is damaged, and its format would not notice that.
        """
        from ..storage.compressed_chunks import CompressedChunks  # noqa: PLC0415  # has decoders

        assert index.compression is not None
        points = index.seek_points
        if index.lacks_seek_points:
            points = self._searched_points(number, index, file)
        chunks = CompressedChunks(file.path, index.compression, points, index.stream_bytes)
        if self._disk is not None:
            from ..storage.cache.object_blocks import chunk_blocks  # noqa: PLC0415  # seldom needed

            chunks.stored = chunk_blocks(self._disk, index.location, file.stamp, chunks.starts)
        return ChunkedFile(file, chunks, self.cache)

    def _searched_points(self, number: int, index: RecordIndex, file: ByteSource) -> SeekPoints:
        key = number, file.stamp
        if key not in self._searched:
            self._searched[key] = _search_points(index, file)
        found = self._searched[key]
        if isinstance(found, TorchRecIOError):
            raise CorruptRecordError(found.reason, path=index.data_path, offset=found.offset)
        return found


def _search_points(index: RecordIndex, file: ByteSource) -> SeekPoints | TorchRecIOError:
    """Decompress a file to find its seek points.

    Returns:
        The points; or damage, if the format of the file would not notice it.
    """
    logger.info(
        "decompressing %s to find seek points: its index has none", printable(index.data_path)
    )
    recorder = make_recorder(None)
    _, damage = find_size(open_decompressed(file, index.compression, recorder=recorder))
    if damage is not None and not index.format.is_self_checking:
        return damage  # the checksum of a member or stream does not show where its damage is
    return recorder.finish().up_to(index.stream_bytes)


def trust_valid_records(source: ChunkedFile, index: RecordIndex, ranges: Ints) -> None:
    """Allow reading the records of damaged chunks up to the first one that is damaged.

    Damage to compressed data may repeat earlier bytes. So what follows it, up to the next seek
    point, may be records that look valid, but are others again.

    Args:
        source: The decompressed content of a file.
        index: Index of the file.
        ranges: Ranges that are read; int64 ``[n, 3]``.
    """
    for edge in {*ranges[:, 0].tolist(), *(ranges[:, :2].sum(axis=1) - 1).tolist()}:
        damaged = source.damaged_chunk(edge)
        if damaged is not None:
            begin, data = damaged
            source.trust(begin, _find_valid_end(index, begin, data))


def report_decodings(
    indexes: Sequence[RecordIndex], cache_bytes: int, block: int | None = None
) -> bool:
    """Log if a shuffle decompresses files very often; return whether it does.

    Args:
        indexes: Index of each file.
        cache_bytes: Memory of the cache, half of which is for the look-ahead.
        block: Number of records that are read together; None: each is read alone.
    """
    compressed = [index for index in indexes if index.compression]
    if not compressed:
        return False
    size = sum(index.stream_bytes for index in compressed)
    times = _count_decodings(size, cache_bytes)
    # Of the largest file alone: the indexes of others may not be in memory.
    largest = max(compressed, key=lambda index: index.stream_bytes)
    if block is not None:
        # The chunks that a block begins and ends in are decompressed.
        extra = _chunk_bytes(largest)
        times = min(times, 1 + extra / (block * _record_bytes(largest)))
    spans_to_reach = largest.seek_points.spans_to_reach(largest.stream_bytes)
    if times * spans_to_reach <= _MANY_DECODINGS:
        return False
    if spans_to_reach > times:
        reason = f"decompression can start in few places of {largest.data_path}"
        remedy = "torchrec-io compress or decompress"
    else:
        reason = f"more than decode_cache_bytes={cache_bytes} are decompressed"
        blocks = "shuffle=Shuffle(block=...)" if block is None else "larger blocks"
        remedy = f"{blocks}, a larger cache, or torchrec-io decompress"
    logger.warning(
        "shuffle=%s decompresses the files about %.0f times in an epoch, because %s: use %s",
        True if block is None else f"Shuffle(block={block})",
        times * spans_to_reach,
        reason,
        remedy,
    )
    return True


def _count_decodings(size: int, cache_bytes: int) -> float:
    """Return how often a uniform shuffle decompresses data of a size.

    Half of the look-ahead, which is three quarters of the memory, is read each time. A chunk
    without a seek point is reached from the last one before it.
    """
    return max(1, size / (0.75 * cache_bytes / 2))


def _chunk_bytes(index: RecordIndex) -> float:
    """Return the mean size of the chunks of a file."""
    starts, _ = index.seek_points.span_starts(index.stream_bytes)
    return index.stream_bytes / len(starts)


def _record_bytes(index: RecordIndex) -> float:
    """Return the mean size of the records of a file."""
    return max(1, index.stream_bytes / max(1, len(index)))


def _find_valid_end(index: RecordIndex, begin: int, data: ByteBuffer) -> int:
    """Return the stream offset where the first damaged record of a damaged chunk starts.

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
    found = index.format.extract(data, starts - begin, ends - starts, verify_crc=True)
    if found.faults:
        return int(starts[found.faults[0][0]])
    return int(ends[-1]) if whole else begin
