"""Consecutive records of a file, read from front to back."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..checks import counted
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from ..storage.byte_source import ByteSource, Ints, Stamp
from ..storage.compression import Compression
from ..storage.front import FrontOfStream
from ..storage.location import Location
from ..storage.opening import open_decompressed
from .formats import TFRECORD
from .index import RecordIndex
from .index_cache import find_matching
from .record_block import RecordBlock
from .record_reader import RecordReader
from .record_size import MAX_RECORD_BYTES
from .sequential import FrameBlock, iter_blocks

if TYPE_CHECKING:
    from ..storage.seek_points import SeekPoint

# Limits of a block of records that are read by number.
_BLOCK_RECORDS = 1 << 12
_BLOCK_BYTES = 1 << 22


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

    @classmethod
    def of_errors(cls, *errors: TorchRecIOError) -> PieceBlock:
        """Return a block without records."""
        none = np.empty(0, np.int64)
        return cls(RecordBlock(np.empty(0, np.uint8), none, none, none), none, none, [*errors])

    @property
    def total(self) -> int:
        """Number of records, intact or damaged."""
        return len(self.block) + len(self.errors)


@dataclass(frozen=True)
class FilePiece:
    """Consecutive records of a TFRecord file.

    It is small whatever the number of records, and can be sent to another machine, which needs the
    data file. It needs the index only to find records after a damaged length.

    Attributes:
        location: Data file.
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
    """

    location: Location
    begin: int
    end: int
    first: int
    count: int
    number: int
    compression: Compression | None
    seek_point: SeekPoint | None
    content: tuple[int, int]
    stamp: Stamp | None

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
            index.location,
            int(starts[0]),
            int(ends[1]),
            first,
            count,
            base + first,
            index.compression,
            None if index.compression is None else _seek_point(index, int(starts[0])),
            (content[0], content[1]),
            index.data_stamp if index.location.local_path is None else None,
        )

    def blocks(
        self, *, verify_crc: bool = True, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> Generator[PieceBlock]:
        """Yield the records in blocks, in order.

        After a damaged length, the other records are found by the index of the file. If this
        machine does not find an index, the rest of the piece is lost, which is one error.

        Args:
            verify_crc: Whether checksums are compared, those of lengths and of data.
            max_record_bytes: Largest size of a record in bytes.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be read.
        """
        seen = 0
        options: dict[str, Any] = {"verify_crc": verify_crc, "max_record_bytes": max_record_bytes}
        try:
            for found in self._blocks_in_a_row(**options):
                seen += found.total
                yield found
        except (CorruptRecordError, TruncatedFileError) as error:
            index = find_matching(self.location)
            if index is None:
                yield _lost(error, self.count - seen)
            else:
                numbers = range(self.first + seen, self.first + self.count)
                yield from blocks_by_number(index, numbers, self.number - self.first, **options)

    def _blocks_in_a_row(self, verify_crc: bool, max_record_bytes: int) -> Generator[PieceBlock]:
        """Yield the records in blocks, in order, up to a damaged length.

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
                yield intact_records(block, self.location.name, self.number - self.first)
        if seen != self.count:
            raise StaleIndexError(
                f"the data file was replaced or changed while it was in use: it has "
                f"{counted(seen, 'record')} where its index has {self.count:,}",
                path=self.location.name,
                offset=self.begin,
            )

    def open(self) -> ByteSource:
        """Open the decompressed content of the file, up to the end of the piece.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be opened.
        """
        file = self.location.open(self.stamp)
        size = file.stamp.size
        if not file.is_pinned and (size, TFRECORD.fingerprint(file, size)) != self.content:
            raise StaleIndexError(
                "the data file was replaced or changed while it was in use: its size or content "
                "differs from the indexed one",
                path=self.location.name,
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


def blocks_of_file(location: Location) -> Generator[PieceBlock]:
    """Yield all records of a file or pipe in blocks, in order.

    After a damaged length, the other records are found by the index of the file. Without one the
    rest of the file is lost, which is one error.

    Args:
        location: File or pipe.

    Raises:
        OSError: If the file cannot be read.
    """
    seen = 0
    with closing(location.open_stream()) as source:
        try:
            for block in iter_blocks(source):
                found = intact_records(block, source.path)
                seen += found.total
                yield found
        except (CorruptRecordError, TruncatedFileError) as error:
            index = find_matching(location) if source.is_seekable else None
            if index is None or len(index) < seen:
                yield PieceBlock.of_errors(with_loss(error))
            else:
                yield from blocks_by_number(index, range(seen, len(index)))


def blocks_by_number(
    index: RecordIndex,
    numbers: range,
    shift: int = 0,
    *,
    verify_crc: bool = True,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Generator[PieceBlock]:
    """Yield records of a file in blocks, found by its index.

    Args:
        index: Index of the file.
        numbers: Numbers of the records in the file.
        shift: Difference between the numbers of the records in the dataset and in the file.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.

    Raises:
        StaleIndexError: If the file is not the one that was indexed.
        OSError: If the file cannot be read.
    """
    reader = RecordReader([index], verify_crc=verify_crc, max_record_bytes=max_record_bytes)
    wanted = np.arange(numbers.start, numbers.stop)
    for plan in reader.plans(wanted, _BLOCK_RECORDS, _BLOCK_BYTES):
        block, errors = reader.fetch(plan)
        records = block.numbers
        offsets, _ = index.locate(records)
        rows = RecordBlock(block.buffer, block.starts, block.lengths, records + shift)
        yield PieceBlock(rows, records, offsets, errors)


def _lost(error: TorchRecIOError, count: int) -> PieceBlock:
    """Return the loss of all records from a damaged length to the end of a piece."""
    reason = (
        f"{error.reason}; {counted(count, 'record')} from here on cannot be found, because this "
        "machine does not find the index of the file: store indexes beside the files"
    )
    return PieceBlock.of_errors(_with_reason(error, reason))


def with_loss(error: TorchRecIOError) -> TorchRecIOError:
    """Return an error that says that the rest of its file is lost."""
    return _with_reason(error, f"{error.reason}; the rest of the file is lost")


def _with_reason(error: TorchRecIOError, reason: str) -> TorchRecIOError:
    return type(error)(reason, path=error.path, record=error.record, offset=error.offset)


def _seek_point(index: RecordIndex, offset: int) -> SeekPoint:
    """Return the last seek point of a compressed file that is not after a stream offset."""
    points = index.seek_points
    return points.point(int(np.searchsorted(points.stream_offsets, offset, side="right")) - 1)
