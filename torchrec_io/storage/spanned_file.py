"""Random access to the decompressed content of a file that has seek points."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from .. import _core
from ..errors import TorchRecIOError
from .byte_source import ByteBuffer, ByteSource, Ints
from .span import Span
from .spanned_stream import SpannedStream

# Spans of remote objects that are fetched ahead of the one that is decoded.
_MOST_FETCHED_AHEAD = 8
_MOST_SOON = 1 << 12

# Number of a span, and ranges in it.
_Part: TypeAlias = tuple[int, Ints]


class SpannedFile(ByteSource):
    """The decompressed stream of a file that has seek points, readable at any offset.

    Threads that need a span which another thread decodes decode others meanwhile that are read
    soon. So all threads of a dataset decode at the same time.

    Args:
        file: Compressed file.
        stream: Its spans.
    """

    def __init__(self, file: ByteSource, stream: SpannedStream) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.file_watch = file.file_watch
        self.is_pinned = file.is_pinned
        self._file = file
        self._stream = stream
        self._soon: deque[int] = deque(maxlen=_MOST_SOON)  # to be fetched, if the file is remote

    @property
    def size(self) -> int:
        return self._stream.size

    def read_into(self, offset: int, out: memoryview) -> int:
        got, damage = self.read_before_damage(offset, out)
        if damage is not None:
            raise damage
        return got

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        if offset >= self.size:
            return self._read_past_end(offset, out)
        size = min(len(out), self.size - offset)
        buffer = np.frombuffer(out, np.uint8)
        for number, ranges in self._split(np.array([(offset, size, 0)], np.int64)):
            damage = self._read_span(number, ranges, buffer)
            if damage is not None:
                begin, size, target = ranges[0].tolist()
                with self._stream.cache.lock:
                    got = min(self._stream.span(number).available(begin), size)
                is_there = got and not self._copy(
                    [(number, np.array([(begin, got, target)]))], buffer
                )
                return target + (got if is_there else 0), damage
        return size, None

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        if len(ranges) == 1 and self._copy_range(ranges, out):
            return None
        is_outside = ranges[:, 0] + ranges[:, 1] > self.size
        if is_outside.any():
            return int(is_outside.argmax())
        if len(ranges) == 0:
            return None
        for number, parts in self._copy(self._split(ranges), out):
            damage = self._read_span(number, parts, out)
            if damage is not None:
                raise damage
        return None

    def will_need(self, ranges: Ints, *, is_scattered: bool = False) -> None:
        del is_scattered  # whole spans are decoded
        stream = self._stream
        with stream.cache.lock:
            for number, parts in self._split(ranges):
                stream.span(number).want(parts[:, :2])
                stream.cache.soon.append(functools.partial(_claim, weakref.ref(self), number))
                self._soon.append(number)
        self._fetch_ahead()

    def will_not_need(self, ranges: Ints) -> None:
        stream = self._stream
        with stream.cache.lock:
            for number, parts in self._split(ranges):
                stream.span(number).forget(parts[:, :2])

    def find_size(self, progress: object = None) -> tuple[int, TorchRecIOError | None]:
        del progress
        return self.size, None

    def file_bytes_read(self, offset: int) -> int:
        return self._stream.file_range(self._file, self._stream.number_at(offset))[0]

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    # ---- spans ----

    def _split(self, ranges: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the numbers of spans, and the parts of ranges in them, as offsets in the span.

        Spans come in the order of the first range in each.
        """
        starts = self._stream.starts
        begins = ranges[:, 0]
        ends = begins + ranges[:, 1]
        first = np.minimum(starts.searchsorted(begins, side="right"), self._stream.count) - 1
        if (ends <= starts[first + 1]).all() and (first[1:] >= first[:-1]).all():
            cuts = [0, *((first[1:] != first[:-1]).nonzero()[0] + 1).tolist(), len(first)]
            for at, to in itertools.pairwise(cuts):
                number = int(first[at])
                parts = ranges[at:to].copy()
                parts[:, 0] -= starts[number]
                yield number, parts
            return
        last = np.maximum(np.searchsorted(starts, ends, side="left") - 1, first)
        counts = last - first + 1
        rows = np.repeat(np.arange(len(ranges)), counts)
        numbers = first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        begins = np.maximum(starts[numbers], ranges[rows, 0])
        sizes = np.minimum(starts[numbers + 1], ends[rows]) - begins
        targets = ranges[rows, 2] + begins - ranges[rows, 0]
        parts = np.column_stack([begins - starts[numbers], sizes, targets])
        order = np.argsort(numbers, kind="stable")
        bounds = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        groups = np.split(order, bounds[1:])
        for group in sorted((each for each in groups if len(each)), key=lambda each: int(each[0])):
            yield int(numbers[group[0]]), parts[group]

    def _read_span(self, number: int, ranges: Ints, out: ByteBuffer) -> TorchRecIOError | None:
        """Copy ranges of a span to a buffer; return the damage before the end of them, if any."""
        end = int((ranges[:, 0] + ranges[:, 1]).max())
        cache = self._stream.cache
        while self._copy([(number, ranges)], out):
            if self._read_stored(number, ranges, out):
                return None
            try:
                with cache.lock:
                    span = self._stream.span(number)
                    if span.has(ranges):
                        continue
                    if span.damage is not None:
                        return span.damage
                    decode = self._claim(number, end)
                    if decode is None:
                        cache.lock.wait()
                        continue
                decode()
            finally:
                cache.release()  # after an interrupt
        return None

    def _read_stored(self, number: int, ranges: Ints, out: ByteBuffer) -> bool:
        """Copy ranges of a span to a buffer if it is on the local disk; return whether it is."""
        stored = self._stream.stored
        if stored is None or not stored.read(number, ranges, out):
            return False
        with self._stream.cache.lock:
            self._stream.span(number).forget(ranges[:, :2])
        return True

    def _copy_range(self, ranges: Ints, out: ByteBuffer) -> bool:
        """Copy one range to a buffer if it is in memory, in one whole span; return whether it is.

        Batches in the stored order have one range each, for which arrays take longer than copying.
        """
        [(offset, size, target)] = ranges.tolist()
        cache = self._stream.cache
        reader = None
        try:
            with cache.lock:
                span = self._stream.find_span(offset)
                data = None if span is None else span.find_range(offset - span.start, size)
                if span is None or data is None:
                    return False
                reader = span
                reader.readers += 1
            out[target : target + size] = data
        finally:
            if reader is not None:
                with cache.lock:
                    reader.readers -= 1
                    reader.forget(np.array([(offset - reader.start, size)]))
        return True

    def _copy(self, parts: Iterable[_Part], out: ByteBuffer) -> list[_Part]:
        """Copy ranges of spans to a buffer if they are in memory; return those that are not."""
        lent: list[tuple[Span, Ints, ByteBuffer, Ints]] = []
        missing: list[_Part] = []
        cache = self._stream.cache
        try:
            with cache.lock:
                for number, ranges in parts:
                    span = self._stream.span(number)
                    found = span.find(ranges)
                    if found is None:
                        missing.append((number, ranges))
                    else:
                        lent.append((span, ranges, *found))
                        span.readers += 1
            for _, _, memory, places in lent:  # which other threads may use meanwhile
                _core.gather(memory, places, out)
        finally:
            with cache.lock:
                for span, ranges, _, _ in lent:
                    span.readers -= 1
                    span.forget(ranges[:, :2])
        return missing

    def _claim(self, number: int, end: int) -> Callable[[], None] | None:
        """Return work for this thread: the span that it needs, or one that is read soon."""
        span = self._stream.span(number)
        if not span.is_busy and not self._stream.is_reached_soon(number):
            self._stream.cache.claim(span)
            return lambda: self._decode(span, end)
        soon = self._stream.cache.soon
        while soon:
            decode = soon.popleft()()
            if decode is not None:
                return functools.partial(_try, decode)
        return None

    def claim_soon(self, number: int) -> Callable[[], None] | None:
        """Return the function that decodes a span, unless that is not needed anymore."""
        stream = self._stream
        if not stream.is_wanted(number) or not stream.can_start(number):
            return None
        span = stream.span(number)
        if span.is_busy:
            return None
        if stream.stored is not None and stream.stored.has(number):
            return None
        stream.cache.claim(span)
        return lambda: self._decode(span, 0)  # up to the end of what is read soon

    def _decode(self, span: Span, end: int) -> None:
        """Decode a span, unless another thread or process has stored it meanwhile."""
        stored = self._stream.stored
        try:
            if stored is None or not stored.has(span.number):
                span.decode(self._file, end)
        finally:
            self._stream.cache.release()
        self._fetch_ahead()

    def _fetch_ahead(self) -> None:
        """Fetch the compressed bytes of spans that are read soon, if the file is remote."""
        if self._file.descriptor is not None:
            return
        with self._stream.cache.lock:
            while self._soon and not self._stream.is_wanted(self._soon[0]):
                self._soon.popleft()
            soon = [*itertools.islice(self._soon, _MOST_FETCHED_AHEAD)]
        ranges = [self._stream.file_range(self._file, number) for number in soon]
        if ranges:
            self._file.will_need(np.array(ranges, np.int64))

    def _read_past_end(self, offset: int, out: memoryview) -> tuple[int, TorchRecIOError | None]:
        """Return what follows the end of the stream as it was indexed."""
        stream = self._stream
        number = stream.count - 1
        # A last span is stored only if nothing follows it.
        if not out or stream.has_ended or (stream.stored is not None and stream.stored.has(number)):
            return 0, None
        inflater = stream.start_inflater(self._file, number, self.size)
        try:
            inflater.skip(offset - int(stream.starts[number]))
            return inflater.read_into(np.frombuffer(out, np.uint8)), None
        except TorchRecIOError as damage:
            return 0, damage


def _claim(file: weakref.ref[SpannedFile], number: int) -> Callable[[], None] | None:
    """Claim a span of a file, unless that was closed."""
    opened = file()
    return None if opened is None else opened.claim_soon(number)


def _try(decode: Callable[[], None]) -> None:
    """Decode a span ahead. If that fails, the thread that reads the span tries again."""
    with contextlib.suppress(OSError, MemoryError):
        decode()
