"""Fetching of ranges of objects ahead of their use, in bounded memory."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from ..cache.filling import log_trouble
from .areas import Areas
from .client import Client, KnownStore, OpenObject
from .failures import Failure
from .parts import Part, PartsOfObject, Request, Span, group_spans, join_ranges

# The largest request. Larger ranges take several, which run at the same time.
MOST_PART_BYTES = 8 << 20
_FIRST_PART_BYTES = 1 << 20
# Neighbors with at most this many bytes between them are read by one request. Requests wait at the
# same time, and bytes share the network: so a request costs less than the time of its answer.
_GAP_BYTES = 1 << 18
# Ranges with at most this many bytes between them are kept as one part: that takes some memory, and
# more parts would take more time.
_KEPT_GAP_BYTES = 1 << 12
# Announced ranges may take this much of the memory, so that there is room for others.
_MOST_AHEAD = 0.75
# Announced ranges that are not read after this time are dropped.
_STALE_SECONDS = 60.0
_SECONDS_BETWEEN_TRIES = 0.05


class Piece(NamedTuple):
    """The rest of a range that is read.

    Attributes:
        whole: The range.
        at: First byte of the rest.
        goal: Offset of that in the buffer.
    """

    whole: Span
    at: int
    goal: int


class HeldPart(NamedTuple):
    """A part that a read waits for, or copies.

    Attributes:
        part: The part.
        whole: The range that is read.
        at: First byte of it that is taken from this part.
        goal: Offset of that in the buffer.
    """

    part: Part
    whole: Span
    at: int
    goal: int

    def copy(self) -> tuple[int, int, int]:
        """Return what is to be copied: offset in the memory, size, and offset in the buffer."""
        size = min(self.whole.end, self.part.end) - self.at
        return self.part.target + self.at - self.part.begin, size, self.goal


class FetchError(Exception):
    """A request failed for good.

    Attributes:
        failure: Why.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Fetcher:
    """Fetches ranges of objects. Safe to use from several threads, but not after a fork.

    Announced ranges are fetched ahead as far as there is memory. Reads take what was fetched, and
    fetch the rest. Each byte is fetched once for all that announced it.

    Args:
        client: Carries out the requests.
        environment: Number of the environment that the client was made in.

    Attributes:
        client: Carries out the requests.
        environment: Number of the environment that the client was made in.
        pid: Process that this is for.
        stores: Stores that the client knows, by their address and options.
        limit: Largest number of bytes in memory.
    """

    limit: int

    def __init__(self, client: Client, environment: int = 0) -> None:
        self.client = client
        self.environment = environment
        self._store_numbers = itertools.count()
        self.pid = os.getpid()
        self.stores: dict[tuple[str, str], KnownStore] = {}
        self._memory = client.memory
        self._areas = Areas(len(self._memory))
        self._set_limit(len(self._memory))
        self._lock = threading.Lock()
        self._objects: dict[OpenObject, PartsOfObject] = {}
        self._forgotten: deque[tuple[OpenObject, Ints]] = deque()  # appended to without the lock
        self._cancelled: list[Part] = []  # their areas may still be written
        self._next_sweep = 0.0

    @property
    def bytes_in_memory(self) -> int:
        """Number of bytes that are in memory, or are being fetched."""
        return self._areas.used

    def set_limit(self, limit: int) -> None:
        """Change the number of bytes that may be in memory, or be fetched.

        Raises:
            HelperError: If the client has ended.
        """
        with self._lock:
            if limit > len(self._memory):
                self.client.grow(limit)
                self._memory = self.client.memory
                self._areas.grow(limit)
            self._set_limit(limit)

    def _set_limit(self, limit: int) -> None:
        self.limit = limit
        self._part_bytes = max(1, min(MOST_PART_BYTES, limit // 8))
        self._most_ahead = int(limit * _MOST_AHEAD)

    def new_store_number(self) -> int:
        """Return a number that no store has had."""
        return next(self._store_numbers)

    # ---- announcing ----

    def announce(
        self,
        target: OpenObject,
        ranges: Ints,
        *,
        is_urgent: bool = False,
    ) -> None:
        """Start to fetch ranges, as far as there is memory.

        Neighbors are fetched by one request where that costs less than several.

        Args:
            target: The object.
            ranges: int64 ``[n, 3]``: offset and size, in the order in which they are needed.
            is_urgent: Whether a read waits for them.
        """
        with self._lock, self._sending() as messages:
            self._forget_dropped(messages)
            parts = self._objects.setdefault(target, PartsOfObject())
            if parts.failed:
                ranges = _without_failed(parts, ranges, is_urgent=is_urgent)
            if is_urgent and all(
                parts.has(begin, begin + size) for begin, size, _ in ranges.tolist()
            ):
                return  # the read hurries what is on its way
            new: list[Request] = []
            spans = self._spans(target, ranges)
            missing = [piece for span in spans for piece in parts.missing(span)]
            # A cache takes whole ranges.
            gap = _GAP_BYTES if target.blocks is None else 0
            for group in group_spans(missing, gap, self._part_bytes):
                if not self._add_requests(target, group, new, messages, is_urgent=is_urgent):
                    break
            hurried: list[int] = []
            for offset, size, _ in ranges[ranges[:, 1] > 0].tolist():
                wanted = Span(offset, offset + size)
                for part in parts.overlapping(wanted):
                    part.wanted.add(wanted)
                    if is_urgent and part.request.is_ahead:
                        part.request.is_ahead = False
                        hurried.append(part.ticket.number)
            self._send_requests(target, parts, new, messages)
            if hurried:
                messages.append(("hurry", hurried))

    def _spans(self, target: OpenObject, ranges: Ints) -> list[Span]:
        """Return the bytes that are kept for some ranges, in the order of need."""
        ranges = ranges[ranges[:, 1] > 0]
        if target.blocks is None:
            return join_ranges(ranges, _KEPT_GAP_BYTES)
        size = target.blocks.block_bytes
        begins = ranges[:, 0] // size * size
        ends = -(-(ranges[:, 0] + ranges[:, 1]) // size) * size
        ends = np.minimum(ends, target.blocks.size)
        return join_ranges(np.column_stack((begins, ends - begins)), _GAP_BYTES)

    def forget_later(self, target: OpenObject, ranges: Ints) -> None:
        """Do :meth:`forget` with the next request. May be called where garbage is collected."""
        self._forgotten.append((target, ranges))

    def forget(self, target: OpenObject, ranges: Ints) -> None:
        """Drop ranges that were announced, and are not needed anymore."""
        with self._lock, self._sending() as messages:
            self._forget(target, ranges, messages)

    def _forget_dropped(self, messages: list[tuple[Any, ...]]) -> None:
        while self._forgotten:
            self._forget(*self._forgotten.popleft(), messages)

    def _forget(self, target: OpenObject, ranges: Ints, messages: list[tuple[Any, ...]]) -> None:
        parts = self._objects.get(target, PartsOfObject())
        for offset, size, _ in ranges.tolist():
            span = Span(offset, offset + size)
            for part in parts.overlapping(span):
                part.wanted.discard(span)
                if not part.wanted and not part.readers:
                    self._drop(parts, part, messages)

    def ask_again(self, target: OpenObject, *, drops_announced: bool = False) -> None:
        """Forget which requests have failed. Until then, reads of the same bytes fail, too.

        Args:
            target: The object.
            drops_announced: Whether announced ranges that no read has waited for count, too.
        """
        with self._lock, self._sending() as messages:
            parts = self._objects.get(target)
            if parts is None:
                return
            for part in list(parts) if drops_announced else ():
                if part.has_failed and not part.readers:
                    self._drop(parts, part, messages)
            parts.failed.clear()

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
        pieces = _pieces_of(ranges)
        held: list[HeldPart] = []
        try:
            while pieces:
                self._hold(target, pieces, held)
                self._copy(target, held, out)  # if there is no memory, gives back what was held
        except BaseException:
            self._release(target, held)
            self.forget(target, ranges)
            raise

    def _hold(self, target: OpenObject, pieces: deque[Piece], held: list[HeldPart]) -> None:
        """Hold the parts that have some pieces, as far as there is memory, and remove these.

        Parts that are not there are requested, but not again if that failed.

        Raises:
            FetchError: If the first piece has failed. Those before a failed one are held.
        """
        with self._lock, self._sending() as messages:
            self._forget_dropped(messages)
            parts = self._objects.setdefault(target, PartsOfObject())
            while pieces:
                whole, at, goal = pieces[0]
                part = parts.at(at)
                failed = parts.failed_at(Span(at, whole.end)) if part is None else None
                if failed is not None and not held:
                    raise FetchError(failed.ticket.result)
                if part is None and failed is None:
                    part = self._fetch_now(target, parts, pieces[0], messages)
                if part is None:
                    return
                part.readers += 1
                if part.request.is_ahead and not part.ticket.is_done:
                    part.request.is_ahead = False
                    messages.append(("hurry", [part.ticket.number]))
                pieces.popleft()
                held.append(HeldPart(part, whole, at, goal))
                if part.end < whole.end:
                    pieces.appendleft(Piece(whole, part.end, goal + part.end - at))

    def _fetch_now(
        self,
        target: OpenObject,
        parts: PartsOfObject,
        piece: Piece,
        messages: list[tuple[Any, ...]],
    ) -> Part | None:
        """Request what follows the start of a piece, which no part has; return its first part.

        Returns:
            None if there is no memory now.
        """
        new: list[Request] = []
        rest = np.array([(piece.at, piece.whole.end - piece.at)], np.int64)
        missing = next(parts.missing(self._spans(target, rest)[0]))
        self._add_requests(target, [missing], new, messages, is_urgent=True)
        for request in new:
            for part in request.parts:
                part.wanted.add(piece.whole)
        self._send_requests(target, parts, new, messages)
        return parts.at(piece.at)

    def _copy(self, target: OpenObject, held: list[HeldPart], out: ByteBuffer) -> None:
        """Wait for parts, copy them to a buffer, and give them back."""
        if not held:
            self._wait_for_memory()
            return
        self._wait_for(target, held)
        _core.gather(self._memory, np.array([each.copy() for each in held], np.int64), out)
        self._release(target, held)

    def _wait_for(self, target: OpenObject, held: list[HeldPart]) -> None:
        """Wait for parts.

        Raises:
            FetchError: If a request failed for good.
        """
        self.client.wait([each.part.ticket for each in held])
        for each in held:
            trouble: str | Failure = each.part.ticket.result
            if isinstance(trouble, Failure):
                raise FetchError(trouble)
            if trouble and target.blocks is not None:
                log_trouble(target.blocks.directory, trouble)

    def _release(self, target: OpenObject, held: list[HeldPart]) -> None:
        """Give back parts that were read."""
        with self._lock, self._sending() as messages:
            parts = self._objects.get(target, PartsOfObject())
            for part, whole, _, _ in held:
                part.readers -= 1
                part.wanted.discard(whole)
                if not part.readers and (not part.wanted or part.has_failed):
                    self._drop(parts, part, messages)
            held.clear()

    # ---- memory ----

    def _add_requests(
        self,
        target: OpenObject,
        group: Sequence[Span],
        new: list[Request],
        messages: list[tuple[Any, ...]],
        *,
        is_urgent: bool,
    ) -> bool:
        """Add requests for spans of an object; return whether there was memory for all.

        Args:
            target: The object.
            group: The spans; if there are several, they fit one request.
            new: The requests are added to these.
            messages: Messages to the client.
            is_urgent: Whether a read waits for the spans.
        """

        def add(spans: Sequence[Span]) -> bool:
            return self._add_request(target, spans, new, messages, is_urgent=is_urgent)

        if len(group) > 1:
            # There may be memory for each, and none for all in one place.
            return add(group) or all(add([span]) for span in group)
        [piece] = group
        begin = piece.begin
        # Where little is in memory, the first bytes of a large range are needed soon: small parts
        # of it come first. A range that fits into one request, such as a block of a shuffle, costs
        # one.
        is_large = piece.end - piece.begin > self._part_bytes
        while begin < piece.end:
            most = self._part_bytes
            if is_large:
                most = min(most, max(_FIRST_PART_BYTES, self._areas.used))
            if target.blocks is not None:
                most = max(1, most // target.blocks.block_bytes) * target.blocks.block_bytes
            end = min(piece.end, begin + most)
            if not add([Span(begin, end)]):
                return False
            begin = end
        return True

    def _add_request(
        self,
        target: OpenObject,
        spans: Sequence[Span],
        new: list[Request],
        messages: list[tuple[Any, ...]],
        *,
        is_urgent: bool,
    ) -> bool:
        """Add a request and its parts, if there is memory for them; return whether there is."""
        size = sum(span.end - span.begin for span in spans)
        if not is_urgent and not self._has_room_ahead(size, messages):
            return False
        start = self._take_area(size, messages)
        if start is None:
            return False
        request = Request(spans, start, is_ahead=not is_urgent)
        for part in request.parts:
            self._objects[target].add(part)
        new.append(request)
        return True

    def _send_requests(
        self,
        target: OpenObject,
        parts: PartsOfObject,
        new: list[Request],
        messages: list[tuple[Any, ...]],
    ) -> None:
        """Send new requests, except those for what lies in a gap between what is wanted."""
        for request in new:
            if any(part.wanted for part in request.parts):
                request.ticket = self.client.new_ticket()
                what = (request.begin, request.size, request.pieces)
                messages.append(
                    ("fetch", request.ticket.number, *target, *what, not request.is_ahead)
                )
                continue
            for part in request.parts:
                parts.remove(part)
                self._areas.give_back(part.target, part.size)

    def _has_room_ahead(self, size: int, messages: list[tuple[Any, ...]]) -> bool:
        if self._areas.used + size <= self._most_ahead:
            return True
        self._evict_stale(messages)
        return self._areas.used + size <= self._most_ahead

    def _take_area(self, size: int, messages: list[tuple[Any, ...]]) -> int | None:
        start = self._free_area(size)
        if start is None:
            self._drop_cancelled()
            start = self._free_area(size)
        if start is None:
            self._evict_stale(messages)
            start = self._free_area(size)
        return start

    def _free_area(self, size: int) -> int | None:
        return self._areas.take(size) if self._areas.used + size <= self.limit else None

    def _drop(self, parts: PartsOfObject, part: Part, messages: list[tuple[Any, ...]]) -> None:
        """Remove a part that no read uses. Its area is free once no request writes to it."""
        parts.remove(part)
        if part.ticket.is_done:
            self._areas.give_back(part.target, part.size)
            if part.has_failed:
                parts.failed.append(part)
            return
        self._cancelled.append(part)
        part.request.needed -= 1
        if not part.request.needed:
            messages.append(("cancel", [part.ticket.number]))

    def _drop_cancelled(self) -> None:
        waiting = [part for part in self._cancelled if not part.ticket.is_done]
        for part in self._cancelled:
            if part.ticket.is_done:
                self._areas.give_back(part.target, part.size)
        self._cancelled = waiting

    def _evict_stale(self, messages: list[tuple[Any, ...]]) -> None:
        """Drop announced parts that were not read for long. Most calls do nothing."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + _STALE_SECONDS / 10
        self._evict(lambda part: part.announced < now - _STALE_SECONDS, messages)

    def _evict(self, is_dropped: Callable[[Part], bool], messages: list[tuple[Any, ...]]) -> None:
        for parts in list(self._objects.values()):
            for part in list(parts):
                if not part.readers and is_dropped(part):
                    self._drop(parts, part, messages)

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


def _without_failed(parts: PartsOfObject, ranges: Ints, *, is_urgent: bool) -> Ints:
    """Return the ranges whose requests have not failed; for a read, those before the first."""
    spans = [Span(offset, offset + size) for offset, size, _ in ranges.tolist()]
    kept = [number for number, span in enumerate(spans) if parts.failed_at(span) is None]
    if is_urgent:
        kept = [number for at, number in enumerate(kept) if number == at]
    return ranges[np.array(kept, np.int64)]


def _pieces_of(ranges: Ints) -> deque[Piece]:
    """Return ranges that are read, without those that have no bytes."""
    return deque(
        Piece(Span(offset, offset + size), offset, goal)
        for offset, size, goal in ranges.tolist()
        if size > 0
    )
