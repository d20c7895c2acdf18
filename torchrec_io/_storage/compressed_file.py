"""Random access to a compressed file, whose decompressed stream is cut at its seek points."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteBuffer, ByteSource, Ints
from .chunk_cache import Chunk, ChunkCache
from .chunked_file import ChunkedFile
from .compression import CHECKED_BYTES, Compression
from .memory_file import MemoryFile

if TYPE_CHECKING:
    from .cache.stored_chunks import StoredChunks
    from .inflater import Inflater
    from .seek_points import SeekPoints

# Compressed bytes that are read at once, where each read is expensive.
_MOST_AT_ONCE_BYTES = 64 << 20


class CompressedFile(ChunkedFile):
    """The decompressed stream of a compressed file, readable at any offset.

    The stream is cut into chunks at its seek points. A long part of it without a seek point makes
    several chunks. All chunks of a file with such parts are decoded by one thread at a time, which
    continues after the chunk that was decoded last, or else starts at the seek point before.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the stream.
        cache: Cache that keeps chunks in memory.
        stored: Chunks on the local disk, if they are kept there.
        find_valid_end: Function that returns the end of the data in a damaged chunk that is valid
            all the same, as a stream offset, by the offset of the chunk and the bytes that could be
            decoded. By default, checksums of the index decide alone.
        may_continue: Whether the stream may be longer than it was when it was indexed. By default,
            the last chunk cannot be loaded then.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        points: SeekPoints,
        stream_bytes: int,
        cache: ChunkCache,
        *,
        stored: StoredChunks | None = None,
        find_valid_end: Callable[[int, ByteBuffer], int] | None = None,
        may_continue: bool = False,
    ) -> None:
        starts, self._point_of = points.chunk_starts(stream_bytes)
        starts = np.append(starts, stream_bytes)
        identity = (file.path, file.stamp, starts.tobytes())
        super().__init__(file.path, file.stamp, starts, identity, cache=cache, stored=stored)
        self.file_watch = file.file_watch
        self.is_pinned = file.is_pinned
        self._file = file
        self._compression: Compression = compression
        self._points = points
        self._find_valid_end = find_valid_end
        self._may_continue = may_continue
        self._check_bounds = points.check_bounds(stream_bytes)
        self._has_long_parts = self.count > len(points)
        self._lock = threading.Lock()
        self._next: tuple[int, Inflater] | None = None  # a decoder at the start of a chunk

    def split(self, ranges: Ints) -> Iterator[Ints]:
        for number, parts in self._split(ranges):
            parts[:, 0] += self.starts[number]
            yield parts

    def drop_kept(self, ranges: Ints) -> bool:
        parts = [(*self.file_range(number), 0) for number, _ in self._split(ranges)]
        may_differ = bool(parts) and self._file.drop_kept(np.array(parts, np.int64))
        if not may_differ and self.stored is None:
            return False  # the file on the disk has the same damage, which takes long to find
        return super().drop_kept(ranges)

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    def file_range(self, number: int) -> tuple[int, int]:
        """Return the part of the file that is decoded for a chunk: offset and size."""
        bits, point = self._points.file_bits, self._point_of[number]
        begin = int(bits[point]) // 8
        is_last = point + 1 == len(bits)
        end = self.stamp.size if is_last else int(bits[point + 1]) // 8 + 1
        return begin, end - begin

    def load(self, number: int, size: int) -> Chunk:
        whole = self.size_of(number)
        is_last = number + 1 == self.count
        if self._file.descriptor is None or self._has_long_parts or is_last:
            size = whole  # the rest would be decoded again; after the last one, the end is checked
        size = min(whole, -(-size // CHECKED_BYTES) * CHECKED_BYTES)
        data = _core.allocate(size)
        decoded = 0
        damage: TorchRecIOError | None = None
        continues = False
        with self._lock if self._has_long_parts else contextlib.nullcontext():
            try:
                inflater = self._decoder_at(number)
                while decoded < size and (part := inflater.read(size - decoded)):
                    data[decoded : decoded + len(part)] = np.frombuffer(part, np.uint8)
                    decoded += len(part)
                if is_last and decoded == whole and not self._may_continue:
                    continues = _continues(inflater)
                if self._has_long_parts:
                    self._next = number + 1, inflater
            except TorchRecIOError as error:
                damage = _as_damage(error)
        valid, damage = self._check(number, data, decoded, damage)
        if damage is not None and self._find_valid_end is not None:
            begin = int(self.starts[number])
            valid = max(valid, self._find_valid_end(begin, data[:decoded]) - begin)
        if continues and valid == whole:  # the index does not show that there are more records
            raise StaleIndexError(
                f"the index ends at byte {self.size:,} of the decompressed stream, which continues",
                path=self.path,
                offset=self.size,
            )
        return Chunk(data[:valid], damage)

    def _decoder_at(self, number: int) -> Inflater:
        """Return a decoder at the start of a chunk."""
        found, self._next = self._next, None
        if found is not None and found[0] == number:
            return found[1]
        from .inflater import Inflater  # noqa: PLC0415  # loads a decompressor

        file = self._file
        offset, stored_bytes = self.file_range(number)
        is_remote = file.descriptor is None
        if is_remote and stored_bytes <= _MOST_AT_ONCE_BYTES and not self._has_long_parts:
            file = MemoryFile(file, offset, stored_bytes)
        point = self._points.point(int(self._point_of[number]))
        inflater = Inflater(file, self._compression, point)
        inflater.skip(int(self.starts[number]) - point.stream_offset)
        return inflater

    def _check(
        self, number: int, data: ByteBuffer, decoded: int, damage: TorchRecIOError | None
    ) -> tuple[int, TorchRecIOError | None]:
        """Compare decoded bytes with their checksums in the index.

        Args:
            number: Number of the chunk.
            data: Memory for the bytes that were wanted.
            decoded: Number of those that were decoded.
            damage: Error that ended decoding early, if there was one.

        Returns:
            Number of bytes that match their checksums, and the first damage.
        """
        whole = decoded if decoded == len(data) else decoded // CHECKED_BYTES * CHECKED_BYTES
        begin = int(self.starts[number])
        point = self._point_of[number]
        first = int(self._check_bounds[point])
        first += (begin - int(self._points.stream_offsets[point])) // CHECKED_BYTES
        valid = _count_valid(data[:whole], self._points.checks[first:])
        reason = None
        if valid < whole:
            reason = "the decompressed data does not match its checksum in the index"
        elif decoded < len(data) and damage is None:
            reason = "the decompressed data ends before the indexed end"
        if reason is not None:
            damage = CorruptRecordError(reason, path=self.path, offset=begin + valid)
        return valid, damage


def _count_valid(data: ByteBuffer, checks: npt.NDArray[np.uint32]) -> int:
    """Return the number of bytes before the first part that does not match its checksum."""
    from isal import isal_zlib  # noqa: PLC0415  # as above

    for begin, check in zip(range(0, len(data), CHECKED_BYTES), checks, strict=False):
        if isal_zlib.crc32(data[begin : begin + CHECKED_BYTES]) != check:
            return begin
    return len(data)


def _continues(inflater: Inflater) -> bool:
    """Return whether the stream has more bytes after those that were decoded."""
    try:
        return bool(inflater.read(1))
    except TorchRecIOError:
        return False


def _as_damage(error: TorchRecIOError) -> TorchRecIOError:
    """Return the error of a file that has its size, but seems to end early."""
    if isinstance(error, TruncatedFileError):
        return CorruptRecordError(error.reason, path=error.path, offset=error.offset)
    return error
