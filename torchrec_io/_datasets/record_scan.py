"""Passes over the records of a dataset in their stored order."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from .._order.selection import Numbers, Selection, parts_of
from .._records.scan import BLOCK_RECORDS, scan
from .._storage.thread_pool import most_storage_threads
from .._tensors.loaded import Loaded
from .bad_records import ErrorHandler
from .record_loader import RecordLoader
from .worker_state import WorkerState

# Parsed records may be many times as large as stored ones, so blocks are small.
_BLOCK_BYTES = 1 << 20


def load_all(
    loader: RecordLoader, selection: Selection, options: Mapping[str, Any], state: WorkerState
) -> Generator[tuple[Numbers, Loaded]]:
    """Load all selected records once, in their stored order.

    Close the generator if it is left early, so that its threads end.

    Args:
        loader: Reads and parses the records.
        selection: The records.
        options: Options of the dataset, of which ``on_error`` and ``num_threads`` are used.
        state: Counts the errors that are skipped.

    Yields:
        The numbers of some consecutive records, int64 ``[n]``, and those that could be loaded.

    Raises:
        TorchRecIOError, OSError: If a record cannot be loaded and ``on_error`` is "raise", or files
            changed since they were indexed.
    """

    def load(plan: Any) -> tuple[Numbers, Loaded]:
        return plan.numbers, loader.load(plan)

    errors = ErrorHandler(options.get("on_error", "raise"), state.counters)
    threads = options.get("num_threads") or most_storage_threads()
    loader.reader.begin_epoch()
    numbers = parts_of(selection, BLOCK_RECORDS)
    try:
        with closing(scan(loader.reader, numbers, load, threads, max_bytes=_BLOCK_BYTES)) as pieces:
            for piece, loaded in pieces:
                errors.handle_loaded(loaded, loader)
                yield piece, loaded
    finally:
        errors.report()
