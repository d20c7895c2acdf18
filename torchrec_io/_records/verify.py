"""Verification of all checksums of a TFRecord file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from .._storage.compression import CompressionChoice
from .._storage.local import StrPath
from .._storage.location import Location
from ..errors import TorchRecIOError
from .damage_map import DamageMap
from .formats import Progress
from .record_size import MAX_RECORD_BYTES
from .sequential import iter_blocks

_MOST_LISTED = 10_000


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
    most_listed: int = _MOST_LISTED,
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
    records = damaged = 0
    damage: list[TorchRecIOError] = []
    lost = None
    lost_bytes: int | None = 0
    with closing(Location.of(path).open_stream(compression)) as source:
        size = source.stamp.size
        damage_map = DamageMap(size)
        file_bytes = 0  # of the file that were read
        try:
            for block in iter_blocks(source, max_record_bytes=max_record_bytes):
                records += len(block.block)
                damaged += len(block.gaps)
                damage += block.errors[: most_listed - len(damage)]
                damage_map.mark_gaps(block, file_bytes if source.size is None else None)
                file_bytes = block.file_bytes_read
                if progress is not None:
                    progress(file_bytes, records + damaged)
        except TorchRecIOError as error:
            lost = error
            lost_bytes = None
            if source.size is not None and error.offset is not None:
                lost_bytes = source.size - error.offset
            damage_map.mark(size - (lost_bytes or size - file_bytes), size)
        return VerifyReport(
            source.path, size, records, damaged, tuple(damage), lost, lost_bytes, damage_map
        )
