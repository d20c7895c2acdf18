"""Consecutive records of an indexed file, read from front to back."""

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
from .._storage.byte_source import ByteSource
from .._storage.compression import Compression
from .._storage.location import Location
from .._storage.opening import open_decompressed
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import CorruptRecordError, StaleIndexError, TruncatedFileError

if TYPE_CHECKING:
    from .._storage.seek_points import SeekPoint


@dataclass(frozen=True)
class FilePiece:
    """Consecutive records of an indexed TFRecord file.

    It is small whatever the number of records, and can be sent to another machine, which needs the
    data file. It needs the index only to find records after a damaged length.

    Attributes:
        location: Data file.
        compression: Compression of the file.
        begin: Stream offset of the first record's frame.
        end: Stream offset of the end of the last record's frame.
        first: Number of the first record in the file.
        count: Number of records.
        base: Number of the file's first record in the dataset.
        seek_point: Start of decompression of a compressed file: the last seek point before the
            first record.
        content: Size and fingerprint of the file when it was indexed.
        stamp: Stamp of a remote object when it was indexed.
    """

    location: Location
    compression: Compression | None
    begin: int
    end: int
    first: int
    count: int
    base: int
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
        )

    @property
    def size(self) -> int:
        """Size of the records with their frames in bytes, decompressed."""
        return self.end - self.begin

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
        with closing(self._open()) as source:
            try:
                blocks = iter_blocks(
                    source, start=self.begin, end=self.end, first=self.first, **options
                )
                for block in blocks:
                    seen += block.total
                    yield block
            except (CorruptRecordError, TruncatedFileError) as error:
                index = IndexSearch(self.location).find()
                if index is None:
                    lost = (
                        f"{counted(self.count - seen, 'record')} from here on cannot be found, "
                        "because this machine does not find the index of the file: store "
                        "indexes beside the files"
                    )
                    gap = Gap(with_loss(error, lost), error.offset or 0, 0)
                    yield ScannedBlock.of_gap(source.path, gap)
                else:
                    numbers = range(self.first + seen, self.first + self.count)
                    yield from blocks_by_number(index, numbers, **options)
                return
        if seen != self.count:
            raise StaleIndexError(
                f"the data file was replaced or changed while it was in use: it has "
                f"{counted(seen, 'record')} where its index has {self.count:,}",
                path=self.location.name,
                offset=self.begin,
            )

    def _open(self) -> ByteSource:
        """Open the decompressed content of the file.

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
        return open_decompressed(file, self.compression, self.seek_point)


def _seek_point(index: RecordIndex, offset: int) -> SeekPoint | None:
    """Return the last seek point of a compressed file that is not after a stream offset."""
    if index.compression is None:
        return None
    points = index.seek_points
    return points.point(int(np.searchsorted(points.stream_offsets, offset, side="right")) - 1)
