"""Parts of objects that are in memory, or are being fetched."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..byte_source import Ints
from .client import Ticket
from .failures import Failure


class Span(NamedTuple):
    """Consecutive bytes of an object.

    Attributes:
        begin: First byte.
        end: Byte after the last one.
    """

    begin: int
    end: int


class Part:
    """Consecutive bytes of an object, in an area of the memory.

    Args:
        span: The bytes.
        target: Start of the area.
        request: The request that fetches them.

    Attributes:
        request: The request that fetches them.
        wanted: Ranges that were announced, and not read yet.
        readers: Number of reads that wait for the part or copy it.
        announced: When it was requested, by the clock of :func:`time.monotonic`.
    """

    __slots__ = ("announced", "begin", "end", "readers", "request", "target", "wanted")

    def __init__(self, span: Span, target: int, request: Request) -> None:
        self.begin, self.end = span
        self.target = target
        self.request = request
        self.wanted: set[Span] = set()
        self.readers = 0
        self.announced = time.monotonic()

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.begin

    @property
    def has_failed(self) -> bool:
        """True if its request has failed for good."""
        return self.ticket.is_done and isinstance(self.ticket.result, Failure)

    @property
    def ticket(self) -> Ticket:
        """The ticket of the request, once it is made."""
        return self.request.ticket


class Request:
    """A request for bytes of an object, some of which become parts.

    Args:
        spans: The bytes of each part, ascending.
        target: Start of the area of the first part; those of the others follow it.
        is_ahead: True if no read waits for a part yet.

    Attributes:
        ticket: Its ticket, once it is made.
        begin: First byte.
        size: Size in bytes, with those between the parts.
        parts: The parts.
        needed: Number of parts that were not dropped.
        is_ahead: True until a read waits for one of the parts.
    """

    __slots__ = ("begin", "is_ahead", "needed", "parts", "size", "ticket")

    ticket: Ticket

    def __init__(self, spans: Sequence[Span], target: int, *, is_ahead: bool) -> None:
        self.begin = spans[0].begin
        self.size = spans[-1].end - self.begin
        self.is_ahead = is_ahead
        self.parts: list[Part] = []
        for span in spans:
            self.parts.append(Part(span, target, self))
            target += span.end - span.begin
        self.needed = len(self.parts)

    @property
    def pieces(self) -> list[tuple[int, int, int]]:
        """Of each part: its offset in the request, its size, and the start of its area."""
        return [(part.begin - self.begin, part.size, part.target) for part in self.parts]


class PartsOfObject:
    """The parts of one object. No two of them overlap.

    Attributes:
        failed: Parts that were dropped after their requests had failed.
    """

    def __init__(self) -> None:
        self.failed: list[Part] = []
        self._begins: list[int] = []
        self._parts: list[Part] = []

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Part]:
        return iter(self._parts)

    def add(self, part: Part) -> None:
        """Add a part."""
        position = bisect.bisect(self._begins, part.begin)
        self._begins.insert(position, part.begin)
        self._parts.insert(position, part)

    def remove(self, part: Part) -> None:
        """Remove a part, if it is there."""
        position = bisect.bisect_left(self._begins, part.begin)
        if position < len(self._parts) and self._parts[position] is part:
            del self._begins[position], self._parts[position]

    def at(self, offset: int) -> Part | None:
        """Return the part that has a byte."""
        position = bisect.bisect(self._begins, offset) - 1
        if position < 0 or self._parts[position].end <= offset:
            return None
        return self._parts[position]

    def has(self, begin: int, end: int) -> bool:
        """Return whether one part has all bytes from ``begin`` to ``end``."""
        part = self.at(begin)
        return part is not None and end <= part.end

    def overlapping(self, span: Span) -> list[Part]:
        """Return the parts that have some bytes of a span, in their order."""
        first = max(0, bisect.bisect(self._begins, span.begin) - 1)
        last = bisect.bisect_left(self._begins, span.end)
        return [part for part in self._parts[first:last] if part.end > span.begin]

    def failed_at(self, span: Span) -> Part | None:
        """Return a part that failed, and has some bytes of a span."""
        for part in self.failed:
            if part.begin < span.end and span.begin < part.end:
                return part
        return None

    def missing(self, span: Span) -> Iterator[Span]:
        """Yield the pieces of a span that no part has."""
        at = span.begin
        for part in self.overlapping(span):
            if part.begin > at:
                yield Span(at, part.begin)
            at = part.end
        if at < span.end:
            yield Span(at, span.end)


def join_ranges(ranges: Ints, gap: int) -> list[Span]:
    """Return spans that cover ranges, in the order in which they are first needed.

    Args:
        ranges: int64 ``[n, 3]``: offset and size, in the order in which they are needed.
        gap: Ranges with at most this many bytes between them are joined.
    """
    ranges = ranges[ranges[:, 1] > 0]
    if not len(ranges):
        return []
    order = np.argsort(ranges[:, 0], kind="stable")
    begins = ranges[order, 0]
    ends = np.maximum.accumulate(begins + ranges[order, 1])
    firsts = np.flatnonzero(np.append(True, begins[1:] > ends[:-1] + gap))
    needed = np.minimum.reduceat(order, firsts)
    lasts = np.append(firsts[1:], len(order)) - 1
    spans = zip(begins[firsts].tolist(), ends[lasts].tolist(), strict=True)
    return [span for _, span in sorted(zip(needed.tolist(), map(Span._make, spans), strict=True))]


def group_spans(spans: Sequence[Span], gap: int, most: int) -> list[list[Span]]:
    """Return the spans that one request fetches, in the order in which they are first needed.

    Args:
        spans: Spans that do not overlap, in the order in which they are needed.
        gap: Spans with at most this many bytes between them are fetched by one request.
        most: Largest size of a request with several spans, in bytes.
    """
    groups: list[tuple[int, list[Span]]] = []  # each with the number of its first span
    for number, span in sorted(enumerate(spans), key=lambda each: each[1]):
        if groups:
            first, group = groups[-1]
            if span.begin - group[-1].end <= gap and span.end - group[0].begin <= most:
                group.append(span)
                groups[-1] = min(first, number), group
                continue
        groups.append((number, [span]))
    return [group for _, group in sorted(groups)]
