"""Fetching of ranges of objects ahead of their use, in bounded memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from .areas import Areas
from .connection import Ticket
from .failures import Failure
from .messages import FetchReport, ObjectInfo
from .parts import Part, PartsOfObject, Span, join_ranges

# The largest request. Larger ranges take several, which run at the same time.
MOST_PART_BYTES = 8 << 20
# Announced ranges may take this much of the memory, so that there is room for others.
_MOST_AHEAD = 0.75
# What was announced this long ago, and is still not read, will not be.
_STALE_SECONDS = 60.0
_SECONDS_BETWEEN_TRIES = 0.05
# Bounds of the gap across which neighbors are joined.
_LEAST_GAP, _MOST_GAP = 1 << 12, 1 << 20
_FIRST_WAIT, _FIRST_RATE = 0.01, 50e6  # assumed until measured
_LEAST_MEASURED = 1 << 18  # smaller answers do not show a rate


class Client(Protocol):
    """Carries out requests; see :class:`HelperConnection`."""

    memory: ByteBuffer

    def new_ticket(self) -> Ticket: ...
    def send(self, messages: Any) -> None: ...
    def ask(self, name: str, *arguments: Any) -> Any: ...
    def wait(self, tickets: Any) -> None: ...
    def has_failed(self) -> bool: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


class OpenObject(NamedTuple):
    """An object of a store, as it was when it was opened.

    Attributes:
        store: Number of the store, in the client.
        pin: The object; all reads are of exactly this one.
    """

    store: int
    pin: ObjectInfo


class KnownStore(NamedTuple):
    """A store that the client knows.

    Attributes:
        number: Its number.
        tried: Credentials that requests have, in words.
    """

    number: int
    tried: str


class FetchError(Exception):
    """A request failed for good.

    Attributes:
        failure: Why.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class RequestCost:
    """The measured cost of requests and of bytes."""

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._rate = _FIRST_RATE

    def add(self, size: int, report: FetchReport) -> None:
        """Add what a request of some bytes took."""
        self._wait += (report.wait - self._wait) / 16
        if size >= _LEAST_MEASURED and report.transfer > 0:
            self._rate += (size / report.transfer - self._rate) / 16

    @property
    def gap(self) -> int:
        """Largest number of bytes that are worth reading to save a request.

        Requests wait at the same time, and bytes share the network: a request costs less than the
        time of its answer.
        """
        return int(min(_MOST_GAP, max(_LEAST_GAP, self._wait * self._rate / 8)))


