"""Slots of a memory, one for each request that is under way."""

from __future__ import annotations

import bisect
import threading

MOST_REQUESTS = 64  # at the same time


class Slots:
    """Assigns slots of a memory. Low addresses come first, so that little of it is ever touched.

    Safe to use from several threads.

    Args:
        size: Size of the memory in bytes.

    Attributes:
        limit: Largest size of all slots that are in use, in bytes. A slot that is larger is alone.
        used: Size of all slots that are in use, in bytes.
    """

    def __init__(self, size: int) -> None:
        self.limit = size
        self.used = 0
        self._count = 0
        self._size = size
        self._free = [(0, size)]  # where free areas begin and end; ascending
        self._has_room = threading.Condition()

    def resize(self, limit: int) -> None:
        """Change the limit. A larger one adds memory at the end."""
        with self._has_room:
            if limit > self._size:
                self._add(self._size, limit)
                self._size = limit
            self.limit = limit
            self._has_room.notify_all()

    def take(self, size: int, *, is_waiting: bool) -> int | None:
        """Return the start of a slot that is taken.

        Args:
            size: Size of the slot in bytes.
            is_waiting: Whether to wait for memory. Otherwise None is returned if there is none.
        """
        with self._has_room:
            while (start := self._find(size)) is None and is_waiting:
                self._has_room.wait()
            return start

    def give_back(self, start: int, size: int) -> None:
        """Free a slot."""
        with self._has_room:
            self._add(start, start + size)
            self.used -= size
            self._count -= 1
            self._has_room.notify_all()

    def _find(self, size: int) -> int | None:
        if self.used and (self._count >= MOST_REQUESTS or self.used + size > self.limit):
            return None
        for position, (begin, end) in enumerate(self._free):
            if end - begin >= size:
                self._free[position] = (begin + size, end)
                self.used += size
                self._count += 1
                return begin
        return None

    def _add(self, start: int, stop: int) -> None:
        """Add a free area, and join those that touch."""
        bisect.insort(self._free, (start, stop))
        joined: list[tuple[int, int]] = []
        for begin, end in self._free:
            if joined and joined[-1][1] == begin:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((begin, end))
        self._free = joined
