"""The damaged parts of a file, as a row of cells."""

from __future__ import annotations

import numpy as np

from .scanned_block import ScannedBlock

_CELLS = 1024


class DamageMap:
    """The damaged parts of a file of a known size, to one part in 1,024.

    Args:
        size: Size of the file in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, 1)
        self._cells = np.zeros(_CELLS, np.bool_)

    def mark(self, begin: int, end: int) -> None:
        """Mark the bytes from ``begin`` to ``end`` as damaged, and at least one of them."""
        begin = min(max(begin, 0), self._size - 1)
        end = min(max(end, begin + 1), self._size)
        self._cells[begin * _CELLS // self._size : -(-end * _CELLS // self._size)] = True

    def mark_gaps(self, block: ScannedBlock, file_bytes_read: int | None) -> None:
        """Mark the gaps of a block.

        Args:
            block: Block of records.
            file_bytes_read: Number of bytes of the file that were read before this block, if it is
                compressed: a gap is marked about where it is stored. None for other files.
        """
        for gap in block.gaps:
            begin, end = gap.offset, gap.offset + gap.size
            if file_bytes_read is not None:
                content = (block.content.start, block.content.stop)
                stored = (file_bytes_read, block.file_bytes_read)
                begin, end = map(int, np.interp((begin, end), content, stored))
            self.mark(begin, end)

    def cells(self, width: int) -> list[bool]:
        """Return ``width`` cells; True where any byte is damaged."""
        bounds = [
            (_CELLS * cell // width, -(-_CELLS * (cell + 1) // width)) for cell in range(width)
        ]
        return [bool(self._cells[begin:end].any()) for begin, end in bounds]
