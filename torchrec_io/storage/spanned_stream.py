"""The spans of a decompressed stream, and the decoders that start at them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError
from .byte_source import ByteBuffer, ByteSource, Ints
from .compression import Compression
from .inflater import Inflater
from .memory_file import MemoryFile
from .seek_points import CHECKED_BYTES, SeekPoints
from .span import Span
from .span_cache import SpanCache

if TYPE_CHECKING:
    from .cache.stored_spans import StoredSpans

# Compressed bytes that are read at once, where each read is expensive.
_MOST_AT_ONCE_BYTES = 64 << 20
# Compressed bytes that a decoder holds, and those that it reads besides what it is likely to need.
_MOST_CHUNK_BYTES = 1 << 21
_MORE_BYTES = 1 << 14


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
        count: Number of spans.
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
        starts, self._point_of = points.span_starts(stream_bytes)
        self.starts: Ints = np.append(starts, stream_bytes)
        self.count = len(starts)
        self._check_bounds = points.check_bounds(stream_bytes)
        self._left: dict[int, Inflater] = {}  # decoders at the start of a span without a point
        self._spans: dict[int, Span] = {}  # those that are used

    @property
    def size(self) -> int:
        """Size of the stream."""
        return int(self.starts[-1])

    def checks(self, number: int) -> npt.NDArray[np.uint32]:
        """Return the CRC-32 of the parts of a span; none if they are unknown."""
        if self._check_bounds is None:
            return self._points.checks[:0]
        size = int(self.starts[number + 1] - self.starts[number])
        begin = int(self._check_bounds[self._point_of[number]])
        begin += self._skipped(number) // CHECKED_BYTES
        return self._points.checks[begin : begin - -size // CHECKED_BYTES]

    def span(self, number: int) -> Span:
        """Return a span for use before the lock is released. The lock is held.

        A span that holds nothing is freed, so it may be another object later.
        """
        found = self._spans.get(number)
        return found or self._spans.setdefault(number, Span(self, number))

    def find_span(self, offset: int) -> Span | None:
        """Return the span around an offset if it is used. The lock is held."""
        return self._spans.get(self.number_at(offset))

    def is_wanted(self, number: int) -> bool:
        """Return whether a span must be decoded for what is read soon. The lock is held."""
        return number in self._spans and self._spans[number].is_wanted

    def waits_for_thread(self, number: int) -> bool:
        """Return whether no thread decodes a span that must be decoded. The lock is held."""
        return self.is_wanted(number) and not self._spans[number].is_busy

    def drop_unused(self, span: Span) -> None:
        """Free a span if it holds nothing. The lock is held."""
        if span.is_unused and self._spans.get(span.number) is span:
            del self._spans[span.number]

    @property
    def is_unused(self) -> bool:
        """True if nothing is decoded or read soon."""
        return not self._spans and not self._left

    def start_inflater(
        self, file: ByteSource, number: int, end: int, inflater: Inflater | None = None
    ) -> Inflater:
        """Return a decoder at the start of a span, or one that was kept inside of it.

        Args:
            file: Compressed file.
            number: Number of the span.
            end: Offset in the span up to which it will be decoded.
            inflater: Decoder that was kept inside of the span.

        Raises:
            CorruptRecordError, TruncatedFileError: If the file is damaged before it.
        """
        with self.cache.lock:
            inflater = inflater or self._left.pop(number, None)
        if inflater is not None:
            inflater.attach(file)
            return inflater
        offset, size, _ = self.file_range(file, number)
        # What several spans need, one after the other, is read from the file as it is needed.
        is_one = self._spans_after_point(number) == 1
        if file.descriptor is None and size <= _MOST_AT_ONCE_BYTES and is_one:
            file = MemoryFile(file, offset, size)
        point = self._points.point(int(self._point_of[number]))
        # All that is needed is read at once, since threads wait for each other after each read.
        needed = (self._skipped(number) + end) * size // max(1, self._point_bytes(number))
        chunk_bytes = min(needed + _MORE_BYTES, size + 1, _MOST_CHUNK_BYTES)
        inflater = Inflater(file, self._compression, point, chunk_bytes=chunk_bytes)
        inflater.skip(self._skipped(number))
        return inflater

    def keep_inflater(self, number: int, inflater: Inflater) -> None:
        """Keep the decoder at the start of a span if the span has no seek point. With the lock."""
        if number < self.count and self._skipped(number):
            self._left.clear()
            self._left[number] = inflater

    def begins_at_point(self, number: int) -> bool:
        """Return whether a span begins at a seek point, or none does because it is the end."""
        return number == self.count or not self._skipped(number)

    def can_start(self, number: int) -> bool:
        """Return whether a span can be decoded without those before it. The lock is held."""
        return number in self._left or not self._skipped(number)

    def is_reached_soon(self, number: int) -> bool:
        """Return whether a thread decodes what is before a span. The lock is held."""
        before = self._spans.get(number - 1)
        return before is not None and before.is_busy and not self.can_start(number)

    def note_end(self, number: int, inflater: Inflater) -> None:
        """Find out whether the stream ends after a span that was decoded, if it is the last one."""
        if number + 1 == self.count:
            with contextlib.suppress(TorchRecIOError):  # read again where it matters
                self.has_ended = not inflater.read_into(np.empty(1, np.uint8))

    def has_sound_end(self, number: int) -> bool:
        """Return whether nothing unexpected follows a span that was decoded."""
        return self.has_ended or number + 1 < self.count

    def _spans_after_point(self, number: int) -> int:
        """Return the number of spans that are decoded from the same point as a span."""
        first, last = np.searchsorted(self._point_of, self._point_of[number] + np.array([0, 1]))
        return int(last - first)

    def _point_bytes(self, number: int) -> int:
        """Return the number of bytes of the stream between the points around a span."""
        offsets, point = self._points.stream_offsets, self._point_of[number]
        end = self.size if point + 1 == len(offsets) else offsets[point + 1]
        return int(end - offsets[point])

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
        return min(number, self.count - 1)

    def read_damaged(self, offset: int) -> tuple[int, ByteBuffer] | None:
        """Return what was decoded of the span around an offset, if it is damaged.

        Returns:
            Stream offset of the span, and bytes of which some may be wrong; None if no damage is
            known.
        """
        with self.cache.lock:
            span = self._spans.get(self.number_at(offset))
            has_damage = span is not None and span.damage is not None
            return (span.start, span.unchecked()) if span is not None and has_damage else None

    def trust(self, begin: int, end: int) -> None:
        """Allow reading the damaged span that begins at an offset up to another offset."""
        with self.cache.lock:
            span = self.span(self.number_at(begin))
            span.trust(end - span.start)

    def close(self) -> None:
        """Drop all decoded bytes."""
        with self.cache.lock:
            for span in self._spans.values():
                self.cache.discard(span)
