"""The decompressed stream of a compressed file, cut into chunks at its seek points."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteBuffer, ByteSource, Ints
from .chunk_cache import Chunk
from .compression import Compression
from .inflater import Inflater
from .memory_file import MemoryFile
from .seek_points import CHECKED_BYTES, SeekPoints

if TYPE_CHECKING:
    from .cache.object_blocks import ObjectBlocks

# Compressed bytes that are read at once, where each read is expensive.
_MOST_AT_ONCE_BYTES = 64 << 20


class CompressedChunks:
    """The chunks of the decompressed stream of a file. They do not need the same open file.

    A chunk starts at a seek point. A long part of the stream without a seek point makes several
    chunks. All chunks of a file with such parts are decoded by one thread at a time, which
    continues after the chunk that was decoded last, or else starts at the seek point before.

    Args:
        path: Name of the file, for errors.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the stream.

    Attributes:
        starts: Stream offset of each chunk, and the size of the stream; int64 ``[chunks + 1]``.
        count: Number of chunks.
        stored: Chunks on the local disk, if they are kept there.
    """

    def __init__(
        self,
        path: str,
        compression: Compression,
        points: SeekPoints,
        stream_bytes: int,
    ) -> None:
        starts, self._point_of = points.span_starts(stream_bytes)
        self.starts: Ints = np.append(starts, stream_bytes)
        self.count = len(starts)
        self.stored: ObjectBlocks | None = None
        self._path = path
        self._compression = compression
        self._points = points
        self._check_bounds = points.check_bounds(stream_bytes)
        self._has_long_parts = len(starts) > len(points)
        self._lock = threading.Lock()
        self._next: tuple[int, Inflater] | None = None  # a decoder at the start of a chunk
        self._ends: bool | None = None  # True if nothing follows the last chunk, once it is known

    def size_of(self, number: int) -> int:
        """Return the size of a chunk in bytes."""
        return int(self.starts[number + 1] - self.starts[number])

    def load(self, file: ByteSource, number: int, size: int) -> Chunk:
        """Return a chunk from the local disk, or decode it; see :meth:`decode`."""
        if self.stored is None:
            return self.decode(file, number, size)
        data = self.stored.load(number)
        if data is not None:
            return Chunk(data, None, data)
        chunk = self.decode(file, number, self.size_of(number))
        if chunk.damage is None and (number + 1 < self.count or self.ends(file)):
            self.stored.store(number, chunk.data)
        return chunk

    def drop_kept(self, file: ByteSource, numbers: Sequence[int]) -> bool:
        """Drop chunks from caches on disk; return whether loading again may give other bytes."""
        parts = [(*self.file_range(file, number), 0) for number in numbers]
        may_differ = bool(parts) and file.drop_kept(np.array(parts, np.int64))
        return self.stored.discard(numbers) or may_differ if self.stored else may_differ

    def ends(self, file: ByteSource) -> bool:
        """Return whether the decompressed stream ends where it did when it was indexed."""
        if self.stored is not None and self.stored.open(self.count - 1):
            return True  # it is stored only if nothing follows it
        if self._ends is None:
            self.decode(file, self.count - 1, self.size_of(self.count - 1))
        return self._ends is not False  # a damaged chunk is reported where it is read

    def file_range(self, file: ByteSource, number: int) -> tuple[int, int]:
        """Return the part of the file that is decoded for a chunk: offset and size."""
        bits, point = self._points.file_bits, self._point_of[number]
        begin = int(bits[point]) // 8
        is_last = point + 1 == len(bits)
        end = file.stamp.size if is_last else int(bits[point + 1]) // 8 + 1
        return begin, end - begin

    def decode(self, file: ByteSource, number: int, size: int) -> Chunk:
        """Decode a chunk.

        Args:
            file: The compressed file, open.
            number: Number of the chunk.
            size: Number of its first bytes that are wanted.

        Raises:
            OSError: If the file cannot be read.
        """
        whole = self.size_of(number)
        if file.descriptor is None or self._has_long_parts:
            size = whole  # the rest would have to be fetched or decoded again
        size = min(whole, -(-size // CHECKED_BYTES) * CHECKED_BYTES)
        data = _core.allocate(size)
        decoded = 0
        damage: TorchRecIOError | None = None
        try:
            with self._decoder_at(file, number) as inflater:
                while decoded < size and (part := inflater.read(size - decoded)):
                    data[decoded : decoded + len(part)] = np.frombuffer(part, np.uint8)
                    decoded += len(part)
                if number + 1 == self.count and decoded == whole:
                    self._ends = _is_at_end(inflater)
        except TorchRecIOError as error:
            damage = _as_damage(error)
        valid, damage = self._check(number, data, decoded, damage)
        return Chunk(data[:valid], damage, data[:decoded])

    @contextlib.contextmanager
    def _decoder_at(self, file: ByteSource, number: int) -> Iterator[Inflater]:
        """Provide a decoder at the start of a chunk."""
        if not self._has_long_parts:
            yield self._start(file, number)
            return
        with self._lock:
            found, self._next = self._next, None
            if found is not None and found[0] == number:
                inflater = found[1]
                inflater.file = file  # the one of the chunk before may be closed
            else:
                inflater = self._start(file, number)
                inflater.skip(self._skipped(number))
            yield inflater
            self._next = number + 1, inflater

    def _start(self, file: ByteSource, number: int) -> Inflater:
        """Return a decoder at the last seek point up to the start of a chunk."""
        offset, stored_bytes = self.file_range(file, number)
        is_remote = file.descriptor is None
        if is_remote and stored_bytes <= _MOST_AT_ONCE_BYTES and not self._has_long_parts:
            file = MemoryFile(file, offset, stored_bytes)
        return Inflater(file, self._compression, self._points.point(int(self._point_of[number])))

    def _skipped(self, number: int) -> int:
        """Return the number of bytes between the last seek point and a chunk."""
        return int(self.starts[number] - self._points.stream_offsets[self._point_of[number]])

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
            Number of bytes that may be read, and the first damage.
        """
        checks = self._checks(number)
        whole = decoded if decoded == len(data) else decoded // CHECKED_BYTES * CHECKED_BYTES
        if len(checks):
            valid = _valid_bytes(data[:whole], checks)
            if valid < whole:
                reason = "the decompressed data does not match its checksum in the index"
                return valid, self._damage(number, valid, reason)
        if decoded < len(data) and damage is None:
            reason = "the decompressed data ends before the indexed end"
            return whole, self._damage(number, whole, reason)
        return (whole if len(checks) else decoded), damage

    def _checks(self, number: int) -> npt.NDArray[np.uint32]:
        """Return the CRC-32 of the parts of a chunk; none if they are unknown."""
        if self._check_bounds is None:
            return self._points.checks[:0]
        begin = int(self._check_bounds[self._point_of[number]])
        begin += self._skipped(number) // CHECKED_BYTES
        return self._points.checks[begin : begin - -self.size_of(number) // CHECKED_BYTES]

    def _damage(self, number: int, at: int, reason: str) -> CorruptRecordError:
        offset = int(self.starts[number]) + at
        return CorruptRecordError(reason, path=self._path, offset=offset)


def _valid_bytes(data: ByteBuffer, checks: npt.NDArray[np.uint32]) -> int:
    """Return the number of bytes before the first part that does not match its checksum."""
    for number, check in enumerate(checks.tolist()):
        begin = number * CHECKED_BYTES
        if isal_zlib.crc32(data[begin : begin + CHECKED_BYTES]) != check:
            return min(begin, len(data))
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
