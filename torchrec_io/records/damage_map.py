"""The damaged parts of a file, as a row of cells."""

from __future__ import annotations

_CELLS = 1024


class DamageMap:
    """The damaged parts of a file of a known size, to one part in 1,024.

    Args:
        size: Size of the file in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, 1)
        self._cells = bytearray(_CELLS)

    def mark(self, begin: int, end: int) -> None:
        """Mark the bytes from ``begin`` to ``end`` as damaged, and at least one of them."""
        begin = min(max(begin, 0), self._size - 1)
        end = min(max(end, begin + 1), self._size)
        first = begin * _CELLS // self._size
        last = (end * _CELLS - 1) // self._size
        self._cells[first : last + 1] = b"\1" * (last + 1 - first)

    def mark_content(self, begin: int, end: int, content: range, stored: range) -> None:
        """Mark bytes of a part of the content, about where they are stored.

        Args:
            begin: Offset of the first byte in the content.
            end: Offset of the end in the content.
            content: Offsets of the part in the content.
            stored: Offsets in the file from which this part was decompressed; the same as
                ``content`` if the file is not compressed.
        """
        scale = len(stored) / max(len(content), 1)
        first, last = (
            stored.start + int(min(max(at - content.start, 0), len(content)) * scale)
            for at in (begin, end)
        )
        self.mark(first, last)

    def add(self, other: DamageMap) -> None:
        """Mark what another map of the same file marks."""
        self._cells = bytearray(a | b for a, b in zip(self._cells, other._cells, strict=True))

    def cells(self, width: int) -> list[bool]:
        """Return ``width`` cells; True where any byte is damaged."""
        marks = [False] * width
        for cell, is_damaged in enumerate(self._cells):
            if is_damaged:
                first = cell * width // _CELLS
                last = ((cell + 1) * width - 1) // _CELLS
                marks[first : last + 1] = [True] * (last + 1 - first)
        return marks
