"""Spans: the parts of a decompressed stream between two seek points."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteBuffer, ByteSource, Ints
from .compression import Compression
from .inflater import Inflater
from .memory_file import MemoryFile
from .seek_points import CHECKED_BYTES, SeekPoints
from .span_cache import SpanCache

if TYPE_CHECKING:
    from .cache.stored_spans import StoredSpans

_CHUNK_BYTES = 1 << 18
# Compressed bytes that are read at once, where each read is expensive.
_MOST_AT_ONCE_BYTES = 64 << 20
# Memory of at least this size is taken from the system, and not from a heap with holes.
_LEAST_MAPPED_BYTES = 1 << 15
# Ranges of a span: offset in the span, and size.
_NO_ROWS = np.empty((0, 2), np.int64)


class _Kept(NamedTuple):
    """The bytes of some ranges of a span.

    Attributes:
        rows: The ranges, ascending; int64 ``[n, 2]``.
        at: Offset of each range in the bytes; int64 ``[n]``.
        data: The bytes.
    """

    rows: Ints
    at: Ints
    data: ByteBuffer


_KEPT_NOTHING = _Kept(_NO_ROWS, np.empty(0, np.int64), np.empty(0, np.uint8))


class Span:
    """The part of a stream between two seek points, as far as it was decoded.

    All attributes are guarded by the lock of the cache; those of the decoder by ``is_busy``.

    Attributes:
        start: Stream offset.
        size: Size in bytes.
        is_busy: True while a thread decodes it.
        damage: The error that ends what can be read, if it was reached.
    """

    def __init__(self, stream: SpannedStream, number: int) -> None:
        self.start = int(stream.starts[number])
        self.size = int(stream.starts[number + 1]) - self.start
        self.is_busy = False
        self.damage: TorchRecIOError | None = None
        self._stream = stream
        self._number = number
        self._data: ByteBuffer | None = None
        self._sound = 0  # bytes of the data that may be read
        self._trusted = 0  # bytes that may be read even if the span is damaged
        self._decoded = 0  # bytes of the data
        self._inflater: Inflater | None = None  # that continues after them
        self._wanted = _NO_ROWS  # ranges that are read soon, ascending
        self._forgotten: list[Ints] = []  # those of them that are not, anymore
        self._kept = _KEPT_NOTHING  # ranges that are read soon, and were kept without the others
        self._readers = 0  # threads that read the data without the lock

    # ---- what is read soon; the lock is held ----

    @property
    def is_wanted(self) -> bool:
        """True if parts of the span are read soon, and must be decoded for that."""
        return len(self._wanted) > 0 and self._data is None

    def want(self, ranges: Ints) -> None:
        """Note ranges that are read soon: int64 ``[n, 2]`` of offset in the span and size."""
        self._wanted = _sorted(np.concatenate([self._take_wanted(), ranges]))

    def forget(self, ranges: Ints) -> None:
        """Take back ranges, because they were read or are not needed."""
        if len(self._wanted):
            self._forgotten.append(ranges)
        if len(self._kept.rows):
            left = ~_are_in(self._kept.rows, ranges)
            self._kept = self._kept._replace(rows=self._kept.rows[left], at=self._kept.at[left])
            if not left.any():
                self._stream.cache.discard(self)
                self._kept = _KEPT_NOTHING

    def _take_wanted(self) -> Ints:
        """Remove and return the ranges that are read soon, without those that were."""
        rows, self._wanted = self._wanted, _NO_ROWS
        if self._forgotten:
            rows = rows[~_are_in(rows, np.concatenate(self._forgotten))]
            self._forgotten.clear()
        return rows

    def evict(self) -> int:
        """Drop the data, except for what is read soon."""
        if self.is_busy and self._data is None:  # it is added again once it is decoded
            return 0
        data, self._data = self._data, None
        sound, self._sound = self._sound, 0
        self._inflater = self.damage = None
        rows, self._kept = self._take_wanted(), _KEPT_NOTHING
        if data is None:
            return 0
        if len(rows) == 0 or rows.sum(axis=1).max() > sound:
            self._recycle(data)
            return 0
        sizes = rows[:, 1]
        at = np.cumsum(sizes) - sizes
        try:
            kept = _allocate(int(sizes.sum()))
        except MemoryError:  # the span is decoded again when it is needed
            return 0
        _core.gather(data, np.column_stack([rows, at]), kept)
        self._recycle(data)
        self._kept = _Kept(rows, at, kept)
        return len(kept)

    def _recycle(self, data: ByteBuffer) -> None:
        # Otherwise a thread may write to it, or read it.
        is_free = not self.is_busy and not self._readers
        if is_free and self.size >= _LEAST_MAPPED_BYTES:
            self._stream.cache.give_spare(data)

    # ---- reading; the lock is held ----

    def lend(self, ranges: Ints) -> tuple[ByteBuffer, Ints] | None:
        """Return memory that has ranges, for reading without the lock until :meth:`take_back`.

        Args:
            ranges: int64 ``[n, 3]``: offset in the span, size, and a number that stays.

        Returns:
            The memory, and the ranges with offsets in it; None if they are not in memory.
        """
        lent = self._find(ranges)
        self._readers += lent is not None
        return lent

    def take_back(self) -> None:
        """Note that memory which was lent is not read anymore."""
        self._readers -= 1

    def _find(self, ranges: Ints) -> tuple[ByteBuffer, Ints] | None:
        if self._data is not None:
            if int((ranges[:, 0] + ranges[:, 1]).max()) > self._sound:
                return None
            self._stream.cache.touch(self)
            return self._data, ranges
        rows, at, kept = self._kept
        found = np.searchsorted(rows[:, 0], ranges[:, 0])
        if found.max() >= len(rows) or (rows[found] != ranges[:, :2]).any():
            return None
        return kept, np.column_stack([at[found], ranges[:, 1:]])

    def available(self, offset: int) -> int:
        """Return the number of bytes that may be read from an offset in the span on."""
        return max(0, self._sound - offset) if self._data is not None else 0

    def unchecked(self) -> ByteBuffer:
        """Return all bytes that were decoded, of which some may be wrong."""
        return np.empty(0, np.uint8) if self._data is None else self._data[: self._decoded].copy()

    def trust(self, end: int) -> None:
        """Allow reading up to an offset in the span, although it is damaged."""
        self._trusted = max(self._trusted, end)
        self._sound = max(self._sound, min(end, self._decoded))

    # ---- decoding; without the lock, by the thread that has made the span busy ----

    def decode(self, file: ByteSource, end: int) -> None:
        """Decode up to an offset in the span at least, or up to damage."""
        lock = self._stream.cache.lock
        stored = self._stream.stored
        with lock:
            wants_all = self.is_wanted or stored is not None
            end = self.size if wants_all else min(self.size, _round_up(end))
            data, decoded, inflater = self._data, self._decoded, self._inflater
            self._stream.cache.add(self, self.size)  # evicts others before memory is taken
            spare = None if data is not None else self._stream.cache.take_spare(self.size)
        if data is None or inflater is None:
            data = _allocate(self.size) if spare is None else spare[: self.size]
            decoded, inflater = 0, None
        sound = decoded
        damage: TorchRecIOError | None = None
        try:
            inflater = inflater or self._stream.start_inflater(file, self._number)
            while sound < end and damage is None:
                part = data[sound : min(self.size, sound + CHECKED_BYTES)]
                for done in _inflate_into(inflater, part):
                    decoded = sound + done
                damage = self._fault(part, decoded - sound, sound)
                sound = decoded if damage is None else sound
        except TorchRecIOError as error:
            damage = _as_damage(error)
            sound = sound if self._checks else decoded
        is_whole = damage is None and decoded == self.size
        if is_whole and inflater is not None:
            self._stream.note_end(self._number, inflater)
        with lock:
            if damage is not None:
                sound = max(sound, min(self._trusted, decoded))
            self._data, self._decoded, self._sound, self.damage = data, decoded, sound, damage
            self._inflater = None if damage is not None or is_whole else inflater
            if inflater is not None and is_whole:
                self._stream.keep_inflater(self._number + 1, inflater)
            # All of these are in the data now.
            self._wanted = _sorted(np.concatenate([self._take_wanted(), self._kept.rows]))
            self._kept = _KEPT_NOTHING
            self._stream.cache.add(self, self.size)
        if stored is not None and is_whole and self._stream.has_sound_end(self._number):
            stored.store(self._number, data)

    @property
    def _checks(self) -> list[int]:
        return self._stream.checks(self._number)

    def _fault(self, part: ByteBuffer, decoded: int, at: int) -> TorchRecIOError | None:
        """Return what is wrong with a part of the span, of which some bytes were decoded."""
        reason = None
        if decoded < len(part):
            reason = "the decompressed data ends before the indexed end"
        elif self._checks and isal_zlib.crc32(part) != self._checks[at // CHECKED_BYTES]:
            reason = "the decompressed data does not match its checksum in the index"
        if reason is None:
            return None
        return CorruptRecordError(reason, path=self._stream.path, offset=self.start + at)


def _as_damage(error: TorchRecIOError) -> TorchRecIOError:
    """Return the error of a file that has its size, but seems to end early."""
    if isinstance(error, TruncatedFileError):
        return CorruptRecordError(error.reason, path=error.path, offset=error.offset)
    return error


def _allocate(size: int) -> ByteBuffer:
    """Return memory that the system gets back when it is not used anymore."""
    if size < _LEAST_MAPPED_BYTES:
        return np.empty(size, np.uint8)
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # fewer page faults: a third of the time
            with contextlib.suppress(OSError):  # the system may lack it
                memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, np.uint8)
    except OSError as error:
        raise MemoryError(f"not enough memory for {size} decompressed bytes") from error


def _round_up(size: int) -> int:
    return -(-size // CHECKED_BYTES) * CHECKED_BYTES


def _inflate_into(inflater: Inflater, part: ByteBuffer) -> Iterator[int]:
    """Fill a buffer as far as the stream goes; yield the number of bytes so far."""
    done = 0
    while done < len(part) and (chunk := inflater.read(min(_CHUNK_BYTES, len(part) - done))):
        part[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
        done += len(chunk)
        yield done


def _sorted(rows: Ints) -> Ints:
    """Return the different ones of some ranges, ascending."""
    # Spans are smaller than 4 GiB, so both numbers fit one.
    keys = np.unique(rows[:, 0] << 32 | rows[:, 1])
    return np.stack((keys >> 32, keys & 0xFFFF_FFFF), axis=1)


def _are_in(rows: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Return which of some ascending ranges are among others."""
    first = np.searchsorted(rows[:, 0], others[:, 0])
    is_there = first < len(rows)
    first, others = first[is_there], others[is_there]
    is_equal = (rows[first] == others).all(axis=1)
    found = np.zeros(len(rows), bool)
    found[first[is_equal]] = True
    return found


