"""RecordReader: records in any order, with few reads, and an error for each damaged record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import write_tfrecord
from torchrec_io import (
    RecordIndex,
    StaleIndexError,
)
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._storage.local import LocalFile

FILES: list[list[bytes]] = [
    [bytes([i]) * (i * 3) for i in range(50)],
    [],
    [os.urandom(30_000) for _ in range(20)],
    [b"", b"one"],
]
ALL = [record for file in FILES for record in file]
COMPRESSIONS = (None, None, "gzip", "zlib")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> RecordReader:
    folder = tmp_path_factory.mktemp("reader")
    indexes = []
    for number, (records, kind) in enumerate(zip(FILES, COMPRESSIONS, strict=True)):
        write_tfrecord(folder / f"{number}", records, kind)
        indexes.append(RecordIndex.build(folder / f"{number}"))
    return RecordReader(indexes)


def fetch(reader: RecordReader, numbers: list[int]) -> list[bytes]:
    block, errors = reader.fetch(reader.plan(np.array(numbers, np.int64)))
    assert errors == []
    assert block.numbers.tolist() == numbers
    return [block[i] for i in range(len(block))]


@given(numbers=st.lists(st.integers(0, len(ALL) - 1), max_size=80))
def test_any_records_in_any_order(reader: RecordReader, numbers: list[int]) -> None:
    assert fetch(reader, numbers) == [ALL[i] for i in numbers]


@pytest.mark.parametrize("number", [-1, len(ALL), 2**62])
def test_record_number_out_of_range(reader: RecordReader, number: int) -> None:
    with pytest.raises(IndexError, match=f"there are {len(ALL)} records"):
        reader.plan(np.array([0, number]))


def test_neighbouring_records_are_one_read(reader: RecordReader) -> None:
    plan = reader.plan(np.arange(50))
    assert [(file, len(ranges)) for file, ranges in plan.by_file()] == [(0, 1)]
    # Gaps of up to 4 KiB are read, larger ones are skipped.
    plan = reader.plan(np.array([49, 3, 20, 0]))
    assert [(file, len(ranges)) for file, ranges in plan.by_file()] == [(0, 1)]
    plan = reader.plan(np.array([50, 52, 53, 60]))
    assert [(file, len(ranges)) for file, ranges in plan.by_file()] == [(2, 3)]


class TestManyFiles:
    COUNT = 300

    @pytest.fixture
    def many(self, tmp_path: Path) -> RecordReader:
        paths = [
            write_tfrecord(tmp_path / f"{i:03}", [b"%d" % i] * 2, "gzip" if i == 7 else None)
            for i in range(self.COUNT)
        ]
        return RecordReader([RecordIndex.build(path) for path in paths])

    def test_batch_with_more_files_than_may_be_open(self, many: RecordReader) -> None:
        numbers = np.random.default_rng(0).permutation(2 * self.COUNT).tolist()
        before = len(os.listdir("/proc/self/fd"))
        assert fetch(many, numbers) == [b"%d" % (number // 2) for number in numbers]
        assert len(os.listdir("/proc/self/fd")) - before <= 128
        assert fetch(many, [599, 0]) == [b"299", b"0"]


class TestDamage:
    def make(self, folder: Path, *, flip: int = 0, **options: Any) -> tuple[Path, RecordReader]:
        path = folder / "x"
        write_tfrecord(path, [b"aaaa", b"bbbb", b"cccc"])
        if flip:
            self.flip(path, flip)
        return path, RecordReader([RecordIndex.build(path)], **options)

    def flip(self, path: Path, at: int) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)

    def test_checksums_can_be_unchecked(self, tmp_path: Path) -> None:
        path, reader = self.make(tmp_path, flip=20 + 13, verify_crc=False)
        self.flip(path, 40 + 9)  # in the checksum of a length; no fingerprint shows it
        reader.indexes[0].data_stamp = LocalFile(path).stamp
        assert fetch(reader, [1, 2]) == [b"bcbb", b"cccc"]
        path, reader = self.make(tmp_path, verify_crc=False)
        self.flip(path, 40)  # a length
        reader.indexes[0].data_stamp = LocalFile(path).stamp
        _, (error,) = reader.fetch(reader.plan(np.array([2])))
        assert isinstance(error, StaleIndexError)
        assert "length differs from the one in the index" in str(error)
