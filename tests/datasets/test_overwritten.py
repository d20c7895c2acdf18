"""Data files and indexes that are overwritten in place during an epoch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.loading import error_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records import open_files

COUNT = 4000
BATCH = 8
SCHEMA = {"id": tio.FixedLenFeature([], "int64")}
# A million is more than any number of the old records, with as many bytes.
OLD = [example_of(id=[1_000_000 + number]) for number in range(COUNT)]
NEW = [example_of(id=[2_000_000 - number]) for number in range(COUNT)]
NUMBERS = {record: number for number, record in enumerate(OLD)}
CHANGED = "the data file was changed while it was read"


def write_both(folder: Path, compression: str | None = None) -> list[Path]:
    return [write_tfrecord(folder / name, OLD, compression) for name in ("a", "b")]


def overwrite(path: Path, records: list[bytes], compression: str | None = None) -> None:
    """Overwrite a file in place, with records of the same sizes."""
    size = path.stat().st_size
    write_tfrecord(path.with_name("new"), records, compression)
    with open(path, "r+b") as file:
        file.write(path.with_name("new").read_bytes())
    assert compression or path.stat().st_size == size


def ids(batch: Any) -> list[int]:
    if isinstance(batch, list):  # stored records
        return [NUMBERS.get(record, -1) for record in batch]
    return [number - 1_000_000 for number in batch["id"].tolist()]


def read_and_overwrite(batches: Iterable[Any], change: Callable[[], None], after: int = 3) -> None:
    """Check that the batches end with an error after a change, and have only old records."""

    def checked() -> Iterator[None]:
        for number, batch in enumerate(batches):
            assert all(0 <= each < COUNT for each in ids(batch))
            if number == after:
                change()
            yield

    error = error_of(checked())
    assert isinstance(error, tio.StaleIndexError), error
    assert CHANGED in str(error)


LATE = COUNT // BATCH + 10  # batches, which is after the last record of the first file


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({"num_threads": 1}, 3),
        ({"num_threads": 2}, 3),
        ({"shuffle": True}, 3),
        ({"shuffle": tio.Shuffle(block=100, window=1000), "num_threads": 1}, 3),
        ({"shuffle": tio.Shuffle(block=100, window=1000, lanes=2)}, 3),
        ({}, LATE),
        ({}, LATE + 1),
    ],
)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["native", "python"])
def test_overwritten_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: Any, options: Any, after: int
) -> None:
    if after == LATE + 1:  # it was closed before
        monkeypatch.setattr(open_files, "_MAX_OPEN_FILES", 1)
    paths = write_both(tmp_path)
    dataset = tio.TFRecordDataset(paths, schema, batch_size=BATCH, **options)
    read_and_overwrite(dataset, lambda: overwrite(paths[0], NEW), after)


def test_overwritten_with_workers(tmp_path: Path) -> None:
    paths = write_both(tmp_path)
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=BATCH, shuffle=True)
    loader = DataLoader(dataset, None, num_workers=2, multiprocessing_context="fork")
    read_and_overwrite(loader, lambda: overwrite(paths[0], NEW))


def test_overwritten_in_a_map_dataset(tmp_path: Path) -> None:
    [path, _] = write_both(tmp_path)
    dataset = tio.TFRecordMapDataset(path, SCHEMA)
    assert int(dataset[5]["id"]) == 1_000_005
    overwrite(path, NEW)
    with pytest.raises(tio.StaleIndexError, match=CHANGED):
        dataset[6]


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_overwritten_while_it_is_streamed(
    tmp_path: Path, compression: str | None, on_error: Any
) -> None:
    # More than is read at once, from a file that is smaller when it is compressed.
    records = [example_of(id=[1_000_000], x=[os.urandom(1000)])] * 6000
    path = write_tfrecord(tmp_path / "a", records, compression)
    stream = tio.TFRecordStream(path, SCHEMA, batch_size=BATCH, on_error=on_error)

    def change() -> None:
        with open(path, "r+b") as file:
            file.write(path.read_bytes())

    read_and_overwrite(stream, change)


def test_stream_of_a_file_that_is_appended_to(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", OLD)
    content = path.read_bytes()
    count = 0
    for batch in tio.TFRecordStream(path, SCHEMA, batch_size=BATCH):
        count += len(batch["id"])
        with open(path, "ab") as file:
            file.write(content[:16])
    assert count == COUNT


def test_renamed_linked_or_removed_while_it_is_read(tmp_path: Path) -> None:
    paths = write_both(tmp_path)
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=BATCH, shuffle=True)
    count = 0
    for number, batch in enumerate(dataset):
        count += len(batch["id"])
        if number == 3:
            os.link(paths[0], tmp_path / "c")
            os.chmod(paths[0], 0o600)
            paths[1].unlink()
    assert count == 2 * COUNT


# ---- indexes ----

RECORDS = [b"%06d" % number for number in range(100_000)]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_tfrecord(tmp_path_factory.mktemp("indexed") / "x", RECORDS)
    tio.RecordIndex.build(path).save()
    return path


@pytest.fixture
def large(indexed: Path, tmp_path: Path) -> Path:
    """Return a file whose index is read by pages."""
    for name in ("x", "x.tfidx"):
        shutil.copy2(indexed.with_name(name), tmp_path / name)
    return tmp_path / "x"


def write_same(index: Path) -> None:
    content = index.read_bytes()
    with index.open("r+b") as file:  # not cut before, which a reader may see
        file.write(content)


def write_other(index: Path) -> None:
    content = index.read_bytes()
    index.write_bytes(content[:104] + bytes(len(content) - 104))


CHANGES: dict[str, Callable[[Path], None]] = {
    "same": write_same,
    "other": write_other,
    "cut": lambda index: os.truncate(index, 5000),
    "emptied": lambda index: os.truncate(index, 0),
    "removed": lambda index: index.unlink(),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("workers", [0, 2])
def test_index_changed_in_place(large: Path, change: str, workers: int) -> None:
    """Change an index after each worker has yielded a batch. No process may be killed."""
    index = large.with_name("x.tfidx")
    dataset = tio.TFRecordDataset(large, index=index, batch_size=500)
    loader = DataLoader(
        dataset, None, num_workers=workers, multiprocessing_context="fork" if workers else None
    )

    def checked() -> Iterator[int]:
        for number, batch in enumerate(loader):
            assert batch[0] == RECORDS[number * 500]
            if number == 1:
                CHANGES[change](index)
            yield len(batch)

    if change == "same":
        assert sum(checked()) == len(RECORDS)
        return
    error = error_of(checked())
    assert isinstance(error, tio.StaleIndexError), error
    expected = "removed" if change == "removed" else "replaced"
    assert f"the index file was {expected} while it was in use" in str(error)
    assert str(index) in str(error)
