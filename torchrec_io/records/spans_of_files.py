"""Decoded spans of the compressed files of a reader, and which records in them are trusted."""

from __future__ import annotations

import bisect
import itertools
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from .. import _core
from ..checks import printable
from ..errors import CorruptRecordError, TorchRecIOError
from ..storage.byte_source import ByteBuffer, ByteSource, Stamp
from ..storage.opening import make_spans, open_decompressed, open_spans
from .index import RecordIndex, make_recorder

if TYPE_CHECKING:
    from ..storage.cache.block_cache import BlockCache
    from ..storage.seek_points import SeekPoints
    from ..storage.spanned_stream import SpannedStream

ReadPlan: TypeAlias = _core.ReadPlan

logger = logging.getLogger("torchrec_io")

# Decompressing the data more often than this in an epoch is reported.
_MANY_DECODINGS = 5
# Closed files whose spans are freed when a file is closed, if they are not used anymore. More than
# one, so that those of all files are freed in time.
_FREED_AT_ONCE = 2


class SpansOfFiles:
    """The decoded spans of several files. They stay when a file is closed, and opened again.

    Args:
        cache_bytes: Memory for decoded spans in this process, in bytes.
        disk: Cache on the local disk that keeps decoded spans.
    """

    def __init__(self, cache_bytes: int, disk: BlockCache | None = None) -> None:
        self._cache_bytes = cache_bytes
        self._disk = disk
        self._pid = os.getpid()
        self._streams: dict[int, tuple[Stamp, SpannedStream]] = {}
        self._closed: dict[int, None] = {}  # files that are not open, in the order of closing
        self._searched: set[int] = set()  # files whose seek points are in no index
        self._damages: dict[tuple[int, Stamp], TorchRecIOError] = {}  # that were found meanwhile
        # Stream offset up to which records of damaged spans are sound, by file and start.
        self._trusted: dict[tuple[int, int], int] = {}

    def open(self, number: int, index: RecordIndex, file: ByteSource) -> ByteSource:
        """Return the decompressed content of a compressed file.

        Args:
            number: Number of the file among those of the reader.
            index: Index of the file.
            file: The open file.

        Raises:
            CorruptRecordError: If the file is damaged, and its format would not notice that.
        """
        self._closed.pop(number, None)
        stamp, stream = self._streams.get(number, (None, None))
        if stream is None or stamp != file.stamp:
            if stream is not None:
                stream.close()
                self._trusted.clear()
            stream = make_spans(
                file,
                index.compression,
                self._seek_points(number, index, file),
                index.stream_bytes,
                self._cache_bytes,
                location=index.location,
                disk=self._disk,
            )
            self._streams[number] = file.stamp, stream
        return open_spans(file, stream)

    def _seek_points(self, number: int, index: RecordIndex, file: ByteSource) -> SeekPoints:
        """Return the seek points of a file, which is decompressed if its index has none.

        Raises:
            CorruptRecordError: If the file is damaged, and its format would not notice that.
        """
        if not index.lacks_seek_points:
            return index.seek_points
        damage = self._damages.get((number, file.stamp))
        if damage is None:
            logger.info(
                "decompressing %s to find seek points: its index has none",
                printable(index.data_path),
            )
            source = open_decompressed(file, index.compression, make_recorder(None))
            _, damage = source.find_size()
            if damage is None or index.format.is_self_checking:
                assert source.seek_points is not None
                self._searched.add(number)
                return source.seek_points.up_to(index.stream_bytes)
            # The checksum of a member or stream does not show where its damage is.
            self._damages[number, file.stamp] = damage
        raise CorruptRecordError(damage.reason, path=index.data_path, offset=damage.offset)

    def note_closed(self, number: int) -> None:
        """Note that a file was closed. Its spans are freed once none is in memory or read soon.

        Args:
            number: Number of the file among those of the reader.
        """
        if number not in self._streams or number in self._searched:
            return
        self._closed[number] = None
        for candidate in [*itertools.islice(self._closed, _FREED_AT_ONCE)]:
            del self._closed[candidate]
            _, stream = self._streams[candidate]
            if stream.is_unused:
                del self._streams[candidate]
            else:
                self._closed[candidate] = None  # the last one to be tried again

    def trust_sound_records(self, indexes: Sequence[RecordIndex], plan: ReadPlan) -> None:
        """Allow reading the records of damaged spans up to the first one that is damaged.

        Damage to compressed data may repeat earlier bytes. So what follows it, up to the next seek
        point, may be records that look sound, but are others again.

        Args:
            indexes: Index of each file.
            plan: Plan that reads a damaged span.
        """
        for file, ranges in plan.by_file():
            _, stream = self._streams.get(file, (None, None))
            if stream is None:  # closed by another thread, without what was damaged
                continue
            for edge in {*ranges[:, 0].tolist(), *(ranges[:, :2].sum(axis=1) - 1).tolist()}:
                damaged = stream.read_damaged(edge)
                if damaged is not None:
                    begin, data = damaged
                    end = self._trusted.get((file, begin))
                    if end is None:
                        end = _find_sound_end(indexes[file], begin, data)
                        self._trusted[file, begin] = end
                    stream.trust(begin, end)

    def close(self) -> None:
        """Free the memory, unless it is that of a parent process, whose lock may be held."""
        if self._pid == os.getpid():
            for _, stream in self._streams.values():
                stream.close()


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
        # The span that a block begins in is decompressed from its start on. A span of an object is
        # decompressed past the block's end, too: its rest would have to be fetched again.
        extra = _span_bytes(largest) * (1 if largest.location.local_path is None else 0.5)
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

    Records are announced once half of those announced before were read. So each time that a part of
    a file is decompressed, three quarters of the look-ahead are taken from it on average. What fits
    the sixth for whole spans is decompressed once. A span without a seek point is reached from
    the last one before it.
    """
    return max(1, (size - cache_bytes / 6) / (0.75 * cache_bytes / 2))


def _span_bytes(index: RecordIndex) -> float:
    """Return the mean size of the spans of a file."""
    starts, _ = index.seek_points.span_starts(index.stream_bytes)
    return index.stream_bytes / len(starts)


def _record_bytes(index: RecordIndex) -> float:
    """Return the mean size of the records of a file."""
    return max(1, index.stream_bytes / max(1, len(index)))


def _find_sound_end(index: RecordIndex, begin: int, data: ByteBuffer) -> int:
    """Return the stream offset where the first damaged record of a damaged span starts.

    Args:
        index: Index of the file.
        begin: Stream offset of the span.
        data: The bytes of the span that could be decoded.
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
