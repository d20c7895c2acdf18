"""Files, and parts of large ones, that tasks read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..records.division import DividedRecords
from ..records.file_piece import FilePiece, PieceBlock, blocks_of_file
from ..records.index_cache import find_matching
from ..records.sample_pieces import Piece, SampledBlock, sampled
from ..storage.location import Location
from . import tasks


@dataclass(frozen=True)
class FilePart(Piece):
    """A file, or a part of one. It is small, whatever the number of records.

    Attributes:
        location: The file.
        size: Number of bytes to read, as they are stored.
        piece: Records to read; None for the whole file.
    """

    location: Location
    size: int
    piece: FilePiece | None

    @property
    def key(self) -> str:
        """Identity of the records in the file."""
        if self.piece is None:
            return "whole"
        return f"{self.piece.begin} {self.piece.end} {self.piece.first} {self.piece.count}"

    def read(self) -> Iterator[PieceBlock]:
        """Yield the records in blocks, in order, with the errors of those that are damaged.

        After a damaged length, the other records are found by the index of the file. Without one
        the rest of the part is lost.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be read.
        """
        if self.piece is None:
            return blocks_of_file(self.location)
        return self.piece.blocks()

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        return sampled(self.read(), self.location.name, skip_errors=skip_errors)


def divide_file(file: Location, *, cuts_compressed: bool = True) -> list[FilePart]:
    """Return the parts of a file: one, or several if it is large and has an index.

    Args:
        file: The file.
        cuts_compressed: Whether a compressed file is divided at the seek points of its index.
    """
    size = file.stamp().size
    whole = [FilePart(file, size, None)]
    if size <= tasks.TASK_BYTES:
        return whole
    index = find_matching(file)
    if index is None:
        return whole
    if index.compression is None and index.stream_end != size:
        return whole  # it has damage that the index ends before
    if index.compression is not None and not cuts_compressed:
        return whole
    parts = DividedRecords([index]).divide(-(-size // tasks.TASK_BYTES))
    stored = size / max(1, index.stream_end)
    return [
        FilePart(file, round((piece.end - piece.begin) * stored), piece) for [piece] in parts
    ] or whole
