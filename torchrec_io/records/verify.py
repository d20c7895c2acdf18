"""Verification of all checksums of a TFRecord file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from ..errors import TorchRecIOError
from ..storage.byte_source import ByteSource
from ..storage.compression import CompressionChoice
from ..storage.local import StrPath
from ..storage.location import Location
from .damage_map import DamageMap
from .file_piece import FilePiece
from .formats import TFRECORD, Progress
from .record_size import MAX_RECORD_BYTES
from .sequential import FrameBlock, iter_blocks


@dataclass(frozen=True)
class VerifyReport:
    """Result of verifying a data file.

    Attributes:
        path: Data file.
        file_bytes: Size of the file in bytes.
        records: Number of valid records.
        damaged: Number of records whose data does not match its checksum.
        damage: An error for each damaged record, or for the first ones if there are very many.
        lost: Error that makes the rest of the file unreadable, if any.
        lost_bytes: Size of that rest in bytes; None if it is unknown, as in a compressed stream.
        damage_map: Damaged parts of the file. In a compressed file, damage is marked where the
            compressed bytes around it are.
    """

    path: str
    file_bytes: int
    records: int
    damaged: int
    damage: tuple[TorchRecIOError, ...]
    lost: TorchRecIOError | None
    lost_bytes: int | None
    damage_map: DamageMap = field(compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """True if no damage was found."""
        return self.damaged == 0 and self.lost is None


def verify_file(
    path: StrPath,
    *,
    compression: CompressionChoice = "auto",
    max_record_bytes: int = MAX_RECORD_BYTES,
    progress: Progress | None = None,
    most_listed: int = 10_000,
) -> VerifyReport:
    """Read a whole TFRecord file and check the length and the data of each record.

    Verification continues after a record with damaged data. After a damaged length the rest of the
    file is lost, because the start of the next record is unknown.

    Args:
        path: Data file.
        compression: Compression of the file: ``"auto"`` (by content), None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        max_record_bytes: Largest size of a record in bytes. A larger one counts as damaged.
        progress: Function that is called now and then with the number of bytes of the file and the
            number of records read so far.
        most_listed: Largest number of errors in ``damage``, to bound memory. Further damaged
            records are only counted.

    Raises:
        FileNotFoundError, IsADirectoryError: If there is no such file.
    """
    source = Location.of(path).open_stream(compression)
    blocks = iter_blocks(source, max_record_bytes=max_record_bytes)
    return _verify(source, blocks, progress, most_listed)


def verify_piece(piece: FilePiece, *, most_listed: int = 10_000) -> VerifyReport:
    """Verify consecutive records of a file that is not compressed.

    If a part of it is lost, ``lost_bytes`` and ``damage_map`` extend only to the end of the piece.

    Args:
        piece: The records.
        most_listed: Largest number of errors in ``damage``.

    Raises:
        StaleIndexError: If the file is not the one that was indexed.
    """
    with closing(piece.open()) as source:
        blocks = iter_blocks(source, start=piece.begin, first=piece.first)
        return _verify(source, blocks, None, most_listed)


def joined_reports(reports: Sequence[VerifyReport], most_listed: int = 10_000) -> VerifyReport:
    """Return the report of a file from those of its parts, none of which has lost records.

    Args:
        reports: Reports of all parts of a file, in order.
        most_listed: Largest number of errors in ``damage``.
    """
    whole = DamageMap(reports[0].file_bytes)
    for report in reports:
        whole.add(report.damage_map)
    damage = [error for report in reports for error in report.damage]
    return replace(
        reports[0],
        records=sum(report.records for report in reports),
        damaged=sum(report.damaged for report in reports),
        damage=tuple(damage[:most_listed]),
        damage_map=whole,
    )


def _verify(
    source: ByteSource,
    blocks: Iterable[FrameBlock],
    progress: Progress | None,
    most_listed: int,
) -> VerifyReport:
    records = damaged = 0
    damage: list[TorchRecIOError] = []
    lost = None
    lost_bytes: int | None = 0
    size = source.stamp.size
    damage_map = DamageMap(size)
    is_plain = source.size is not None
    file_bytes = 0  # of the file that were read
    try:
        for block in blocks:
            errors = block.errors(source.path)
            records += len(block) - len(block.faults)
            damaged += len(errors)
            damage += errors[: most_listed - len(damage)]
            if errors:
                _mark(damage_map, block, is_plain, file_bytes)
            file_bytes = block.file_bytes_read
            if progress is not None:
                progress(block.file_bytes_read, records + damaged)
    except TorchRecIOError as error:
        lost = error
        lost_bytes = None
        if source.size is not None and error.offset is not None:
            lost_bytes = source.size - error.offset
        damage_map.mark(size - (lost_bytes or size - file_bytes), size)
    return VerifyReport(
        source.path, size, records, damaged, tuple(damage), lost, lost_bytes, damage_map
    )


def _mark(damage_map: DamageMap, block: FrameBlock, is_plain: bool, file_bytes: int) -> None:
    """Mark the damaged records of a block, which starts at ``file_bytes`` if it is compressed."""
    content = range(block.offset, block.offset + len(block.buffer))
    stored = content if is_plain else range(file_bytes, block.file_bytes_read)
    for position, _, _ in block.faults:
        begin = block.offset + int(block.starts[position])
        size = int(block.lengths[position]) + TFRECORD.overhead_bytes
        damage_map.mark_content(begin, begin + size, content, stored)
    if block.too_large is not None:
        end = block.offset + block.too_large_bytes
        whole = range(block.offset, end)
        damage_map.mark_content(block.offset, end, whole, whole if is_plain else stored)
