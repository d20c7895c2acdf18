"""Indexes of objects: where they are written, what opening costs, and what is trusted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from tests.support.tfrecord import frame
from torchrec_io import RecordIndex, TFRecordDataset
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._storage.remote.upload import put_object
from torchrec_io.cli.commands import app

SCHEMA = {"n": tio.FixedLenFeature([], "int64")}
OBJECTS, EACH = 12, 20
ALL = list(range(OBJECTS * EACH))
_folders = itertools.count()


def content_of(number: int) -> bytes:
    numbers = range(number * EACH, (number + 1) * EACH)
    return b"".join(frame(example_of(n=[n])) for n in numbers)


class Folder:
    """A folder of objects, which a proxy counts requests to."""

    def __init__(self, server: S3Server, proxy: Proxy) -> None:
        self.proxy = proxy
        self.options = server.options(proxy.port)
        self.name = f"indexes-{next(_folders)}"
        self.url = f"s3://data/{self.name}"
        for number in range(OBJECTS):
            self.put(f"x{number:03d}.tfrecord", content_of(number))

    @property
    def environment(self) -> dict[str, str]:
        """The options as variables of the environment."""
        names = {"endpoint": "ENDPOINT_URL"}
        return {f"AWS_{names.get(key, key.upper())}": each for key, each in self.options.items()}

    def put(self, name: str, data: bytes) -> None:
        put_object(f"{self.url}/{name}", data, RemoteOptions(self.options))

    def read(self, name: str) -> bytes:
        return read_bytes(Location.of(f"{self.url}/{name}", self.options).open(), 0, 1 << 20)

    def requests(self, work: Callable[[], object]) -> list[str]:
        """Return the requests that something takes."""
        self.proxy.requests.clear()
        work()
        return list(self.proxy.requests)

    def open(self) -> TFRecordDataset:
        # Without the slash, a request finds out whether there is an object of this name.
        return TFRecordDataset(f"{self.url}/", SCHEMA, batch_size=10, storage_options=self.options)


@pytest.fixture
def folder(s3: S3Server, proxy: Proxy) -> Folder:
    return Folder(s3, proxy)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    numbers = itertools.count()

    def empty() -> None:
        monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / f"cache-{next(numbers)}"))

    empty()
    return empty


@pytest.fixture
def index(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs ``torchrec-io index`` with the options in the environment."""
    for name, value in folder.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: object, status: int = 0) -> str:
        ended = CliRunner().invoke(app, ["index", *map(str, arguments)], prog_name="torchrec-io")
        assert ended.exit_code == status, ended.output
        return ended.output

    return run


def numbers_of(dataset: object) -> list[int]:
    return sorted(n for batch in dataset for n in batch["n"].tolist())  # type: ignore[attr-defined]


# ---- opening ----


def test_what_opening_takes(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    """A listing; and the index and both ends of each object, until they are cached."""
    output = index(folder.url, "--upload")
    assert output.count(": indexed, 20 records") == OBJECTS
    empty_cache()
    for most in (1 + 3 * OBJECTS, 1):
        folder.proxy.requests.clear()
        dataset = folder.open()
        assert sum("list-type=2" in line for line in folder.proxy.requests) == 1
        assert len(folder.proxy.requests) <= most
        assert numbers_of(dataset) == ALL


def test_indexes_of_replaced_objects_are_not_used(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    index(folder.url, "--upload")
    folder.put("x003.tfrecord", content_of(OBJECTS)[: len(content_of(OBJECTS)) // 2])
    folder.put("x004.tfrecord", content_of(OBJECTS))
    expected = {*ALL, *range(OBJECTS * EACH, (OBJECTS + 1) * EACH)} - {*range(3 * EACH, 5 * EACH)}
    for _ in range(2):
        assert set(numbers_of(folder.open())) == expected
        empty_cache()
    assert index(folder.url, "--upload").count("up to date") == OBJECTS - 2


def test_damaged_indexes_are_not_used(folder: Folder, index: Callable[..., str]) -> None:
    index(folder.url, "--upload")
    folder.put("x002.tfrecord.tfidx", b"")
    folder.put("x003.tfrecord.tfidx", b"x" * 100)
    folder.put("x004.tfrecord.tfidx", folder.read("x005.tfrecord.tfidx"))
    assert numbers_of(folder.open()) == ALL


# ---- writing ----


def test_what_is_up_to_date_is_not_written_again(folder: Folder, index: Callable[..., str]) -> None:
    index(folder.url, "--upload")
    written = folder.requests(lambda: index(folder.url, "--upload"))
    assert not any(line.startswith("PUT") for line in written)
    written = folder.requests(lambda: index(folder.url, "--upload", "--force"))
    assert sum(line.startswith("PUT") for line in written) == OBJECTS
    assert index(folder.url, "--check").count(": index matches, 20 records") == OBJECTS
    folder.put("x003.tfrecord.tfidx", b"damaged")
    output = index(folder.url, "--upload")
    assert "x003.tfrecord: indexed" in output
    assert output.count(": up to date, 20 records") == OBJECTS - 1


def test_indexes_in_a_directory(folder: Folder, index: Callable[..., str], tmp_path: Path) -> None:
    """They are the same as those that are uploaded."""
    index(folder.url, "--output-dir", tmp_path / "indexes")
    paths = sorted((tmp_path / "indexes").iterdir())
    options: dict[str, Any] = {"index": paths, "storage_options": folder.options}
    assert numbers_of(TFRecordDataset(folder.url, SCHEMA, batch_size=10, **options)) == ALL
    index(folder.url, "--output-dir", f"{folder.url}/other")
    for path in paths:
        assert folder.read(f"other/{path.name}") == path.read_bytes()


def test_the_others_are_indexed_if_an_object_is_damaged(
    folder: Folder, index: Callable[..., str]
) -> None:
    folder.put("x003.tfrecord", content_of(3)[:-1])
    output = index(folder.url, "--upload", status=1)
    assert "x003.tfrecord" in output
    assert output.count(": indexed, 20 records") == OBJECTS - 1


def test_places_that_cannot_be(folder: Folder, index: Callable[..., str]) -> None:
    for arguments, message in {
        (): "is a remote object: add --upload to write its index beside it, or --output-dir DIR",
        ("--upload", "--output-dir", "x"): "--upload cannot be used with --output-dir",
        ("--upload", "--format", "text"): "a text index needs a local directory",
        ("--output-dir", "http://127.0.0.1/x"): "an HTTP server cannot be written",
    }.items():
        output = " ".join(index(folder.url, *arguments, status=2).replace("│", " ").split())
        assert message in output


def test_an_index_is_saved_as_an_object(folder: Folder, tmp_path: Path) -> None:
    url = f"{folder.url}/x003.tfrecord"
    built = RecordIndex.build(url, storage_options=folder.options)
    assert built.save() == f"{url}.tfidx"
    assert len(RecordIndex.load(f"{url}.tfidx", storage_options=folder.options)) == EACH
    (tmp_path / "a.tfrecord").write_bytes(content_of(0))
    local = RecordIndex.build(tmp_path / "a.tfrecord")
    to = f"{folder.url}/a.tfrecord.tfidx"
    assert local.save(to, storage_options=folder.options) == to
