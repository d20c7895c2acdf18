"""Stored records of TFRecord files, read by number in blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from .._order.selection import Selection, Span, parts_of
from .._records.opening import open_indexes
from .._records.record_block import RecordBlock
from .._records.record_reader import ReadPlan, RecordReader
from .._records.scan import BLOCK_BYTES, BLOCK_RECORDS, scan
from .._records.scanned_block import with_loss
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from ..errors import TorchRecIOError
from .report import JobReport


class RecordFiles:
    """The records of TFRecord files, numbered across all files.

    Files are indexed first, as in a dataset, and read by number. So a tool knows what it will write
    before it starts writing. Compression is detected from the content of each file.

    Args:
        paths: Files, glob patterns or directories.
        report: Report that counts the records that are read, the damaged ones, and files whose rest
            cannot be read because a length is damaged.
        allow_missing: Whether shards of a set may be missing.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.
        advanced: Function that threads call with the number of bytes read since their last call,
            while they index files.

    Attributes:
        report: Report of the job.
        locations: The files.
        reader: Reader of the records.
        size: Size of all records with their frames in bytes.

    Raises:
        CorruptRecordError: If a length is damaged, unless the report skips errors.
        TruncatedFileError: If a file is truncated, unless the report skips errors.
        FileNotFoundError: If a path matches no file, or shards are missing.
        OSError: If a file is a pipe, which cannot be read by number.
        ValueError: If there are no paths.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        report: JobReport,
        *,
        allow_missing: bool = False,
        storage_options: StorageOptions = None,
        advanced: Callable[[int], object] | None = None,
    ) -> None:
        self.report = report
        self.locations: list[Location] = expand_paths(
            paths, allow_missing=allow_missing, storage_options=storage_options
        )
        indexes, errors = open_indexes(self.locations, "auto", "auto", advanced=advanced)
        for error in errors:
            report.skip(with_loss(error))
        self.reader: RecordReader = RecordReader(indexes)
        self.size: int = sum(index.stream_end for index in indexes)

    def __len__(self) -> int:
        return len(self.reader)

    @property
    def all(self) -> Span:
        """Selection of all records."""
        return Span(0, len(self), len(self))

    def blocks(
        self,
        selection: Selection,
        jobs: int = 1,
        *,
        count_records: bool = True,
        is_stopped: Callable[[], bool] = lambda: False,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> Generator[RecordBlock]:
        """Yield the intact records of a selection in blocks, in order.

        A block is counted when the next one is requested.

        Args:
            selection: Records to read.
            jobs: Number of threads that read. Compressed files are read by one thread, from start
                to end.
            count_records: Whether the report counts the records, or only the bytes.
            is_stopped: Function that is called before each block; True ends the iteration.
            max_records: Largest number of records in a block; by default 4,096.
            max_bytes: Largest size of a block with more than one record, in bytes; by default
                4 MiB.

        Raises:
            CorruptRecordError: If a record does not match its checksum, unless the report skips
                errors.
            StaleIndexError: If a file was changed after it was indexed.
            TruncatedFileError: If a file became shorter.
            OSError: If a file cannot be read.
        """
        numbers = parts_of(selection, max_records or BLOCK_RECORDS)
        threads = 1 if self.reader.compressions else jobs
        with closing(
            scan(self.reader, numbers, self._fetch, threads, max_bytes=max_bytes or BLOCK_BYTES)
        ) as blocks:
            for block, errors, size in blocks:
                if is_stopped():
                    return
                for error in errors:
                    self.report.skip(error)
                yield block
                self.report.add(len(block) if count_records else 0, size)

    def _fetch(self, plan: ReadPlan) -> tuple[RecordBlock, Sequence[TorchRecIOError], int]:
        """Return the valid records, the errors of damaged ones, and the size of all frames."""
        return *self.reader.fetch(plan), int(plan.frame_sizes.sum())
