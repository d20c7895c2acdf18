"""Passes over records by their numbers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._records.scan import scan
from torchrec_io._storage.ordered_pool import THREAD_NAME

RECORDS = [bytes([number]) * 50 for number in range(100)]
PARTS = [np.arange(begin, begin + 20) for begin in range(0, 100, 20)]


def reader_of(folder: Path, compression: str | None) -> RecordReader:
    path = write_tfrecord(folder / "x", RECORDS, compression)
    return RecordReader([RecordIndex.build(path)])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("compression", [None, "gzip"])  # gzip is read ahead
def test_blocks_come_in_order(tmp_path: Path, compression: str | None, threads: int) -> None:
    reader = reader_of(tmp_path, compression)
    ahead: list[int] = []
    prefetch = reader.prefetch

    def note(plans: Any) -> None:
        ahead.extend(number for plan in plans for number in plan.numbers.tolist())
        prefetch(plans)

    reader.prefetch = note  # type: ignore[method-assign]
    found = list(scan(reader, PARTS, reader.fetch, threads, max_bytes=300))
    assert all(0 < len(block) <= 5 and not errors for block, errors in found)
    assert [bytes(block[row]) for block, _ in found for row in range(len(block))] == RECORDS
    assert ahead == (list(range(100)) if compression else [])


def test_the_first_error_ends_a_pass(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, None)

    def visit(plan: Any) -> int:
        first = int(plan.numbers[0])
        if first >= 40:
            raise ValueError(first)
        return first

    seen: list[int] = []
    with pytest.raises(ValueError, match=r"^40$"):
        seen.extend(scan(reader, PARTS, visit, 3))
    assert seen == [0, 20]
    assert not [each for each in threading.enumerate() if THREAD_NAME in each.name]


def test_a_pass_that_is_left_early_ends_its_threads(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, None)
    blocks = scan(reader, PARTS, reader.fetch, 3)
    next(blocks)
    blocks.close()
    assert not [each for each in threading.enumerate() if THREAD_NAME in each.name]
