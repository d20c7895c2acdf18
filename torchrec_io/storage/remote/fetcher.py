"""Fetching of ranges of objects, in bounded memory."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from ..cache.folder import log_trouble
from .areas import Areas
from .client import Client, KnownStore, OpenObject, Ticket
from .failures import Failure

# The largest request. Larger ranges take several, which run at the same time.
MOST_PART_BYTES = 8 << 20
# Neighbors with at most this many bytes between them are read by one request. Requests wait at the
# same time, and bytes share the network: so a request costs less than the time of its answer.
_GAP_BYTES = 1 << 19
# Ranges with at most this many bytes between them are kept as one piece: that takes some memory,
# and more pieces would take more time.
_KEPT_GAP_BYTES = 1 << 12


class FetchError(Exception):
    """A request failed for good.

    Attributes:
        failure: Why.
        begin: First byte that was requested.
        end: Byte after the last one.
    """

    def __init__(self, failure: Failure, begin: int, end: int) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.begin = begin
        self.end = end


class _Request(NamedTuple):
    """A request for consecutive bytes of an object, of which some are kept.

    Attributes:
        begin: First byte.
        size: Size in bytes.
        pieces: What is kept: offset in the request, size, and offset in its area; int64 ``[n, 3]``.
        copies: What is copied: offset in its area, size, and offset in the buffer of the reader;
            int64 ``[m, 3]``.
    """

    begin: int
    size: int
    pieces: Ints
    copies: Ints

    @property
    def kept_bytes(self) -> int:
        """Size of the area that it needs."""
        return int(self.pieces[:, 1].sum())


class _Running(NamedTuple):
    """A request that was sent.

    Attributes:
        request: The request.
        area: Offset of its area in the memory.
        ticket: Its ticket.
    """

    request: _Request
    area: int
    ticket: Ticket


class Fetcher:
    """Fetches ranges of objects. Safe to use from several threads, but not after a fork.

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
        self.pid = os.getpid()
        self.stores: dict[tuple[str, str], KnownStore] = {}
        self._store_numbers = itertools.count()
        self._memory = client.memory
        self._areas = Areas(len(self._memory))
        self._has_room = threading.Condition()
        self._cancelled: list[_Running] = []  # their areas may still be written
        self.set_limit(len(self._memory))

    @property
    def bytes_in_memory(self) -> int:
        """Number of bytes that are in memory, or are being fetched."""
        return self._areas.used

    def set_limit(self, limit: int) -> None:
        """Change the number of bytes that may be in memory, or be fetched.

        Raises:
            HelperError: If the client has ended.
        """
        with self._has_room:
            if limit > len(self._memory):
                self.client.grow(limit)
                self._memory = self.client.memory
                self._areas.grow(limit)
            self.limit = limit
            self._part_bytes = max(1, min(MOST_PART_BYTES, limit // 8))
            self._has_room.notify_all()

    def new_store_number(self) -> int:
        """Return a number that no store has had."""
        return next(self._store_numbers)

    def read(self, target: OpenObject, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges that lie inside the object.

        Neighbors are fetched by one request where that costs less than several.

        Args:
            target: The object.
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.

        Raises:
            FetchError: If a request failed for good.
            HelperError: If the client has ended.
        """
        requests = deque(_requests(target, ranges, self._part_bytes))
        running: deque[_Running] = deque()
        try:
            while requests or running:
                while requests and self._send(target, requests[0], running):
                    requests.popleft()
                self._finish(target, running[0], out)
                self._give_back([running.popleft()])
        except BaseException:
            self._cancel(running)
            raise

    def _send(self, target: OpenObject, request: _Request, running: deque[_Running]) -> bool:
        """Send a request if there is memory for it; return whether there is.

        A reader that has no memory waits for some.
        """
        size = request.kept_bytes
        with self._has_room:
            while (area := self._take(size)) is None:
                if running:
                    return False
                self._wait_for_room()
            # In this order, so that an interrupt does not lose the area.
            running.append(_Running(request, area, self.client.new_ticket()))
        pieces = [(at, kept, area + begin) for at, kept, begin in request.pieces.tolist()]
        what = (request.begin, request.size, pieces)
        self.client.send([("fetch", running[-1].ticket.number, *target, *what)])
        return True

    def _finish(self, target: OpenObject, running: _Running, out: ByteBuffer) -> None:
        """Wait for a request, and copy what it has fetched."""
        request, area, ticket = running
        self.client.wait([ticket])
        if isinstance(ticket.result, Failure):
            raise FetchError(ticket.result, request.begin, request.begin + request.size)
        if ticket.result and target.blocks is not None:
            log_trouble(target.blocks.directory, ticket.result)
        _core.gather(self._memory[area : area + request.kept_bytes], request.copies, out)

    # ---- memory ----

    def _take(self, size: int) -> int | None:
        """Return an area; None if there is none now. A request that is larger than all is alone."""
        self._drop_cancelled()
        if self._areas.used and self._areas.used + size > self.limit:
            return None
        return self._areas.take(size)

    def _wait_for_room(self) -> None:
        if self._cancelled:
            self.client.wait([self._cancelled[0].ticket])
        else:
            self._has_room.wait()

    def _give_back(self, ended: Iterable[_Running]) -> None:
        with self._has_room:
            for running in ended:
                self._areas.give_back(running.area, running.request.kept_bytes)
            self._has_room.notify_all()

    def _cancel(self, running: Iterable[_Running]) -> None:
        """End requests. Their areas are free once they are not written anymore."""
        with self._has_room:
            self._cancelled += running
            self._has_room.notify_all()
        numbers = [each.ticket.number for each in running if not each.ticket.is_done]
        if numbers and not self.client.has_failed():
            self.client.send([("cancel", numbers)])

    def _drop_cancelled(self) -> None:
        waiting = [each for each in self._cancelled if not each.ticket.is_done]
        for each in self._cancelled:
            if each.ticket.is_done:
                self._areas.give_back(each.area, each.request.kept_bytes)
        self._cancelled = waiting


def _requests(target: OpenObject, ranges: Ints, most: int) -> list[_Request]:
    """Return the requests that fetch ranges of an object, in the order of its bytes.

    Args:
        target: The object. With a cache, whole blocks are fetched.
        ranges: int64 ``[n, 3]``: offset, size, and offset in a buffer.
        most: Largest size of a request in bytes.
    """
    ranges = ranges[ranges[:, 1] > 0]
    if not len(ranges):
        return []
    begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
    gap = _GAP_BYTES
    if target.blocks is not None:
        size, gap = target.blocks.block_bytes, 0
        begins = begins // size * size
        ends = np.minimum(-(-ends // size) * size, target.blocks.size)
        most = max(1, most // size) * size
    pieces = _split(_joined(begins, ends, _KEPT_GAP_BYTES if gap else 0), most)
    groups = _grouped(pieces, gap, most)
    copies = _copies(pieces, ranges)
    requests = []
    for first, last in groups:
        begin, end = int(pieces[first, 0]), int(pieces[last - 1, 1])
        sizes = pieces[first:last, 1] - pieces[first:last, 0]
        places = np.cumsum(sizes) - sizes
        kept = np.column_stack([pieces[first:last, 0] - begin, sizes, places])
        own = copies[(copies[:, 0] >= first) & (copies[:, 0] < last)]
        own_places = places[own[:, 0] - first] + own[:, 1]
        rows = np.column_stack([own_places, own[:, 2:]])
        requests.append(_Request(begin, end - begin, kept, rows))
    return requests


def _joined(begins: Ints, ends: Ints, gap: int) -> Ints:
    """Return where ascending pieces begin and end that cover ranges; int64 ``[n, 2]``."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    firsts = np.flatnonzero(np.append(True, begins[1:] > ends[:-1] + gap))
    lasts = np.append(firsts[1:], len(order)) - 1
    return np.column_stack([begins[firsts], ends[lasts]])


def _split(pieces: Ints, most: int) -> Ints:
    """Return pieces, those larger than a size in parts."""
    counts = -(-(pieces[:, 1] - pieces[:, 0]) // most)
    rows = np.repeat(np.arange(len(pieces)), counts)
    part = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    begins = pieces[rows, 0] + part * most
    return np.column_stack([begins, np.minimum(begins + most, pieces[rows, 1])])


def _grouped(pieces: Ints, gap: int, most: int) -> list[tuple[int, int]]:
    """Return which pieces one request fetches: numbers of the first, and of the one after."""
    groups: list[tuple[int, int]] = []
    first = 0
    for number, (begin, end) in enumerate(pieces.tolist()):
        if number > first:
            is_near = begin - int(pieces[number - 1, 1]) <= gap
            if not is_near or end - int(pieces[first, 0]) > most:
                groups.append((first, number))
                first = number
    return [*groups, (first, len(pieces))]


def _copies(pieces: Ints, ranges: Ints) -> Ints:
    """Return what of each range is in which piece.

    Returns:
        int64 ``[n, 4]``: number of the piece, offset in it, size, and offset in the buffer.
    """
    begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
    first = np.searchsorted(pieces[:, 0], begins, side="right") - 1
    last = np.searchsorted(pieces[:, 0], ends, side="left") - 1
    counts = last - first + 1
    rows = np.repeat(np.arange(len(ranges)), counts)
    numbers = first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    starts = np.maximum(pieces[numbers, 0], begins[rows])
    sizes = np.minimum(pieces[numbers, 1], ends[rows]) - starts
    targets = ranges[rows, 2] + starts - begins[rows]
    return np.column_stack([numbers, starts - pieces[numbers, 0], sizes, targets])
