"""Files that are replaced, changed or removed while in use."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, StaleIndexError, TruncatedFileError
from torchrec_io._records.record_reader import RecordReader

COUNT = 20_000  # enough records for an index that is read by pages
RECORDS = [b"%05d" % i for i in range(COUNT)]
OTHERS = [b"%06d" % i for i in range(COUNT)]


@pytest.fixture(params=["pages", "small", "memory", "gzip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write a data file whose index is read by pages, small, or only in memory."""
    path = tmp_path / "x"
    kind = request.param
    records = RECORDS[:100] if kind == "small" else RECORDS
    write_tfrecord(path, records, "gzip" if kind == "gzip" else None)
    if kind != "memory":
        RecordIndex.build(path).save()
    return path


def open_reader(path: Path) -> RecordReader:
    beside = path.with_name(path.name + ".tfidx").exists()
    return RecordReader([RecordIndex.load(path) if beside else RecordIndex.build(path)])


def check_reads(reader: RecordReader) -> None:
    block, errors = reader.fetch(reader.plan(np.array([7, 3])))
    assert errors == []
    assert [block[0], block[1]] == [RECORDS[7], RECORDS[3]]


def replace(path: Path, records: list[bytes]) -> None:
    """Replace a file atomically with another one."""
    os.replace(write_tfrecord(path.with_name("new"), records), path)


def in_child(work: Callable[[], None]) -> int:
    """Run work in a forked process. Return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # reported by the exit status
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


class TestData:
    def test_replaced_before_its_first_use(self, path: Path) -> None:
        reader = open_reader(path)
        replace(path, OTHERS)
        for _ in range(2):  # the error persists
            with pytest.raises(StaleIndexError, match="was replaced or changed") as caught:
                reader.plan(np.array([0]))
            assert caught.value.path == str(path)

    def test_replaced_between_epochs(self, path: Path) -> None:
        reader = open_reader(path)
        check_reads(reader)
        replace(path, OTHERS)
        check_reads(reader)  # the open file is used until the end of the epoch
        reader.begin_epoch()
        with pytest.raises(StaleIndexError, match="was replaced or changed"):
            check_reads(reader)

    def test_replaced_by_the_same_content(self, path: Path) -> None:
        reader = open_reader(path)
        check_reads(reader)
        shutil.copyfile(path, path.with_name("copy"))
        os.replace(path.with_name("copy"), path)
        os.utime(path, ns=(1, 1))
        for _ in range(2):
            reader.begin_epoch()
            check_reads(reader)
            assert reader.files.open([0])[0].stamp.file[1] == path.stat().st_ino

    def test_new_process_finds_the_replaced_file(self, path: Path) -> None:
        reader = open_reader(path)
        check_reads(reader)
        dumped = pickle.dumps(reader)
        check_reads(pickle.loads(dumped))
        assert in_child(lambda: check_reads(reader)) == 0
        replace(path, OTHERS)
        with pytest.raises(StaleIndexError, match="was replaced or changed"):
            check_reads(pickle.loads(dumped))

        def work() -> None:
            with pytest.raises(StaleIndexError, match="was replaced or changed"):
                check_reads(reader)

        assert in_child(work) == 0
        check_reads(reader)  # still open in this process

    def test_removed(self, path: Path) -> None:
        reader = open_reader(path)
        check_reads(reader)
        path.unlink()
        check_reads(reader)
        reader.begin_epoch()
        with pytest.raises(FileNotFoundError, match=str(path)):
            check_reads(reader)


def test_truncated_and_replaced_files_are_distinguished(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", RECORDS)
    reader = open_reader(path)
    for size in (21 * 1000 + 5, 100, 5, 0):
        os.truncate(path, size)
        with pytest.raises(TruncatedFileError, match="shorter") as caught:
            check_reads(reader)
        assert caught.value.path == str(path)
    replace(path, OTHERS[:50])
    with pytest.raises(StaleIndexError, match="was replaced or changed"):
        check_reads(reader)
