"""Random access to a compressed file, whose decompressed stream is kept in memory in chunks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteBuffer, ByteSource, Ints
from .chunk_cache import Chunk, ChunkCache
from .compression import CHECKED_BYTES, Compression
from .memory_file import MemoryFile
from .remote.ranges import cut_ranges

if TYPE_CHECKING:
    from .cache.object_blocks import ObjectBlocks
    from .inflater import Inflater
    from .seek_points import SeekPoints

# Compressed bytes that are read at once, where each read is expensive.
_MOST_AT_ONCE_BYTES = 64 << 20


class ChunkedFile(ByteSource):
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

    Attributes:
        starts: Stream offset of each chunk, and the size of the stream; int64 ``[chunks + 1]``.
        count: Number of chunks.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        points: SeekPoints,
        stream_bytes: int,
        cache: ChunkCache,
        *,
        stored: ObjectBlocks | None = None,
        find_valid_end: Callable[[int, ByteBuffer], int] | None = None,
    ) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.file_watch = file.file_watch
        self.is_pinned = file.is_pinned
        starts, self._point_of = points.chunk_starts(stream_bytes)
        self.starts: Ints = np.append(starts, stream_bytes)
        self.count = len(starts)
        self._file = file
        self._compression: Compression = compression
        self._points = points
        self._cache = cache
        self._stored = stored
        self._find_valid_end = find_valid_end
        # What identifies the chunks, also for another object that reads them.
        self._identity = (file.path, file.stamp, self.starts.tobytes())
        self._check_bounds = points.check_bounds(stream_bytes)
        self._has_long_parts = self.count > len(points)
        self._lock = threading.Lock()
        self._next: tuple[int, Inflater] | None = None  # a decoder at the start of a chunk
        self._ends: bool | None = None  # True if nothing follows the last chunk, once it is known

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.size - offset))
        buffer = np.frombuffer(out, np.uint8)
        for number, parts in self._split(np.array([(offset, size, 0)])):
            begin, wanted, target = parts[0].tolist()
            chunk = self._load(number, begin + wanted)
            data = chunk.data[begin : begin + wanted]
            buffer[target : target + len(data)] = data
            if len(data) < wanted:
                if chunk.damage is not None and target + len(data) == 0:
                    raise chunk.damage
                return int(target) + len(data)
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        is_outside = ranges[:, 0] + ranges[:, 1] > self.size
        if is_outside.any():
            return int(is_outside.argmax())
        for number, parts in self._split(ranges):
            end = int((parts[:, 0] + parts[:, 1]).max())
            chunk = self._load(number, end)
            if len(chunk.data) < end:
                assert chunk.damage is not None
                raise chunk.damage
            _core.gather(chunk.data, parts, out)
        return None

    def split(self, ranges: Ints) -> Iterator[Ints]:
        """Cut ranges at the bounds of chunks; yield the parts in each chunk, one array for each.

        Args:
            ranges: int64 ``[n, 3]``, as for :meth:`read_ranges`.
        """
        for number, parts in self._split(ranges):
            parts[:, 0] += self.starts[number]
            yield parts

    def ends(self) -> bool:
        """Return whether the decompressed stream ends where it did when it was indexed."""
        last = self.count - 1
        if self._stored is not None and self._stored.has(last):
            return True  # it is stored only if nothing follows it
        if self._ends is None:
            self.decode(last, self.size_of(last))
        return self._ends is not False  # a damaged chunk is reported where it is read

    def drop_kept(self, ranges: Ints) -> bool:
        numbers = [number for number, _ in self._split(ranges)]
        parts = np.array([(*self.file_range(number), 0) for number in numbers], np.int64)
        may_differ = bool(numbers) and self._file.drop_kept(parts)
        if self._stored is not None:
            may_differ |= self._stored.discard(numbers)
        if may_differ:  # the file on the disk has the same damage, which takes long to find
            for number in numbers:
                self._cache.drop((self._identity, number))
        return may_differ

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    # ---- chunks ----

    def size_of(self, number: int) -> int:
        """Return the size of a chunk in bytes."""
        return int(self.starts[number + 1] - self.starts[number])

    def file_range(self, number: int) -> tuple[int, int]:
        """Return the part of the file that is decoded for a chunk: offset and size."""
        bits, point = self._points.file_bits, self._point_of[number]
        begin = int(bits[point]) // 8
        is_last = point + 1 == len(bits)
        end = self.stamp.size if is_last else int(bits[point + 1]) // 8 + 1
        return begin, end - begin

    def decode(self, number: int, size: int) -> Chunk:
        """Decode a chunk.

        Args:
            number: Number of the chunk.
            size: Number of its first bytes that are wanted.

        Raises:
            OSError: If the file cannot be read.
        """
        whole = self.size_of(number)
        if self._file.descriptor is None or self._has_long_parts:
            size = whole  # the rest would have to be fetched or decoded again
        size = min(whole, -(-size // CHECKED_BYTES) * CHECKED_BYTES)
        data = _core.allocate(size)
        decoded = 0
        damage: TorchRecIOError | None = None
        with self._lock if self._has_long_parts else contextlib.nullcontext():
            try:
                inflater = self._decoder_at(number)
                while decoded < size and (part := inflater.read(size - decoded)):
                    data[decoded : decoded + len(part)] = np.frombuffer(part, np.uint8)
                    decoded += len(part)
                if number + 1 == self.count and decoded == whole:
                    self._ends = _is_at_end(inflater)
                if self._has_long_parts:
                    self._next = number + 1, inflater
            except TorchRecIOError as error:
                damage = _as_damage(error)
        valid, damage = self._check(number, data, decoded, damage)
        if damage is not None and self._find_valid_end is not None:
            begin = int(self.starts[number])
            valid = max(valid, self._find_valid_end(begin, data[:decoded]) - begin)
        return Chunk(data[:valid], damage)

    def _load(self, number: int, size: int) -> Chunk:
        """Return at least the first bytes of a chunk, or all before damage."""
        return self._cache.get((self._identity, number), size, lambda: self._read(number, size))

    def _read(self, number: int, size: int) -> Chunk:
        """Return a chunk from the local disk, or decode it."""
        if self._stored is None:
            return self.decode(number, size)
        data = self._stored.load(number)
        if data is not None:
            return Chunk(data, None)
        chunk = self.decode(number, self.size_of(number))
        if chunk.damage is None and (number + 1 < self.count or self.ends()):
            self._stored.store(number, chunk.data)
        return chunk

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

    def _split(self, ranges: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the numbers of chunks, and the parts of ranges in them, as offsets in the chunk."""
        bounds = np.column_stack([self.starts[:-1], self.starts[1:]])
        numbers, parts = cut_ranges(bounds, ranges[ranges[:, 1] > 0])
        order = np.argsort(numbers, kind="stable")
        found, firsts = np.unique(numbers[order], return_index=True)
        for number, group in zip(found.tolist(), np.split(order, firsts)[1:], strict=True):
            yield number, parts[group]


def _count_valid(data: ByteBuffer, checks: npt.NDArray[np.uint32]) -> int:
    """Return the number of bytes before the first part that does not match its checksum."""
    from isal import isal_zlib  # noqa: PLC0415  # as above

    for begin, check in zip(range(0, len(data), CHECKED_BYTES), checks, strict=False):
        if isal_zlib.crc32(data[begin : begin + CHECKED_BYTES]) != check:
            return begin
    return len(data)


def _is_at_end(inflater: Inflater) -> bool:
    """Return whether the stream was decoded to its end."""
    try:
        return not inflater.read(1)
    except TorchRecIOError:
        return True


def _as_damage(error: TorchRecIOError) -> TorchRecIOError:
    """Return the error of a file that has its size, but seems to end early."""
    if isinstance(error, TruncatedFileError):
        return CorruptRecordError(error.reason, path=error.path, offset=error.offset)
    return error
