"""Readers of converted records, with protobuf and with a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.messages import Example
from torchrec_io._records.sequential import iter_records
from torchrec_io.tools.report import Watcher

Row = dict[str, list[Any]]


def rows_of(paths: Iterable[str]) -> list[Row]:
    """Return the values of each feature of each record of files."""
    return [_row(record) for path in paths for _, record in iter_records(path)]


def _row(record: bytes) -> Row:
    features = Example.FromString(record).features.feature
    row = {}
    for name, feature in features.items():
        kind = feature.WhichOneof("kind")
        row[name] = list(getattr(feature, kind).value) if kind else []
    return row


def kinds_of(path: str) -> dict[str, set[str | None]]:
    """Return the kinds of each feature in the records of a file."""
    kinds: dict[str, set[str | None]] = {}
    for _, record in iter_records(path):
        for name, feature in Example.FromString(record).features.feature.items():
            kinds.setdefault(name, set()).add(feature.WhichOneof("kind"))
    return kinds


def count_read(done: tio.tools.Result) -> int:
    """Return the number of records that a dataset reads with the schema of a conversion."""
    assert done.schema is not None
    return len(list(tio.TFRecordDataset(done.paths, done.schema, num_threads=1)))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files, including hidden ones."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Heard(Watcher):
    """Watcher that sums up all reports."""

    def __init__(self) -> None:
        self.total = self.size = self.records = 0
        self.errors: list[str] = []

    def started(self, total: int) -> None:
        self.total = total

    def advanced(self, size: int, records: int) -> None:
        self.size += size
        self.records += records

    def skipped(self, error: tio.TorchRecIOError) -> None:
        self.errors.append(str(error))
