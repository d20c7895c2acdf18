"""Arguments that the native module refuses where it reads records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.datasets import write_files
from torchrec_io import _core
from torchrec_io._records.opening import open_indexes
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._storage.location import Location


def reader_of(paths: list[str], **options: Any) -> RecordReader:
    indexes, errors = open_indexes([Location.of(path) for path in paths], "auto", "auto")
    assert not errors
    return RecordReader(indexes, **options)


@pytest.fixture(scope="module", params=[None, "gzip"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("data"), [40, 1, 30], request.param)


def test_blocks_that_lack_a_record_are_refused(files: list[str]) -> None:
    reader = reader_of(files)
    plan, stored = reader.plan(np.array([5, 1])), reader.plan(np.arange(4))
    block = _core.FrameBlock(stored, reader.read(stored))
    buffer = np.zeros(plan.buffer_bytes, np.uint8)

    def gather(block_numbers: list[int], record_blocks: list[int]) -> int | None:
        numbers = np.array(block_numbers), np.array(record_blocks)
        return _core.gather_frames([block], numbers[0], plan, numbers[1], buffer)

    assert gather([0], [0, 0]) == 0
    assert gather([0], [7, 0]) is None
    with pytest.raises(ValueError, match="each block must have a number"):
        gather([0, 1], [0, 0])
    with pytest.raises(ValueError, match="each record must have a block"):
        gather([0], [0])


@pytest.fixture
def reads(tmp_path: Path) -> Iterator[tuple[_core.BatchReads, list[int], Any, _core.Records]]:
    """Reads of three records, their descriptors, plan and records."""
    reader = reader_of(write_files(tmp_path, [5]))
    plan = reader.plan(np.arange(3))
    [opened] = reader.open_run([plan])
    descriptors = [*opened.descriptors]
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    records = _core.Records(buffer, plan.frame_starts + 12, plan.frame_sizes - 16)
    yield _core.BatchReads(descriptors, plan, buffer, records), descriptors, plan, records
    del opened  # the files are open until then


def test_arguments_that_do_not_match_are_refused(reads: Any) -> None:
    parser = _core.ExampleParser([])
    good, descriptors, plan, records = reads
    buffer = np.zeros(plan.buffer_bytes, np.uint8)
    for wrong in ([], [*descriptors, 0]):
        with pytest.raises(ValueError, match="one descriptor for each file"):
            _core.BatchReads(wrong, plan, buffer, records)
    with pytest.raises(ValueError, match="smaller than the plan"):
        _core.BatchReads(descriptors, plan, buffer[:-1], records)
    with pytest.raises(ValueError, match="targets and an arena"):
        _core.load_fixed_batches(parser, [good], [], [], True)
    with pytest.raises(ValueError, match="targets and an arena"):
        _core.fill_batches([], [_core.ColumnTargets(0)], [buffer])
