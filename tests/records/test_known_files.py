"""Datasets of many files, which are opened with what the cache knows about them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.tfrecord import frame, write_tfrecord

FILES = 1000  # from that number on


def records_of(number: int) -> list[bytes]:
    return [b"%d-%d" % (number, each) for each in range(number % 3 + 1)]


EXPECTED = [record for number in range(FILES) for record in records_of(number)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(FILES):
        write_tfrecord(folder / f"{number:04}.tfrecord", records_of(number))
    return folder


def cached_indexes() -> list[Path]:
    return [*Path(os.environ["TORCHREC_IO_CACHE"]).glob("*.tfidx")]


def remove_indexes() -> None:
    for path in cached_indexes():
        path.unlink()


def read(folder: Path) -> list[bytes]:
    return list(tio.TFRecordDataset(folder))


def test_indexes_are_found_on_first_use(folder: Path) -> None:
    assert read(folder) == EXPECTED
    assert len(cached_indexes()) == FILES
    remove_indexes()
    dataset = tio.TFRecordDataset(folder, shuffle=True)
    assert len(dataset) == len(EXPECTED)
    state = dataset.state_dict()
    assert cached_indexes() == []
    shuffled = list(dataset)
    assert sorted(shuffled) == sorted(EXPECTED)
    assert len(cached_indexes()) == FILES
    # The order and its states are those of indexes that were read at once.
    next(Path(os.environ["TORCHREC_IO_CACHE"]).glob("*.facts")).unlink()
    again = tio.TFRecordDataset(folder, shuffle=True)
    again.load_state_dict(state)
    assert list(again) == shuffled


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_find_their_indexes(folder: Path, start_method: str) -> None:
    read(folder)
    remove_indexes()
    dataset = tio.TFRecordDataset(folder, batch_size=50)
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context=start_method
    )
    assert sorted(record for batch in loader for record in batch) == sorted(EXPECTED)


def test_files_that_change_are_indexed_again(folder: Path) -> None:
    read(folder)
    write_tfrecord(folder / "0500.tfrecord", [b"new"] * 7)
    (folder / "0999.tfrecord").unlink()
    expected = [record for record in EXPECTED if record.split(b"-")[0] not in (b"500", b"999")]
    write_tfrecord(folder / "1000.tfrecord", [b"last"])
    for _ in range(2):
        found = read(folder)
        assert found.count(b"new") == 7
        assert [record for record in found if record != b"new"] == [*expected, b"last"]


@pytest.mark.parametrize("data", [[b"0-0", b"more"], [b"0-1"]])
def test_a_file_that_changes_after_opening_is_an_error(folder: Path, data: list[bytes]) -> None:
    read(folder)
    dataset = pickle.loads(pickle.dumps(tio.TFRecordDataset(folder)))
    write_tfrecord(folder / "0000.tfrecord", data)
    with pytest.raises(tio.StaleIndexError, match="has another content") as caught:
        next(iter(dataset))
    assert caught.value.path == str(folder / "0000.tfrecord")


def test_a_damaged_file_is_an_error_each_time(folder: Path) -> None:
    damaged = frame(b"first") + frame(b"second")[:10]
    (folder / "0300.tfrecord").write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(tio.TruncatedFileError):
            tio.TFRecordDataset(folder)
        dataset = tio.TFRecordDataset(folder, on_error="skip")
        assert len(dataset) == len(EXPECTED) - len(records_of(300)) + 1
        assert dataset.skipped == 1


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _share(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("harm", [_truncate, _change, _share])
def test_facts_that_are_damaged_are_not_used(folder: Path, harm: Callable[[Path], None]) -> None:
    read(folder)
    remove_indexes()
    [facts] = Path(os.environ["TORCHREC_IO_CACHE"]).glob("*.facts")
    harm(facts)
    dataset = tio.TFRecordDataset(folder)
    assert len(cached_indexes()) == FILES
    assert list(dataset) == EXPECTED


def test_a_cache_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHREC_IO_CACHE", "/proc/torchrec_io")
    for _ in range(2):
        assert read(folder) == EXPECTED
