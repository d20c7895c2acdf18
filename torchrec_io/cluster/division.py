"""Division of the records of indexed files into parts of about equal size in bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .._records.formats import TFRECORD
from .._records.index import RecordIndex
from .._storage.byte_source import Ints
from .file_piece import FilePiece


class DividedRecords:
    """Consecutive records of indexed files, which are divided into parts.

    Args:
        indexes: Index of each file.
        begin: Number of the first record in the dataset.
        end: Number after the last record. Default: that of all records.

    Attributes:
        size: Size of the records with their frames in bytes, decompressed.
    """

    def __init__(
        self, indexes: Sequence[RecordIndex], begin: int = 0, end: int | None = None
    ) -> None:
        self._indexes = indexes
        self._bases: list[int] = np.cumsum([0, *map(len, indexes)]).tolist()
        self._begin = begin
        self._end = self._bases[-1] if end is None else end
        self._whole = list(self._in_files(self._begin, self._end))
        self._sizes = np.cumsum([0, *(piece.size for _, piece in self._whole)])
        self.size: int = int(self._sizes[-1])

    def __len__(self) -> int:
        return self._end - self._begin

    def divide(self, parts: int) -> list[list[FilePiece]]:
        """Return the pieces of parts of about equal size in bytes, in order.

        Parts without records are left out. A file that is not compressed is divided between any two
        records, and a compressed file at the first records after its seek points, so that little is
        decompressed twice.

        Args:
            parts: Largest number of parts.
        """
        if not len(self):
            return []
        cuts = {self._begin, self._end}
        # Python's integers, because the product may exceed 64 bits.
        wanted = np.array([self.size * part // parts for part in range(1, parts)], np.int64)
        numbers = np.searchsorted(self._sizes, wanted, side="right") - 1
        for number in np.unique(numbers).tolist():
            index, piece = self._whole[number]
            offsets = wanted[numbers == number] - self._sizes[number]
            cuts.update(_cuts(index, piece, offsets).tolist())
        return self.cut(sorted(cuts))

    def cut(self, bounds: Sequence[int]) -> list[list[FilePiece]]:
        """Return the pieces of the records between each two bounds, which are ascending numbers."""
        return [
            [piece for _, piece in self._in_files(begin, end)]
            for begin, end in itertools.pairwise(bounds)
        ]

    def bounds_by_size(self, max_bytes: int) -> list[int]:
        """Return bounds between which as many records are as fit, and at least one."""
        sizes = [index.lengths + TFRECORD.overhead_bytes for index in self._indexes]
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        bounds = [0]
        while bounds[-1] < len(self):
            last = int(np.searchsorted(ends, ends[bounds[-1]] + max_bytes, side="right")) - 1
            bounds.append(max(bounds[-1] + 1, last))
        return bounds if len(self) else [0, 0]

    def _in_files(self, begin: int, end: int) -> Iterator[tuple[RecordIndex, FilePiece]]:
        """Yield the piece of each file that has records between two numbers, and its index."""
        first = int(np.searchsorted(self._bases, begin, side="right")) - 1
        for index, base in zip(self._indexes[first:], self._bases[first:], strict=False):
            if base >= end:
                return
            low, high = max(begin - base, 0), min(end - base, len(index))
            if low < high:
                yield index, FilePiece.of(index, low, high - low, base)


def _cuts(index: RecordIndex, piece: FilePiece, offsets: Ints) -> Ints:
    """Return the numbers of the first records at or after some offsets in a piece."""
    if piece.compression is not None:
        points = index.seek_points.stream_offsets
        before = np.searchsorted(points, piece.begin + offsets, side="right") - 1
        offsets = np.maximum(points[before] - piece.begin, 0)
    return np.searchsorted(index.offsets, piece.begin + offsets) + piece.base
