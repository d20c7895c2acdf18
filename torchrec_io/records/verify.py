"""Checks every checksum of a file and says what is damaged."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import TorchRecIOError
from ..storage.compressed import CompressionChoice
from ..storage.local import LocalFile, StrPath
from .formats import Progress
from .sequential import iter_blocks, open_stream


@dataclass(frozen=True)
class VerifyReport:
    """What is in a data file.

    Attributes:
        path: The data file.
        file_bytes: Its size.
        records: Number of sound records.
        damaged: Number of records whose data does not match its checksum.
        damage: An error for each of these, or for the first of them where they are very many.
        lost: What makes the rest of the file unreadable, if anything does.
        lost_bytes: Size of that rest; None where a compressed stream does not tell.
    """

    path: str
    file_bytes: int
    records: int
    damaged: int
    damage: tuple[TorchRecIOError, ...]
    lost: TorchRecIOError | None
    lost_bytes: int | None

    @property
    def ok(self) -> bool:
        """Whether every byte of the file is as it was written."""
        return self.damaged == 0 and self.lost is None


def verify_file(
    path: StrPath,
    *,
    compression: CompressionChoice = "auto",
    progress: Progress | None = None,
    most_listed: int = 10_000,
) -> VerifyReport:
    """Reads a whole TFRecord file and checks the length and the data of each record.

    Goes on behind a record whose data is damaged. Behind a damaged length nobody knows where the
    next record starts: the rest of the file is lost then.

    Args:
        path: The data file.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        progress: Called now and then with the bytes of the file and the records done so far.
        most_listed: How many damaged records are described; the others are only counted, so that
            memory stays bounded.

    Raises:
        FileNotFoundError, IsADirectoryError: there is no such file.
    """
    source = open_stream(path, compression)
    records = damaged = 0
    damage: list[TorchRecIOError] = []
    lost = None
    try:
        for block in iter_blocks(source):
            records += len(block) - len(block.faults)
            damaged += len(block.faults)
            damage += block.errors(source.path)[: most_listed - len(damage)]
            if progress is not None:
                progress(block.consumed, records + damaged)
    except TorchRecIOError as error:
        lost = error
    size = os.path.getsize(path)
    lost_bytes: int | None = 0
    if lost is not None:
        plain = isinstance(source, LocalFile) and lost.offset is not None
        lost_bytes = size - (lost.offset or 0) if plain else None
    return VerifyReport(source.path, size, records, damaged, tuple(damage), lost, lost_bytes)
