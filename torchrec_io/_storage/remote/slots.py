"""Slots of a memory, one for each request that is under way."""

from __future__ import annotations

import threading

MOST_REQUESTS = 64  # at the same time
_UNIT_BYTES = 1 << 17


class Slots:
    """Assigns slots of a memory. Low addresses come first, so that little of it is ever touched.

    A slot has whole units of 128 KiB. Safe to use from several threads.

    Args:
        size: Size of the memory in bytes.

    Attributes:
        count: Number of slots that are used.
    """

    def __init__(self, size: int) -> None:
        self._units = bytearray(size // _UNIT_BYTES)  # 1 for each unit that is used
        self.count = 0
        self._has_room = threading.Condition()

    def grow(self, size: int) -> None:
        """Add memory at the end."""
        with self._has_room:
            self._units.extend(bytes(size // _UNIT_BYTES - len(self._units)))
            self._has_room.notify_all()

    def take(self, size: int, *, is_waiting: bool) -> int | None:
        """Return the start of a slot that is taken.

        Args:
            size: Size of the slot in bytes.
            is_waiting: Whether to wait for memory. Otherwise None is returned if there is none.
        """
        units = -(-size // _UNIT_BYTES)
        with self._has_room:
            while (first := self._find(units)) < 0:
                if not is_waiting:
                    return None
                self._has_room.wait()
            self._units[first : first + units] = b"\1" * units
            self.count += 1
            return first * _UNIT_BYTES

    def free(self, start: int, size: int) -> None:
        """Free a slot."""
        first, units = start // _UNIT_BYTES, -(-size // _UNIT_BYTES)
        with self._has_room:
            self._units[first : first + units] = bytes(units)
            self.count -= 1
            self._has_room.notify_all()

    def _find(self, units: int) -> int:
        """Return the first of some free units; -1 if there are none."""
        return -1 if self.count >= MOST_REQUESTS else self._units.find(bytes(units))
