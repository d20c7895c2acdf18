"""Consecutive records of a file, read from front to back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._records.formats import TFRECORD
from .._records.index import RecordIndex
from .._records.index_cache import IndexSearch
from .._records.record_size import MAX_RECORD_BYTES
from .._records.scan import blocks_by_number
from .._records.scanned_block import Gap, ScannedBlock, with_loss
from .._records.sequential import iter_blocks
from .._records.stream_window import UNKNOWN_END
from .._storage.byte_source import ByteSource
from .._storage.compression import CompressionChoice
from .._storage.location import Location
from .._storage.opening import open_decompressed
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import CorruptRecordError, StaleIndexError, TruncatedFileError

if TYPE_CHECKING:
    from .._storage.seek_points import SeekPoint


@dataclass(frozen=True)
class FilePiece:
    """Consecutive records of a TFRecord file or pipe: all of them, or a part.

    It is small whatever the number of records, and can be sent to another machine, which needs the
    data file. It needs the index only to find records after a damaged length.

    Attributes:
        location: Data file. A whole file needs no other attribute.
        compression: Compression of the file.
        begin: Stream offset of the first record's frame.
        end: Stream offset of the end of the last record's frame.
        first: Number of the first record in the file.
        count: Number of records; None for a whole file.
        base: Number of the file's first record in the dataset.
        seek_point: Start of decompression of a part of a compressed file: the last seek point
            before the first record.
        content: Size and fingerprint of the file when it was indexed; None for a whole file.
        stamp: Stamp of a remote object when it was indexed.
        stored_bytes: Number of bytes to read, as they are stored; 0 if it is unknown.
    """

    location: Location
    compression: CompressionChoice = "auto"
    begin: int = 0
    end: int = UNKNOWN_END
    first: int = 0
    count: int | None = None
    base: int = 0
    seek_point: SeekPoint | None = None
    content: tuple[int, int] | None = None
    stamp: Stamp | None = None
    stored_bytes: int = 0

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
        begin, end = int(starts[0]), int(ends[1])
        _, file_bytes, fingerprint = index.identity
        return cls(
            index.location,
            index.compression,
            begin,
            end,
            first,
            count,
            base,
            _seek_point(index, begin),
            (file_bytes, fingerprint),
            index.data_stamp if index.location.local_path is None else None,
            round((end - begin) * file_bytes / index.stream_end),
        )

    def blocks(
        self, *, verify_crc: bool = True, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> Iterator[ScannedBlock]:
        """Yield the records in blocks, in order.

        After a damaged length, the other records are found by the index of the file. If this
        machine does not find an index, the rest of the piece is lost, which is one gap.

        Args:
            verify_crc: Whether checksums are compared, those of lengths and of data.
            max_record_bytes: Largest size of a record in bytes.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be read.
        """
        options: dict[str, Any] = {"verify_crc": verify_crc, "max_record_bytes": max_record_bytes}
        seen = 0
        with closing(self.open()) as source:
            try:
                blocks = iter_blocks(
                    source, start=self.begin, end=self.end, first=self.first, **options
                )
                for block in blocks:
                    seen += block.total
                    yield block
            except (CorruptRecordError, TruncatedFileError) as error:
                index = IndexSearch(self.location).find() if source.is_seekable else None
                end = len(index or ()) if self.count is None else self.first + self.count
                if index is None or end <= self.first + seen:
                    lost = "the rest of the file is lost"
                    if self.count is not None:
                        lost = (
                            f"{counted(self.count - seen, 'record')} from here on cannot be found, "
                            "because this machine does not find the index of the file: store "
                            "indexes beside the files"
                        )
                    gap = Gap(with_loss(error, lost), error.offset or 0, 0)
                    yield ScannedBlock.of_gap(source.path, gap)
                else:
                    numbers = range(self.first + seen, end)
                    yield from blocks_by_number(index, numbers, **options)
                return
        if self.count not in (None, seen):
            raise StaleIndexError(
                f"the data file was replaced or changed while it was in use: it has "
                f"{counted(seen, 'record')} where its index has {self.count:,}",
                path=self.location.name,
                offset=self.begin,
            )

    def open(self) -> ByteSource:
        """Open the decompressed content of the file.

        Raises:
            StaleIndexError: If the file is not the one that was indexed.
            OSError: If the file cannot be opened.
        """
        if self.content is None or self.compression == "auto":
            return self.location.open_stream(self.compression)
        file = self.location.open(self.stamp)
        size = file.stamp.size
        if not file.is_pinned and (size, TFRECORD.fingerprint(file, size)) != self.content:
            raise StaleIndexError(
                "the data file was replaced or changed while it was in use: its size or content "
                "differs from the indexed one",
                path=self.location.name,
            )
        return open_decompressed(file, self.compression, self.seek_point)


def _seek_point(index: RecordIndex, offset: int) -> SeekPoint | None:
    """Return the last seek point of a compressed file that is not after a stream offset."""
    if index.compression is None:
        return None
    points = index.seek_points
    return points.point(int(np.searchsorted(points.stream_offsets, offset, side="right")) - 1)
