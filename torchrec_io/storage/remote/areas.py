"""Areas of a memory of fixed size."""

from __future__ import annotations

import bisect


class Areas:
    """Assigns areas of a memory. Low addresses come first, so that little of it is ever touched.

    Args:
        size: Size of the memory in bytes.

    Attributes:
        used: Size of all assigned areas, in bytes.
    """

    def __init__(self, size: int) -> None:
        self.used = 0
        self._size = size
        # Start and size of each free area; ascending, and no two of them touch.
        self._starts = [0]
        self._sizes = [size]

    def grow(self, size: int) -> None:
        """Add memory at the end."""
        added = size - self._size
        self.used += added
        self.give_back(self._size, added)
        self._size = size

    def take(self, size: int) -> int | None:
        """Return the start of an area that is taken; None if no free area is large enough."""
        for position, free in enumerate(self._sizes):
            if free < size:
                continue
            start = self._starts[position]
            if free == size:
                del self._starts[position], self._sizes[position]
            else:
                self._starts[position] += size
                self._sizes[position] -= size
            self.used += size
            return start
        return None

    def give_back(self, start: int, size: int) -> None:
        """Free an area."""
        self.used -= size
        after = bisect.bisect(self._starts, start)
        if after < len(self._starts) and start + size == self._starts[after]:
            size += self._sizes[after]
            del self._starts[after], self._sizes[after]
        if after and self._starts[after - 1] + self._sizes[after - 1] == start:
            self._sizes[after - 1] += size
        else:
            self._starts.insert(after, start)
            self._sizes.insert(after, size)
