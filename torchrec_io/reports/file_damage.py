"""Damage of files that was found while their records were read."""

from __future__ import annotations

from collections import Counter

from .._records.index import RecordIndex
from .._records.verify import verify_file
from ..errors import DecodeError, TorchRecIOError
from ..tools.report import Watcher
from .content import FileReport

_CELLS = 120
# Damaged files up to this size in total are searched for all damage.
_MOST_SEARCHED = 1 << 30


class Faults(Watcher):
    """The errors of records, by file. Progress is passed on to another watcher.

    Args:
        watcher: Receiver of the progress.

    Attributes:
        damaged: Number of damaged records of each file.
        unfit: Number of records that do not match the schema.
        first_reason: The first error about these.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.damaged: Counter[str] = Counter()
        self.unfit: int = 0
        self.first_reason: str = ""

    def advanced(self, size: int, records: int) -> None:
        self._watcher.advanced(size, records)

    def skipped(self, error: TorchRecIOError) -> None:
        """Count a damaged record."""
        self.damaged[error.path or ""] += 1

    def refuse(self, error: DecodeError) -> None:
        """Count a record that cannot be parsed."""
        self.unfit += 1
        self.first_reason = self.first_reason or str(error)


def report_files(indexes: tuple[RecordIndex, ...], faults: Faults) -> tuple[FileReport, ...]:
    """Return a report of each file. Damaged files are searched for all damage, unless large."""
    left = _MOST_SEARCHED
    reports = []
    for index in indexes:
        path = index.data_path
        size = index.location.stamp().size
        total = int(index.lengths.sum())
        damaged, damage = faults.damaged[path], index.damage
        cells: tuple[bool, ...] = ()
        if (damaged or damage is not None) and size <= left:
            left -= size
            found = verify_file(index.location, most_listed=0)
            damaged, damage = found.damaged, found.lost
            cells = tuple(found.damage_map.cells(_CELLS))
        reason = "" if damage is None else damage.reason
        reports.append(
            FileReport(path, len(index), size, total, index.compression, damaged, reason, cells)
        )
    return tuple(reports)
