"""The damaged parts of a file, as a row of cells."""

from __future__ import annotations

from .scanned_block import ScannedBlock

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

    def mark_gaps(self, block: ScannedBlock, file_bytes_read: int | None) -> None:
        """Mark the gaps of a block.

        Args:
            block: Block of records.
            file_bytes_read: Number of bytes of the file that were read before this block, if it is
                compressed: a gap is marked about where it is stored. None for other files.
        """
        for gap in block.gaps:
            bounds = (gap.offset, gap.offset + gap.size)
            if file_bytes_read is not None:
                content, size = block.content, max(len(block.content), 1)
                scale = (block.file_bytes_read - file_bytes_read) / size
                inside = (min(max(at - content.start, 0), size) for at in bounds)
                begin, end = (file_bytes_read + int(at * scale) for at in inside)
                bounds = (begin, end)
            self.mark(*bounds)

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
