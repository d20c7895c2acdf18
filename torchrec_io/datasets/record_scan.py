"""Passes over records in their stored order, loaded ahead by threads."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..order.selection import Numbers, Selection
from ..records.reader import Reader
from .bad_records import ErrorHandler
from .job_queue import JobQueue, LoadJob, NumberedChunk
from .prefetch import Outcome, Prefetcher
from .record_loader import Loaded, RecordLoader

# Records are loaded in pieces of at most this many records, and about this many stored bytes.
_MOST_RECORDS = 8192
_MOST_BYTES = 1 << 20
_FIRST_RECORDS = 64


class Piece(NamedTuple):
    """Some consecutive records of a pass.

    Attributes:
        numbers: Numbers of the records; int64 ``[n]``.
        loaded: The records that could be loaded.
    """

    numbers: Numbers
    loaded: Loaded


def scan(
    loader: RecordLoader, selection: Selection, errors: ErrorHandler, threads: int
) -> Generator[Piece, None, None]:
    """Yield all selected records once, in their stored order.

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

    def load(jobs: Sequence[LoadJob]) -> list[Outcome]:
        return [_load(loader, job) for job in jobs]

    loader.reader.begin_epoch()
    pieces = ((0, NumberedChunk(numbers)) for numbers in _pieces(loader.reader, selection))
    queue = JobQueue(pieces, loader.reader, 1)
    prefetcher: Prefetcher[Loaded] = Prefetcher(load, queue, threads, threads)
    try:
        while (result := prefetcher.next()) is not None:
            job, loaded = result
            errors.handle_loaded(loaded, loader)
            yield Piece(job.chunk.numbers, loaded)
    finally:
        prefetcher.close()
        errors.report()


def _pieces(reader: Reader, selection: Selection) -> Iterator[Numbers]:
    """Yield the numbers of records that are loaded together."""
    begin, size = 0, _FIRST_RECORDS
    while begin < len(selection):
        end = min(begin + size, len(selection))
        numbers = selection.numbers_at(np.arange(begin, end, dtype=np.int64))
        stored = int(reader.plan(numbers).buffer_bytes)
        if stored > _MOST_BYTES and size > 1:
            size = max(1, min(size // 2, size * _MOST_BYTES // stored))
            continue
        yield numbers
        begin = end
        if 2 * stored < _MOST_BYTES:
            size = min(2 * size, _MOST_RECORDS)


def _load(loader: RecordLoader, job: LoadJob) -> Outcome:
    if job.error is not None:
        return Outcome(None, job.error)
    try:
        return Outcome(loader.load(job.plan))
    except BaseException as error:  # noqa: BLE001  # raised when this piece is asked for
        return Outcome(None, error)
