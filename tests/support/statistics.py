"""What statistics must be, computed from the records alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torchrec_io as tio

COUNTS = ("records", "bytes", "batches", "skipped", "repeated")
STEPS = ("reading", "checking", "parsing", "decoding", "transform")
TIMES = (*STEPS, "waiting_for_consumer", "waiting_for_data", "copying", "seconds")


def counts_of(stats: tio.LoadingStats) -> dict[str, int]:
    """Return the numbers that do not depend on speed."""
    return {name: getattr(stats, name) for name in COUNTS}


def expected(
    records: int, stored: int, batches: int = 0, skipped: int = 0, repeated: int = 0
) -> dict[str, int]:
    """Return numbers as those of :func:`counts_of`."""
    return dict(zip(COUNTS, (records, stored, batches, skipped, repeated), strict=True))


def frame_bytes(record: bytes) -> int:
    """Return the size of a record as stored."""
    return len(record) + 16


def file_bytes(paths: Iterable[str]) -> int:
    """Return the size of files."""
    return sum(map(os.path.getsize, paths))


def total(all_stats: Iterable[tio.LoadingStats]) -> dict[str, Any]:
    """Return the sums of the numbers of several statistics."""
    each = [counts_of(stats) for stats in all_stats]
    return {name: sum(counts[name] for counts in each) for name in each[0]}


def check_times(stats: tio.LoadingStats, threads: int = 1) -> None:
    """Check that times are possible if that many threads load, all of them in one process."""
    assert all(getattr(stats, name) >= 0 for name in TIMES), stats
    steps = sum(getattr(stats, name) for name in STEPS)
    margin = 1e-6  # of rounding
    assert stats.waiting_for_data + stats.copying <= stats.seconds + margin, stats
    if threads == 1:
        assert steps <= stats.waiting_for_data + margin, stats
