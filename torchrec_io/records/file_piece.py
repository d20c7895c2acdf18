"""Consecutive records of a file, read from front to back without the file's index."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..checks import counted
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from ..storage.byte_source import ByteSource, Ints, Stamp
from ..storage.compression import Compression
from ..storage.front import FrontOfStream
from ..storage.opening import open_decompressed, open_file
from ..storage.remote.options import RemoteOptions
from .formats import TFRECORD
from .index import RecordIndex
from .record_block import RecordBlock
from .record_size import MAX_RECORD_BYTES
from .sequential import FrameBlock, iter_blocks

if TYPE_CHECKING:
    from ..storage.seek_points import SeekPoint


class PieceBlock(NamedTuple):
    """Some intact records of a piece, and errors of the others.

    Attributes:
        block: Records, with their numbers in the dataset. Their buffer is valid until the next
            block is requested.
        records: Number of each record in its file; int64 ``[n]``.
        offsets: Offset of each record's frame in its file or decompressed stream; int64 ``[n]``.
        errors: Errors of damaged records.
    """

    block: RecordBlock
    records: Ints
    offsets: Ints
    errors: list[TorchRecIOError]


@dataclass(frozen=True)
class FilePiece:
    """Consecutive records of a TFRecord file.

    It is small whatever the number of records, and can be sent to another machine, which needs the
    data file but no index.

    Attributes:
        path: Data file.
        begin: Stream offset of the first record's frame.
        end: Stream offset of the end of the last record's frame.
        first: Number of the first record in the file.
        count: Number of records.
        number: Number of the first record in the dataset.
        compression: Compression of the file.
        seek_point: Start of decompression if the file is compressed: the last seek point before
            the first record.
        content: Size and fingerprint of the file when it was indexed.
        stamp: Stamp of a remote object when it was indexed.
        remote: Options of a remote object.
    """

    path: str
    begin: int
    end: int
    first: int
    count: int
    number: int
    compression: Compression | None
    seek_point: SeekPoint | None
    content: tuple[int, int]
    stamp: Stamp | None
    remote: RemoteOptions | None

    @classmethod
    def of(cls, index: RecordIndex, first: int, count: int, base: int) -> FilePiece:
        """Return some consecutive records of a file.

        Args:
            index: Index of the file.
            first: Number of the first record in the file.
            count: Number of records, at least 1.
            base: Number of the file's first record in the dataset.
        """
        starts, ends = index.locate(np.array([first, first + count - 1]))
        _, *content = index.identity
        return cls(
            index.data_path,
            int(starts[0]),
            int(ends[1]),
            first,
            count,
            base + first,
            index.compression,
            None if index.compression is None else _seek_point(index, int(starts[0])),
            (content[0], content[1]),
            index.data_stamp if index.remote is not None else None,
            index.remote,
        )

    def blocks(
        self, *, verify_crc: bool = True, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> Generator[PieceBlock]:
        """Yield the records in blocks, in order.

        After a damaged length the rest of the piece is one error.

        Args:
            verify_crc: Whether data is checked against its checksum. Lengths always are.
            max_record_bytes: Largest size of a record in bytes.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be read.
        """
        try:
            yield from self.blocks_before_loss(
                verify_crc=verify_crc, max_record_bytes=max_record_bytes
            )
        except (CorruptRecordError, TruncatedFileError) as error:
            none = np.empty(0, np.int64)
            empty = RecordBlock(np.empty(0, np.uint8), none, none, none)
            yield PieceBlock(empty, none, none, [error])

    def blocks_before_loss(
        self, *, verify_crc: bool = True, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> Generator[PieceBlock]:
        """Yield the records in blocks, in order, up to a damaged length.

        Args:
            verify_crc: Whether data is checked against its checksum. Lengths always are.
            max_record_bytes: Largest size of a record in bytes.

        Raises:
            CorruptRecordError, TruncatedFileError: If a length is damaged.
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be read.
        """
        seen = 0
        with closing(self.open()) as source:
            for block in iter_blocks(
                source,
                start=self.begin,
                first=self.first,
                verify_crc=verify_crc,
                max_record_bytes=max_record_bytes,
            ):
                seen += len(block) + (block.too_large is not None)
                yield intact_records(block, self.path, self.number - self.first)
        if seen != self.count:
            raise StaleIndexError(
                f"the data file was replaced or changed while it was in use: it has "
                f"{counted(seen, 'record')} where its index has {self.count:,}",
                path=self.path,
                offset=self.begin,
            )

    def open(self) -> ByteSource:
        """Open the decompressed content of the file, up to the end of the piece.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be opened.
        """
        file = open_file(self.path, self.remote, self.stamp)
        size = file.stamp.size
        if not file.is_pinned and (size, TFRECORD.fingerprint(file, size)) != self.content:
            raise StaleIndexError(
                "the data file was replaced or changed while it was in use: its size or content "
                "differs from the indexed one",
                path=self.path,
            )
        recorder = None
        if self.seek_point is not None:
            from ..storage.seek_points import SeekPointRecorder  # noqa: PLC0415  # loads a decoder

            recorder = SeekPointRecorder(finds_blocks=False, makes_checks=False)
            recorder.points.append(self.seek_point)
        return FrontOfStream(open_decompressed(file, self.compression, recorder), self.end)


def intact_records(block: FrameBlock, path: str, shift: int = 0) -> PieceBlock:
    """Return the intact records of a block of frames.

    Args:
        block: The frames.
        path: Path of the file.
        shift: Difference between the numbers of the records in the dataset and in the file.
    """
    kept = np.arange(len(block))
    if block.faults:
        kept = np.delete(kept, [position for position, _, _ in block.faults])
    starts = block.starts[kept]
    records = block.first + kept
    rows = RecordBlock(
        block.buffer, starts + TFRECORD.header_bytes, block.lengths[kept], records + shift
    )
    return PieceBlock(rows, records, block.offset + starts, block.errors(path))


def _seek_point(index: RecordIndex, offset: int) -> SeekPoint:
    """Return the last seek point of a compressed file that is not after a stream offset."""
    points = index.seek_points
    return points.point(int(np.searchsorted(points.stream_offsets, offset, side="right")) - 1)
