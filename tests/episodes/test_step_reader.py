"""StepReader: each record is read once for all its samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.index_cache import open_indexes
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._storage.location import Location
from torchrec_io.episodes.reader import StepNumbers, StepReader
from torchrec_io.errors import CorruptRecordError

RECORDS = [b"one", b"", b"three", b"four" * 3000]
COUNTS = [2, 0, 3, 2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "data", RECORDS)


def open_reader(path: Path) -> StepReader:
    indexes, _ = open_indexes([Location.of(path)], "auto", "auto")
    return StepReader(RecordReader(indexes), StepNumbers(np.array(COUNTS, np.int64)))


def test_rows_are_samples(path: Path) -> None:
    reader = open_reader(path)
    plan = reader.plan(np.array([6, 0, 3, 1, 3]))
    block, errors = reader.fetch(plan)
    assert errors == []
    assert [block[i] for i in range(5)] == [RECORDS[i] for i in (3, 0, 2, 0, 2)]
    assert block.numbers.tolist() == [6, 0, 3, 1, 3]
    assert len(block.buffer) < 2 * len(RECORDS[3])  # each record once
    with pytest.raises(IndexError):
        reader.plan(np.array([7]))


def test_location_of_a_sample(path: Path) -> None:
    reader = open_reader(path)
    assert reader.locate([1, 2, 4]) == [
        (str(path), record, offset, f"{path}:{offset}#{step}")
        for record, offset, step in [(0, 0, 1), (2, 35, 0), (2, 35, 2)]
    ]


def test_damaged_record_is_one_error(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[35 + 12] ^= 1  # an index does not read the data
    path.write_bytes(data)
    reader = open_reader(path)
    plan = reader.plan(np.array([0, 2, 3, 6, 4]))
    block, [error] = reader.fetch(plan)
    assert block.numbers.tolist() == [0, 6]
    assert isinstance(error, CorruptRecordError)
    assert error.record == 2
