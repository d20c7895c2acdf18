"""Files that are replaced, shortened or removed while a dataset uses them."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, StaleIndexError, TFRecordDataset, TruncatedFileError

COUNT = 20_000  # enough records for an index that is read by pages
RECORDS = [b"%05d" % i for i in range(COUNT)]
OTHERS = [b"%06d" % i for i in range(COUNT)]


@pytest.fixture(params=["pages", "small", "gzip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Write a data file whose index is read by pages, is small, or has seek points."""
    path = tmp_path / "x"
    records = RECORDS[:100] if request.param == "small" else RECORDS
    write_tfrecord(path, records, "gzip" if request.param == "gzip" else None)
    RecordIndex.build(path).save()
    return path


def opened(path: Path) -> TFRecordDataset:
    return TFRecordDataset(path, batch_size=20, num_threads=1)


def count_valid(batches: Iterable[list[bytes]], first: int = 0) -> int:
    """Return the number of records, which must be those from ``first`` on."""
    found = [record for batch in batches for record in batch]
    assert found == RECORDS[first : first + len(found)]
    return len(found)


def replace(path: Path, records: list[bytes]) -> None:
    """Replace a file atomically with another one."""
    os.replace(write_tfrecord(path.with_name("new"), records), path)


def test_replaced_before_its_first_use(path: Path) -> None:
    dataset = opened(path)
    replace(path, OTHERS)
    for _ in range(2):  # the error persists
        with pytest.raises(StaleIndexError, match="was replaced or changed") as caught:
            list(dataset)
        assert caught.value.path == str(path)


def test_replaced_or_removed_in_an_epoch(path: Path) -> None:
    dataset = opened(path)
    dumped = pickle.dumps(dataset)
    batches = iter(dataset)
    assert count_valid([next(batches)]) == 20
    replace(path, OTHERS)
    # The open file is used until the end of the epoch, and in no other process.
    assert count_valid(batches, 20) == len(dataset) * 20 - 20
    for other in (dataset, pickle.loads(dumped)):
        with pytest.raises(StaleIndexError, match="was replaced or changed"):
            list(other)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=str(path)):
        list(dataset)


def test_replaced_by_the_same_content(path: Path) -> None:
    dataset = opened(path)
    count = count_valid(dataset)
    shutil.copyfile(path, path.with_name("copy"))
    os.replace(path.with_name("copy"), path)
    os.utime(path, ns=(1, 1))
    for _ in range(2):
        assert count_valid(dataset) == count


def test_truncated_and_replaced_files_are_distinguished(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", RECORDS)
    dataset = opened(path)
    for size in (21 * 1000 + 5, 100, 5, 0):
        os.truncate(path, size)
        with pytest.raises(TruncatedFileError, match="shorter") as caught:
            list(dataset)
        assert caught.value.path == str(path)
    replace(path, OTHERS[:50])
    with pytest.raises(StaleIndexError, match="was replaced or changed"):
        list(dataset)