class Fetcher:
    """Fetches ranges of objects. Safe to use from several threads; of no use after a fork.

    Announced ranges are fetched ahead as far as there is memory. Reads take what was fetched, and
    fetch the rest. Each byte is fetched once for all that announced it.

    Args:
        client: Carries out the requests.

    Attributes:
        client: Carries out the requests.
        pid: Process that this is for.
        stores: Stores that the client knows, by their address and options.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.pid = os.getpid()
        self.stores: dict[tuple[str, str], KnownStore] = {}
        self._memory = client.memory
        self._areas = Areas(len(self._memory))
        self._part_bytes = max(1, min(MOST_PART_BYTES, len(self._memory) // 8))
        self._most_ahead = int(len(self._memory) * _MOST_AHEAD)
        self._lock = threading.Lock()
        self._objects: dict[OpenObject, PartsOfObject] = {}
        self._cancelled: list[Part] = []  # their areas may still be written
        self._cost = RequestCost()

    @property
    def bytes_in_memory(self) -> int:
        """Number of bytes that are in memory, or are being fetched."""
        return self._areas.used

    @property
    def most_ahead(self) -> int:
        """Number of bytes that are worth announcing."""
        return self._most_ahead

    # ---- announcing ----

    def announce(self, target: OpenObject, ranges: Ints, *, is_urgent: bool = False) -> None:
        """Start to fetch ranges, as far as there is memory.

        Args:
            target: The object.
            ranges: int64 ``[n, 3]``: offset and size, in the order in which they are needed.
            is_urgent: Whether somebody waits for them.
        """
        with self._lock, self._sending() as messages:
            parts = self._objects.setdefault(target, PartsOfObject())
            for span in join_ranges(ranges, self._cost.gap):
                for piece in parts.missing(span):
                    if not self._fetch(target, parts, piece, messages, is_urgent=is_urgent):
                        break
            for offset, size, _ in ranges.tolist():
                span = Span(offset, offset + size)
                for part in parts.overlapping(span):
                    part.wanted.add(span)

    def forget(self, target: OpenObject, ranges: Ints) -> None:
        """Drop ranges that were announced, and are not needed anymore."""
        with self._lock, self._sending() as messages:
            parts = self._objects.get(target, PartsOfObject())
            for offset, size, _ in ranges.tolist():
                span = Span(offset, offset + size)
                for part in parts.overlapping(span):
                    part.wanted.discard(span)
                    if not part.wanted and not part.readers:
                        self._drop(parts, part, messages)

    # ---- reading ----

    def read(self, target: OpenObject, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges that lie inside the object.

        Args:
            target: The object.
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.

        Raises:
            FetchError: If a request failed for good.
            HelperError: If the client has ended.
        """
        held: list[Part] = []
        copies: list[tuple[int, int, int]] = []
        try:
            for offset, size, goal in ranges.tolist():
                at, end = offset, offset + size
                while at < end:
                    part = self._hold(target, Span(at, end))
                    if part is None:  # no memory: use what is there, and give it back
                        self._copy(target, held, copies, out)
                        continue
                    held.append(part)
                    taken = min(end, part.end) - at
                    copies.append((part.target + at - part.begin, taken, goal + at - offset))
                    at += taken
            if held:
                self._copy(target, held, copies, out)
            self.forget(target, ranges)
        finally:
            self._release(target, held)

    def _hold(self, target: OpenObject, span: Span) -> Part | None:
        """Return the part that has the first byte of a span, fetched if necessary.

        Returns:
            None if there is no memory now.
        """
        with self._lock, self._sending() as messages:
            parts = self._objects.setdefault(target, PartsOfObject())
            part = parts.at(span.begin)
            if part is None:
                piece = next(parts.missing(span))
                self._fetch(target, parts, piece, messages, is_urgent=True)
                part = parts.at(span.begin)
            if part is not None:
                part.readers += 1
                if part.is_ahead and not part.ticket.is_done:
                    part.is_ahead = False
                    messages.append(("hurry", [part.ticket.number]))
            return part

    def _copy(
        self,
        target: OpenObject,
        held: list[Part],
        copies: list[tuple[int, int, int]],
        out: ByteBuffer,
    ) -> None:
        """Wait for parts, copy them to a buffer, and give them back."""
        if not held:
            self._wait_for_memory()
            return
        waiting = [part for part in held if not part.ticket.is_done]
        self.client.wait([part.ticket for part in waiting])
        for part in held:
            result = part.ticket.result
            if isinstance(result, Failure):
                raise FetchError(result)
        for part in waiting:
            self._cost.add(part.size, part.ticket.result)
        _core.gather(self._memory, np.array(copies, np.int64), out)
        self._release(target, held)
        copies.clear()

    def _release(self, target: OpenObject, held: list[Part]) -> None:
        with self._lock, self._sending() as messages:
            parts = self._objects.get(target, PartsOfObject())
            for part in held:
                part.readers -= 1
                has_failed = part.ticket.is_done and isinstance(part.ticket.result, Failure)
                if not part.readers and (not part.wanted or has_failed):
                    self._drop(parts, part, messages)
            held.clear()

    # ---- memory ----

    def _fetch(
        self,
        target: OpenObject,
        parts: PartsOfObject,
        piece: Span,
        messages: list[tuple[Any, ...]],
        *,
        is_urgent: bool,
    ) -> bool:
        """Request a piece of an object in parts; return whether there was memory for all."""
        for begin in range(piece.begin, piece.end, self._part_bytes):
            span = Span(begin, min(piece.end, begin + self._part_bytes))
            size = span.end - span.begin
            if not is_urgent and self._areas.used + size > self._most_ahead:
                return False
            start = self._take_area(size, messages)
            if start is None:
                return False
            part = Part(span, start, self.client.new_ticket(), is_ahead=not is_urgent)
            parts.add(part)
            request = (part.ticket.number, *target, span.begin, size, start, is_urgent)
            messages.append(("fetch", *request))
        return True

    def _take_area(self, size: int, messages: list[tuple[Any, ...]]) -> int | None:
        start = self._areas.take(size)
        if start is None:
            self._drop_cancelled()
            start = self._areas.take(size)
        if start is None and self._evict_stale(messages):
            start = self._areas.take(size)
        return start

    def _drop(self, parts: PartsOfObject, part: Part, messages: list[tuple[Any, ...]]) -> None:
        """Remove a part that nobody reads, and free its area once it is not written anymore."""
        parts.remove(part)
        if part.ticket.is_done:
            self._areas.give_back(part.target, part.size)
        else:
            self._cancelled.append(part)
            messages.append(("cancel", [part.ticket.number]))

    def _drop_cancelled(self) -> None:
        waiting = [part for part in self._cancelled if not part.ticket.is_done]
        for part in self._cancelled:
            if part.ticket.is_done:
                self._areas.give_back(part.target, part.size)
        self._cancelled = waiting

    def _evict_stale(self, messages: list[tuple[Any, ...]]) -> bool:
        """Drop announced parts that were not read for long; return whether there were any."""
        before = time.monotonic() - _STALE_SECONDS
        return self._evict(lambda part: part.announced < before, messages) > 0

    def _evict(self, is_dropped: Any, messages: list[tuple[Any, ...]]) -> int:
        count = 0
        for parts in list(self._objects.values()):
            for part in list(parts):
                if not part.readers and is_dropped(part):
                    self._drop(parts, part, messages)
                    count += 1
        return count

    def _wait_for_memory(self) -> None:
        """Make room for a part: drop what is needed last, or wait for others to end."""
        with self._lock, self._sending() as messages:
            idle = [part for parts in self._objects.values() for part in parts if not part.readers]
            if idle:
                # Half of them, so that this is rare.
                idle.sort(key=lambda part: part.announced)
                dropped = set(map(id, idle[len(idle) // 2 :]))
                self._evict(lambda part: id(part) in dropped, messages)
            cancelled = [part.ticket for part in self._cancelled]
        if cancelled:
            self.client.wait(cancelled[:1])
            with self._lock:
                self._drop_cancelled()
        elif not idle:
            time.sleep(_SECONDS_BETWEEN_TRIES)  # other threads hold all of it, for as long

    @contextmanager
    def _sending(self) -> Iterator[list[tuple[Any, ...]]]:
        """Send the messages that a block of code has put into a list."""
        messages: list[tuple[Any, ...]] = []
        try:
            yield messages
        finally:
            if messages:
                self.client.send(messages)
