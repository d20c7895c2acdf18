"""A tool that writes all valid records of a damaged file to a new one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .._records.damage_map import DamageMap
from .._records.foreign_files import FOREIGN_REASONS
from .._records.formats import TFRECORD
from .._records.index_cache import IndexSearch
from .._records.index_file import SUFFIX
from .._records.record_size import MAX_RECORD_BYTES
from .._records.scanned_block import Gap
from .._storage.byte_source import ByteSource
from .._storage.compression import (
    COMPRESSIONS,
    Compression,
    CompressionChoice,
    check_compression,
    detect_compression,
)
from .._storage.local import StrPath, head_of
from .._storage.location import Location
from .._storage.outputs import refuse_existing
from .._storage.remote.options import StorageOptions
from .._writing.output_group import OutputGroup
from ..checks import check_choice
from ..errors import CorruptRecordError
from .outputs import refuse_inputs
from .report import Watcher
from .salvage import SalvagedFile
from .valid_frames import iter_valid_frames

OutputCompression: TypeAlias = Literal["same", "gzip", "zlib", "zstd"] | None

_MAX_LISTED = 10_000


@dataclass(frozen=True)
class Loss:
    """A part of a damaged file from which no record could be taken.

    Attributes:
        offset: Offset of its first byte: in the file, or in the decompressed content.
        size: Size in bytes.
        is_decompressed: True if offset and size count bytes of the decompressed content, where
            parts that cannot be decompressed are left out.
        records: Number of records lost. It is exact if only the data of one record is damaged, and
            otherwise estimated from the mean size of the valid records.
        reason: Reason of the first error in this part.
    """

    offset: int
    size: int
    is_decompressed: bool
    records: int
    reason: str


@dataclass(frozen=True)
class RepairReport:
    """The result of repairing a file.

    Attributes:
        path: Damaged file.
        output: File that was written; None for a dry run.
        compression: Compression of the damaged file.
        file_bytes: Size of the damaged file in bytes.
        records: Number of valid records.
        lost_records: Estimated number of lost records.
        lost_bytes: Number of lost bytes of the file; of a compressed file, those that cannot be
            decompressed.
        lost_decompressed_bytes: Number of lost bytes of the decompressed content; 0 for a file that
            is not compressed.
        losses: Lost parts: those that cannot be decompressed, then those of the content; each in
            order, at most 10,000.
        unlisted_losses: Number of further ones.
        damage_map: Damaged parts of the file.
        seconds: Duration in seconds.
    """

    path: str
    output: str | None
    compression: Compression | None
    file_bytes: int
    records: int
    lost_records: int
    lost_bytes: int
    lost_decompressed_bytes: int
    losses: tuple[Loss, ...]
    unlisted_losses: int
    damage_map: DamageMap = field(compare=False, repr=False)
    seconds: float

    @property
    def ok(self) -> bool:
        """True if nothing was lost."""
        return not self.losses


def repair(
    path: StrPath,
    output: StrPath | None = None,
    *,
    compression: OutputCompression = "same",
    input_compression: CompressionChoice = "auto",
    index: bool = True,
    force: bool = False,
    dry_run: bool = False,
    max_record_bytes: int = MAX_RECORD_BYTES,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> RepairReport:
    """Write every valid record of a damaged file to a new file, in order.

    A record is valid if its length and its data match their checksums. After a damaged length, the
    next valid record is searched at every offset. After damage of a compressed file, the search
    continues with the next member that can be decompressed, or at the next seek point if the file
    was indexed before it was damaged. The damaged file is never changed, and
    the new one appears when it is complete, or not at all.

    Args:
        path: Damaged file. A pipe is refused.
        output: New file. It may be None for a dry run.
        compression: Compression of the new file: ``"same"`` as the damaged one, None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        input_compression: Compression of the damaged file: ``"auto"`` (by content), None,
            ``"gzip"``, ``"zlib"`` or ``"zstd"``. Set it if the start of the file is lost.
        index: Whether the new file gets an index ``.tfidx``.
        force: Replace the output if it exists.
        dry_run: Only report what would be lost; write nothing.
        max_record_bytes: Largest size of a record in bytes. A larger one counts as damaged.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.

    Returns:
        What was found and what was lost.

    Raises:
        CorruptRecordError: If the file is damaged and no record in it is valid.
        FileExistsError: If the output exists, unless it may be replaced.
        FileNotFoundError: If there is no such file.
        OSError: If the file is a pipe, or the output cannot be written.
        ValueError: If an argument is invalid, or the output is the damaged file.
    """
    check_choice("compression", compression, ("same", None, *COMPRESSIONS))
    check_compression(input_compression)
    if output is None and not dry_run:
        raise ValueError("output must be a path, unless dry_run=True, got None")
    if max_record_bytes < 0:
        raise ValueError(f"max_record_bytes must be at least 0, got {max_record_bytes}")
    damaged = Location.of(path, storage_options)
    target = None if output is None else Location.of(output, storage_options)
    if target is not None:
        refuse_inputs([damaged], [target, target.beside(SUFFIX)])
        if not force:
            refuse_existing(target)
    with closing(damaged.open()) as file:
        search = _Repair(damaged, file, input_compression)
        watcher = watcher or Watcher()
        if target is None or dry_run:
            search.run(lambda _: None, max_record_bytes, watcher)
            return search.report(None)
        written = search.compression if compression == "same" else compression
        with OutputGroup(force=force) as group:
            writer = group.open_records(target, written, index=index)
            search.run(writer.write, max_record_bytes, watcher)
            search.refuse_total_loss()
        return search.report(target.name)


@dataclass
class _Losses:
    """Lost parts of one kind.

    Attributes:
        least_records: Smallest number of records in a part. What cannot be decompressed may hold
            none: its ends are gaps of the content already.
        listed: The first ones.
        unlisted: Number of further ones.
        size: Size of all of them in bytes.
        single: Number of those that are exactly one record.
        least: Smallest number of records in the others.
        unknown_bytes: Size of the others in bytes.
    """

    least_records: int
    listed: list[Gap] = field(default_factory=list)
    unlisted: int = 0
    size: int = 0
    single: int = 0
    least: int = 0
    unknown_bytes: int = 0

    def add(self, part: Gap) -> None:
        self.size += part.size
        if part.is_one_record:
            self.single += 1
        else:
            self.least += self.least_records
            self.unknown_bytes += part.size
        if len(self.listed) < _MAX_LISTED:
            self.listed.append(part)
        else:
            self.unlisted += 1

    def estimate(self, bytes_per_record: float) -> int:
        """Return the estimated number of records in all parts."""
        return self.single + max(self.least, round(self.unknown_bytes / bytes_per_record))

    def describe(self, bytes_per_record: float, *, is_decompressed: bool) -> Iterator[Loss]:
        """Yield the listed parts, each with the estimated number of its records."""
        for error, offset, size, is_one_record in self.listed:
            records = max(self.least_records, round(size / bytes_per_record))
            records = 1 if is_one_record else records
            yield Loss(offset, size, is_decompressed, records, error.reason)


class _Repair:
    """The search of one file, with its findings so far.

    Args:
        location: Damaged file.
        file: The open file.
        choice: Compression of the file, or ``"auto"``.

    Attributes:
        compression: Compression of the file.
    """

    def __init__(self, location: Location, file: ByteSource, choice: CompressionChoice) -> None:
        self.compression = detect_compression(head_of(file)) if choice == "auto" else choice
        self._location = location
        self._file = file
        self._file_bytes_read = 0
        self._records = 0
        self._frame_bytes = 0  # of these records
        self._gaps = _Losses(least_records=1)  # in the content
        self._parts = _Losses(least_records=0)  # of a compressed file
        self._map = DamageMap(file.stamp.size)
        self._began = time.perf_counter()

    def run(self, write: Callable[[bytes], None], max_record_bytes: int, watcher: Watcher) -> None:
        """Search the whole file and write all valid records.

        Args:
            write: Function that writes a record.
            max_record_bytes: Largest size of a record in bytes.
            watcher: Receiver of progress messages.
        """
        source: ByteSource = self._file
        if self.compression is not None:
            source = _salvage(self._location, self._file, self.compression)
        watcher.started(self._file.stamp.size)
        for block in iter_valid_frames(source, max_record_bytes=max_record_bytes):
            for _, record in block.records():
                write(record)
            self._records += len(block.block)
            self._frame_bytes += block.stored_bytes
            for gap in block.gaps:
                self._gaps.add(gap)
            before = self._file_bytes_read
            self._map.mark_gaps(block, None if self.compression is None else before)
            for part in source.take_lost() if isinstance(source, SalvagedFile) else ():
                self._parts.add(part)
                self._map.mark(part.offset, part.offset + part.size)
            watcher.advanced(block.file_bytes_read - before, len(block.block))
            self._file_bytes_read = block.file_bytes_read

    def refuse_total_loss(self) -> None:
        """Raise an error if the file is damaged and has no valid record."""
        if self._records == 0 and (self._gaps.size or self._parts.size):
            reason = self._gaps.listed[0].error.reason if self._gaps.listed else ""
            raise CorruptRecordError(
                reason
                if reason in FOREIGN_REASONS
                else "no sound record was found; is this a TFRecord file? If the start of a "
                "compressed file is lost, set input_compression (--input-compression)",
                path=self._file.path,
            )

    def report(self, output: str | None) -> RepairReport:
        """Return the report of the finished search."""
        file_bytes = self._file.stamp.size
        count = max(self._records, 1)
        per_record = max(self._frame_bytes / count, TFRECORD.overhead_bytes)
        stored_per_record = max((file_bytes - self._parts.size) / count, 1.0)
        is_compressed = self.compression is not None
        losses = [*self._parts.describe(stored_per_record, is_decompressed=False)]
        losses += self._gaps.describe(per_record, is_decompressed=is_compressed)
        return RepairReport(
            path=self._file.path,
            output=output,
            compression=self.compression,
            file_bytes=file_bytes,
            records=self._records,
            lost_records=self._gaps.estimate(per_record) + self._parts.estimate(stored_per_record),
            lost_bytes=self._parts.size if is_compressed else self._gaps.size,
            lost_decompressed_bytes=self._gaps.size if is_compressed else 0,
            losses=tuple(losses),
            unlisted_losses=self._gaps.unlisted + self._parts.unlisted,
            damage_map=self._map,
            seconds=time.perf_counter() - self._began,
        )


def _salvage(location: Location, file: ByteSource, compression: Compression) -> SalvagedFile:
    """Return the readable content of a file, by the seek points of its index if it has one."""
    index = IndexSearch(location).find()
    if index is not None and (index.compression != compression or len(index.seek_points) == 1):
        index = None
    return SalvagedFile(file, compression, index)
