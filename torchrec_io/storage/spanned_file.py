"""Random access to the decompressed content of a file that has seek points."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from .. import _core
from ..errors import TorchRecIOError
from .byte_source import ByteBuffer, ByteSource, Ints, Loan
from .span import Span
from .spanned_stream import SpannedStream

# Spans of remote objects that are fetched ahead of the one that is decoded.
_MOST_FETCHED_AHEAD = 8
_MOST_SOON = 1 << 12
# Spans that are lent stay in memory: those around this many bytes at most.
_MOST_LENT_BYTES = 16 << 20

# Number of a span, and ranges in it.
_Part: TypeAlias = tuple[int, Ints]


class _Lent(NamedTuple):
    """Memory of a span that is read without the lock.

    Attributes:
        span: The span.
        ranges: Ranges in it.
        memory: Memory that has them.
        places: The ranges, with offsets in the memory.
    """

    span: Span
    ranges: Ints
    memory: ByteBuffer
    places: Ints


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
        self._fetched: set[int] = set()  # those that were announced to the file

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

    @property
    def lends(self) -> bool:
        return self._stream.stored is None

    def begin_lending(self, ranges: Ints) -> Callable[[], Loan | None]:
        return lambda: self._lend(ranges)

    def _lend(self, ranges: Ints) -> Loan | None:
        end = int((ranges[:, 0] + ranges[:, 1]).max())
        if end > self.size or end - int(ranges[:, 0].min()) > _MOST_LENT_BYTES:
            return None
        lent: list[_Lent] = []
        try:
            is_there = len(ranges) == 1 and self._borrow_range(ranges, lent)
            missing = [] if is_there else [*self._split(ranges)]
            while missing := self._borrow(missing, lent):
                number, parts = missing[0]
                damage = self._wait_for(number, parts)
                if damage is not None:
                    raise damage
        except BaseException:
            self._give_back(lent)
            raise
        pieces = [(each.memory, each.places) for each in lent]
        return Loan(pieces, lambda: self._give_back(lent))

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
        self._drop_fetched()

    def find_size(self, progress: object = None) -> tuple[int, TorchRecIOError | None]:
        del progress
        return self.size, None

    def file_bytes_read(self, offset: int) -> int:
        return self._stream.file_range(self._file, self._stream.number_at(offset))[0]

    def begin_epoch(self) -> None:
        self._file.begin_epoch()

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
        while self._copy([(number, ranges)], out):
            if self._read_stored(number, ranges, out):
                return None
            damage = self._wait_for(number, ranges)
            if damage is not None:
                return damage
        return None

    def _wait_for(self, number: int, ranges: Ints) -> TorchRecIOError | None:
        """Do something so that ranges of a span come into memory, or wait for a thread that does.

        Returns:
            The damage before the end of them, if any.
        """
        end = int((ranges[:, 0] + ranges[:, 1]).max())
        cache = self._stream.cache
        try:
            with cache.lock:
                span = self._stream.span(number)
                if span.has(ranges):
                    return None
                if span.damage is not None:
                    return span.damage
                decode = self._claim(number, end)
                if decode is None:
                    cache.lock.wait()
                    return None
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
        """Copy one range to a buffer if :meth:`_borrow_range` finds it; return whether it does."""
        lent: list[_Lent] = []
        try:
            if not self._borrow_range(ranges, lent):
                return False
            target = int(ranges[0, 2])
            memory = lent[0].memory
            out[target : target + len(memory)] = memory
        finally:
            self._give_back(lent)
        return True

    def _borrow_range(self, ranges: Ints, lent: list[_Lent]) -> bool:
        """Borrow one range if it is in memory, in one whole span; return whether it is.

        Batches in the stored order have one range each, for which arrays take longer than copying.
        """
        [(offset, size, target)] = ranges.tolist()
        with self._stream.cache.lock:
            span = self._stream.find_span(offset)
            data = None if span is None else span.find_range(offset - span.start, size)
            if span is None or data is None:
                return False
            part = np.array([(offset - span.start, size)])
            lent.append(_Lent(span, part, data, np.array([(0, size, target)])))
            span.readers += 1
        return True

    def _copy(self, parts: Iterable[_Part], out: ByteBuffer) -> list[_Part]:
        """Copy ranges of spans to a buffer if they are in memory; return those that are not."""
        lent: list[_Lent] = []
        try:
            missing = self._borrow(parts, lent)
            for each in lent:
                _core.gather(each.memory, each.places, out)
        finally:
            self._give_back(lent)
        return missing

    def _borrow(self, parts: Iterable[_Part], lent: list[_Lent]) -> list[_Part]:
        """Borrow ranges of spans that are in memory; return those that are not.

        Until they are given back, they may be read without the lock.
        """
        missing: list[_Part] = []
        with self._stream.cache.lock:
            for number, ranges in parts:
                span = self._stream.span(number)
                found = span.find(ranges)
                if found is None:
                    missing.append((number, ranges))
                else:
                    lent.append(_Lent(span, ranges, *found))
                    span.readers += 1
        return missing

    def _give_back(self, lent: list[_Lent]) -> None:
        with self._stream.cache.lock:
            while lent:
                span, ranges, _, _ = lent.pop()
                span.readers -= 1
                span.forget(ranges[:, :2])

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
            # What a thread is decoding was fetched before.
            waiting = (each for each in self._soon if self._stream.waits_for_thread(each))
            soon = [*itertools.islice(waiting, _MOST_FETCHED_AHEAD)]
        if soon:
            self._file.will_need(np.array(self._file_ranges(soon), np.int64))
        # Meanwhile another thread may have decoded or forgotten some.
        self._drop_fetched(soon)

    def _drop_fetched(self, announced: Iterable[int] = ()) -> None:
        """Take back what was announced for spans that no thread will decode."""
        with self._stream.cache.lock:
            fetched = self._fetched.union(announced)
            self._fetched = kept = {*filter(self._stream.is_wanted, fetched)}
            dropped = fetched - kept
        # Several spans may be decoded from the same part of the file.
        ranges = {*self._file_ranges(dropped)} - {*self._file_ranges(kept)}
        if ranges:
            self._file.will_not_need(np.array([*ranges], np.int64))

    def _file_ranges(self, numbers: Iterable[int]) -> list[tuple[int, int, int]]:
        return [self._stream.file_range(self._file, number) for number in numbers]

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
