"""Readers of converted records: by protobuf and by a dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.messages import Example
from torchrec_io.records.sequential import iter_records
from torchrec_io.tools.report import Watcher

Row = dict[str, list[Any]]


def rows_of(paths: Iterable[str]) -> list[Row]:
    """Values of each feature of each record, file after file."""
    return [_row(record) for path in paths for _, record in iter_records(path)]


def _row(record: bytes) -> Row:
    features = Example.FromString(record).features.feature
    row = {}
    for name, feature in features.items():
        kind = feature.WhichOneof("kind")
        row[name] = list(getattr(feature, kind).value) if kind else []
    return row


def kinds_of(path: str) -> dict[str, set[str | None]]:
    """The kinds that each feature has in the records of a file."""
    kinds: dict[str, set[str | None]] = {}
    for _, record in iter_records(path):
        for name, feature in Example.FromString(record).features.feature.items():
            kinds.setdefault(name, set()).add(feature.WhichOneof("kind"))
    return kinds


def count_read(done: tio.tools.Result) -> int:
    """How many records a dataset reads by the schema that the conversion gives."""
    assert done.schema is not None
    return len(list(tio.TFRecordDataset(done.paths, done.schema, num_threads=1)))


def contents(folder: Path) -> dict[str, bytes]:
    """All files, hidden ones too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Heard(Watcher):
    """Adds up what it is told."""

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
