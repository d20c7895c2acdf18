"""Files, and parts of large ones, that tasks read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CorruptRecordError, StaleIndexError, TruncatedFileError
from ..records.division import DividedRecords
from ..records.file_piece import FilePiece, PieceBlock, intact_records
from ..records.index_cache import find_matching
from ..records.record_block import RecordBlock
from ..records.record_reader import RecordReader
from ..records.sample_pieces import Piece, SampledBlock
from ..records.sequential import iter_blocks
from ..storage.opening import file_size, open_stream
from ..storage.remote.options import RemoteOptions
from ..tools.record_files import with_loss
from . import tasks

_BLOCK_RECORDS = 1 << 12
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True)
class FilePart(Piece):
    """A file, or a part of one. It is small, whatever the number of records.

    Attributes:
        path: Path of the file.
        size: Number of bytes to read, as they are stored.
        piece: Records to read; None for the whole file.
        remote: Options for remote objects.
    """

    path: str
    size: int
    piece: FilePiece | None
    remote: RemoteOptions

    @property
    def key(self) -> str:
        """Identity of the records in the file."""
        if self.piece is None:
            return "whole"
        return f"{self.piece.begin} {self.piece.end} {self.piece.first} {self.piece.count}"

    def read(self) -> Iterator[PieceBlock]:
        """Yield the records in blocks, in order, with the errors of those that are damaged.

        Where a length is damaged, the rest of a part is read by the index of the file. Without one,
        the rest of the file is lost.

        Raises:
            StaleIndexError: If the file is not the one that was indexed, or this machine does not
                find the index when it is needed.
            OSError: If the file cannot be read.
        """
        return self._read_front() if self.piece is None else self._read_piece(self.piece)

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        for found in self.read():
            if not found.errors or skip_errors:
                yield self._sampled(found, np.arange(len(found.block)))
                continue
            first = min(found.errors, key=lambda error: error.record or 0)
            yield self._sampled(found, np.flatnonzero(found.records < (first.record or 0)))
            raise first

    def _sampled(self, found: PieceBlock, kept: Any) -> SampledBlock:
        records, offsets = found.records[kept], found.offsets[kept]

        def locate(position: int) -> dict[str, Any]:
            number, offset = int(records[position]), int(offsets[position])
            return {"path": self.path, "record": number, "offset": offset}

        return SampledBlock(found.block.rows(kept), locate)

    def _read_front(self) -> Iterator[PieceBlock]:
        with closing(open_stream(self.path, "auto", self.remote)) as source:
            try:
                for block in iter_blocks(source):
                    yield intact_records(block, source.path)
            except (CorruptRecordError, TruncatedFileError) as error:
                none = np.empty(0, np.int64)
                empty = RecordBlock(np.empty(0, np.uint8), none, none, none)
                yield PieceBlock(empty, none, none, [with_loss(error)])

    def _read_piece(self, piece: FilePiece) -> Iterator[PieceBlock]:
        seen = 0
        try:
            for found in piece.blocks_before_loss():
                seen += len(found.block) + len(found.errors)
                yield found
        except (CorruptRecordError, TruncatedFileError):
            yield from self._read_by_number(piece, seen)

    def _read_by_number(self, piece: FilePiece, seen: int) -> Iterator[PieceBlock]:
        """Yield the records of a piece after the first ones, by their offsets in the index."""
        index = find_matching(self.path, self.remote)
        if index is None:
            raise StaleIndexError(
                "a length is damaged, and this machine does not find the index that says where "
                "the next record starts; store indexes beside the files",
                path=self.path,
            )
        reader = RecordReader([index])
        numbers = np.arange(piece.first + seen, piece.first + piece.count)
        for plan in reader.plans(numbers, _BLOCK_RECORDS, _BLOCK_BYTES):
            block, errors = reader.fetch(plan)
            starts, _ = index.locate(block.numbers)
            yield PieceBlock(block, block.numbers, starts, errors)


def divide_file(
    path: str, remote: RemoteOptions, *, cuts_compressed: bool = True
) -> list[FilePart]:
    """Return the parts of a file: one, or several if it is large and has an index.

    Args:
        path: Path of the file.
        remote: Options for remote objects.
        cuts_compressed: Whether a compressed file is divided at the seek points of its index.
    """
    size = file_size(path, remote)
    whole = [FilePart(path, size, None, remote)]
    if size <= tasks.TASK_BYTES:
        return whole
    index = find_matching(path, remote)
    if index is None:
        return whole
    if index.compression is None and index.stream_end != size:
        return whole  # it has damage that the index ends before
    if index.compression is not None and not cuts_compressed:
        return whole
    parts = DividedRecords([index]).divide(-(-size // tasks.TASK_BYTES))
    stored = size / max(1, index.stream_end)
    return [
        FilePart(path, round((piece.end - piece.begin) * stored), piece, remote)
        for [piece] in parts
    ] or whole
