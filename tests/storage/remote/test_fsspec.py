"""Schemes that only fsspec knows, and filesystems of the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import fsspec  # type: ignore[import-untyped]
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]
from torch.utils.data import DataLoader

from tests.support.tfrecord import frame
from torchrec_io import Schema, StaleIndexError, TFRecordDataset, TFRecordMapDataset, TFRecordStream

RECORDS = [b"%d" % number * 100 for number in range(50)]


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    """Return a filesystem in memory, with three shards."""
    filesystem = fsspec.filesystem("memory")
    for shard in range(3):
        content = b"".join(map(frame, RECORDS[shard::3]))
        filesystem.pipe_file(f"/set/x-{shard:05d}-of-00003", content)
    filesystem.pipe_file("/set/notes.txt", b"text")
    yield filesystem
    filesystem.rm("/set", recursive=True)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    "path",
    [
        "memory://set",
        "memory://set/",
        "memory://set/x-*",
        "memory://se[t]/x-*",
        "memory://set/x-{00000..00002}-of-00003",
    ],
)
def test_paths(path: str) -> None:
    dataset = TFRecordDataset(path, shuffle=True)
    assert sorted(dataset) == sorted(RECORDS)
    assert [file[:16] for file in dataset.paths] == ["memory://set/x-0"] * 3


@pytest.mark.usefixtures("memory")
def test_datasets() -> None:
    assert sorted(TFRecordStream("memory://set")) == sorted(RECORDS)
    assert TFRecordMapDataset("memory://set/x-00001-of-00003")[1] == RECORDS[4]
    dataset = TFRecordDataset("memory://set", batch_size=5)
    next(iter(dataset))
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert sorted(record for batch in loader for record in batch) == sorted(RECORDS)


def test_a_filesystem_of_the_user(memory: fsspec.AbstractFileSystem) -> None:
    inside = fsspec.filesystem("dir", path="/set", fs=memory)
    options = {"filesystem": inside}
    dataset = TFRecordDataset("dir://x-*", storage_options=options)
    assert sorted(dataset) == sorted(RECORDS)


class HostedFiles(MemoryFileSystem):  # type: ignore[misc]
    """Files of hosts, which URLs name."""

    protocol = "hosted"
    cachable = True

    def __init__(self, host: str, user: str | None = None) -> None:
        super().__init__()
        self.store: dict[str, Any] = {}  # not that of the class
        for number in range(2):
            self.pipe_file(f"/d/a-{number}", frame(f"{user}@{host} {number}".encode()))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        name = path.removeprefix("hosted://").partition("/")[2] if "://" in path else path
        return f"/{name.strip('/')}"

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"host": path.removeprefix("hosted://").partition("/")[0]}


def test_urls_that_name_a_host() -> None:
    fsspec.register_implementation("hosted", HostedFiles, clobber=True)
    paths = ["hosted://one/d/a-*", "hosted://two:21/d/a-1"]
    dataset = TFRecordDataset(paths, storage_options={"user": "me"}, with_key=True)
    assert list(dataset) == [
        ("hosted://one/d/a-0:0", b"me@one 0"),
        ("hosted://one/d/a-1:0", b"me@one 1"),
        ("hosted://two:21/d/a-1:0", b"me@two:21 1"),
    ]


class FaultyFiles(MemoryFileSystem):  # type: ignore[misc]
    """The files in memory, with faults that its own class raises at reads."""

    protocol = "faulty"
    faults: ClassVar[list[Exception]] = []

    def cat_file(self, path: str, *arguments: Any, **options: Any) -> bytes:
        if self.faults:
            raise self.faults.pop(0)
        data: bytes = super().cat_file(
            path.replace("faulty://", "memory://"), *arguments, **options
        )
        return data

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.replace("faulty://", "memory://"))
        return stripped


@pytest.fixture
def faults(memory: fsspec.AbstractFileSystem) -> list[Exception]:
    """Return the faults of the next reads of files of ``faulty://``."""
    assert memory
    fsspec.register_implementation("faulty", FaultyFiles, clobber=True)
    FaultyFiles.faults.clear()
    return FaultyFiles.faults


class StatusError(Exception):
    """An error of a filesystem over HTTP."""

    status = 503


def test_requests_are_repeated(faults: list[Exception]) -> None:
    faults += [ConnectionResetError(104, "5f2a"), TimeoutError("5f2a"), StatusError("5f2a")]
    options = {"max_attempts": 4, "timeout": 5}  # are no arguments of the filesystem
    assert sorted(TFRecordDataset("faulty://set", storage_options=options)) == sorted(RECORDS)
    assert not faults


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (ConnectionResetError(104, "5f2a"), "after 2 attempts; last reason: Connection reset"),
        (StatusError("5f2a"), "after 2 attempts; last reason: HTTP 503"),
        (KeyError("5f2a"), "after 2 attempts; last reason: KeyError"),
        (ValueError("5f2a"), r"the request was refused \(ValueError\)"),
        (RuntimeError("This class is not fork-safe"), "cannot be used in a forked process"),
    ],
)
def test_faults_that_stay(faults: list[Exception], fault: Exception, message: str) -> None:
    faults += [fault] * 2
    with pytest.raises(OSError, match=message) as caught:
        list(TFRecordStream("faulty://set/x-00000-of-00003", storage_options={"max_attempts": 2}))
    assert "5f2a" not in str(caught.value)


def test_a_file_that_is_replaced(memory: fsspec.AbstractFileSystem) -> None:
    dataset = TFRecordDataset("memory://set")
    assert len(list(dataset)) == 50
    memory.pipe_file("/set/x-00001-of-00003", b"".join(map(frame, RECORDS[2:18])))
    with pytest.raises(StaleIndexError):
        list(dataset)


def test_unknown_schemes() -> None:
    with pytest.raises(ValueError, match="nonsense:// cannot be read: no installed package"):
        TFRecordDataset("nonsense://a/b")
    with pytest.raises(ImportError, match="fsspec cannot read gcs://: ImportError"):
        Schema.infer("gcs://a/b")
