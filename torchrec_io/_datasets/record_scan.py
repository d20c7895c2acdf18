"""Passes over the records of a dataset in their stored order."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Any, NamedTuple

from .._order.selection import Numbers, Selection, parts_of
from .._records.scan import BLOCK_RECORDS, scan
from .bad_records import ErrorHandler
from .record_loader import Loaded, RecordLoader

# Parsed records may be many times as large as stored ones, so blocks are small.
_BLOCK_BYTES = 1 << 20


class ScannedRecords(NamedTuple):
    """Some consecutive records of a pass.

    Attributes:
        numbers: Numbers of the records; int64 ``[n]``.
        loaded: The records that could be loaded.
    """

    numbers: Numbers
    loaded: Loaded


def load_all(
    loader: RecordLoader, selection: Selection, errors: ErrorHandler, threads: int
) -> Generator[ScannedRecords]:
    """Load all selected records once, in their stored order.

    Close the generator if it is left early, so that its threads end.

    Args:
        loader: Reads and parses the records.
        selection: The records.
        errors: Handles the errors of records that cannot be loaded.
        threads: Number of threads that read and parse; 1 is the calling thread.

    Raises:
        TorchRecIOError, OSError: If a record cannot be loaded and ``errors`` raises that, or files
            changed since they were indexed.
    """

    def load(plan: Any) -> ScannedRecords:
        return ScannedRecords(plan.numbers, loader.load(plan))

    loader.reader.begin_epoch()
    numbers = parts_of(selection, BLOCK_RECORDS)
    try:
        with closing(scan(loader.reader, numbers, load, threads, max_bytes=_BLOCK_BYTES)) as pieces:
            for piece in pieces:
                errors.handle_loaded(piece.loaded, loader)
                yield piece
    finally:
        errors.report()