class SpannedStream:
    """The spans of the decompressed stream of a file. They stay when the file is closed.

    Args:
        path: Name of the file, for errors.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the stream.
        cache: Cache of the decoded spans.

    Attributes:
        path: Name of the file.
        starts: Stream offset of each span, and the size of the stream; int64 ``[spans + 1]``.
        cache: Cache of the decoded spans.
        stored: Decoded spans on the local disk, if they are kept there.
        spans: The spans.
        has_ended: True if the last span was decoded, and nothing follows it.
    """

    def __init__(
        self,
        path: str,
        compression: Compression,
        points: SeekPoints,
        stream_bytes: int,
        cache: SpanCache,
    ) -> None:
        self.path = path
        self.cache = cache
        self.stored: StoredSpans | None = None
        self.has_ended = False
        self._compression = compression
        self._points = points
        cuts = points.span_starts(stream_bytes)
        self.starts: Ints = np.append(np.concatenate(cuts), stream_bytes)
        # Number of the point of each span, and of the parts with checksums between the two.
        self._point_of = np.repeat(np.arange(len(points)), [len(each) for each in cuts]).tolist()
        self._checks = points.checks_of_spans(stream_bytes)
        self._left: dict[int, Inflater] = {}  # decoders at the start of a span without a point
        self.spans = [Span(self, number) for number in range(len(self._point_of))]

    @property
    def size(self) -> int:
        """Size of the stream."""
        return int(self.starts[-1])

    def checks(self, number: int) -> list[int]:
        """Return the CRC-32 of the parts of a span; none if they are unknown."""
        if self._checks is None:
            return []
        first, size = self._skipped(number), self.starts[number + 1] - self.starts[number]
        parts = -(-int(size) // CHECKED_BYTES)
        begin = first // CHECKED_BYTES
        return self._checks[self._point_of[number]][begin : begin + parts]

    def start_inflater(self, file: ByteSource, number: int) -> Inflater:
        """Return a decoder at the start of a span.

        Raises:
            CorruptRecordError, TruncatedFileError: If the file is damaged before it.
        """
        with self.cache.lock:
            left = self._left.pop(number, None)
        if left is not None:
            return left
        offset, size, _ = self.file_range(file, number)
        if file.descriptor is None and size <= _MOST_AT_ONCE_BYTES:
            file = MemoryFile(file, offset, size)
        inflater = Inflater(file, self._compression, self._points.point(self._point_of[number]))
        skip = self._skipped(number)
        while skip and (data := inflater.read(min(skip, _CHUNK_BYTES))):
            skip -= len(data)
        return inflater

    def keep_inflater(self, number: int, inflater: Inflater) -> None:
        """Keep the decoder at the start of a span if the span has no seek point. With the lock."""
        if number < len(self._point_of) and self._skipped(number):
            self._left.clear()
            self._left[number] = inflater

    def can_start(self, number: int) -> bool:
        """Return whether a span can be decoded without those before it. The lock is held."""
        return number in self._left or not self._skipped(number)

    def is_reached_soon(self, number: int) -> bool:
        """Return whether a thread decodes what is before a span. The lock is held."""
        return not self.can_start(number) and self.spans[number - 1].is_busy

    def note_end(self, number: int, inflater: Inflater) -> None:
        """Find out whether the stream ends after a span that was decoded, if it is the last one."""
        if number + 1 == len(self.spans):
            with contextlib.suppress(TorchRecIOError):  # read again where it matters
                self.has_ended = not inflater.read(1)

    def has_sound_end(self, number: int) -> bool:
        """Return whether nothing unexpected follows a span that was decoded."""
        return self.has_ended or number + 1 < len(self.spans)

    def _skipped(self, number: int) -> int:
        """Return the number of bytes between the last point and a span."""
        return int(self.starts[number] - self._points.stream_offsets[self._point_of[number]])

    def file_range(self, file: ByteSource, number: int) -> tuple[int, int, int]:
        """Return the part of a file that is decoded for a span: offset, size and 0."""
        bits, point = self._points.file_bits, self._point_of[number]
        begin = int(bits[point]) // 8
        is_last = point + 1 == len(bits)
        end = file.stamp.size if is_last else int(bits[point + 1]) // 8 + 1
        return begin, end - begin, 0

    def number_at(self, offset: int) -> int:
        """Return the number of the span around an offset; the last one at the end."""
        number = int(np.searchsorted(self.starts, offset, side="right")) - 1
        return min(number, len(self.spans) - 1)

    def read_damaged(self, offset: int) -> tuple[int, ByteBuffer] | None:
        """Return what was decoded of the span around an offset, if it is damaged.

        Returns:
            Stream offset of the span, and bytes of which some may be wrong; None if no damage is
            known.
        """
        span = self.spans[self.number_at(offset)]
        with self.cache.lock:
            return None if span.damage is None else (span.start, span.unchecked())

    def trust(self, begin: int, end: int) -> None:
        """Allow reading the damaged span that begins at an offset up to another offset."""
        span = self.spans[self.number_at(begin)]
        with self.cache.lock:
            span.trust(end - span.start)

    def close(self) -> None:
        """Drop all decoded bytes."""
        with self.cache.lock:
            for span in self.spans:
                self.cache.discard(span)
