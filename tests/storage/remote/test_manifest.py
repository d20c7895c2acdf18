"""Indexes and manifests beside objects: what opening costs, and what is trusted."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.proxy import Proxy
from tests.support.stores import S3Server
from tests.support.tfrecord import frame
from tests.support.web import WebServer
from torchrec_io import RecordIndex, StaleIndexError, TFRecordDataset
from torchrec_io._records.index_file import IndexFacts
from torchrec_io._records.manifest import (
    MANIFEST_NAME,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
)
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
        self.options, self.environment = server.options(proxy.port), server.environment(proxy.port)
        self.name = f"manifest-{next(_folders)}"
        self.url = f"s3://data/{self.name}"
        for number in range(OBJECTS):
            self.put(f"x{number:03d}.tfrecord", content_of(number))

    def put(self, name: str, data: bytes) -> None:
        put_object(f"{self.url}/{name}", data, RemoteOptions(self.options))

    def read(self, name: str) -> bytes:
        return read_bytes(Location.of(f"{self.url}/{name}", self.options).open(), 0, 1 << 20)

    def entries(self, name: str = "") -> dict[str, ManifestEntry]:
        return decode_manifest(self.read(f"{name}{MANIFEST_NAME}"), MANIFEST_NAME)

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


def test_opening_takes_a_listing_and_one_request(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    output = index(folder.url, "--upload")
    assert f"{folder.url}/{MANIFEST_NAME}: 12 objects, 240 records" in output
    assert output.count(": indexed, 20 records") == OBJECTS
    empty_cache()
    opened: list[TFRecordDataset] = []
    requests = folder.requests(lambda: opened.append(folder.open()))
    assert [line.split()[0] for line in requests] == ["GET", "GET"]
    assert "list-type=2" in requests[0]
    assert MANIFEST_NAME in requests[1]
    assert opened[0].num_records == len(ALL)
    assert numbers_of(opened[0]) == ALL


def test_an_index_is_fetched_when_it_is_first_needed(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    index(folder.url, "--upload")
    empty_cache()
    dataset = tio.TFRecordMapDataset(f"{folder.url}/", SCHEMA, storage_options=folder.options)
    assert folder.requests(lambda: len(dataset)) == []
    requests = folder.requests(lambda: dataset[3 * EACH + 1])
    assert [line.split()[:2] for line in requests] == [
        ["GET", f"/data/{folder.name}/x003.tfrecord.tfidx"],
        ["GET", f"/data/{folder.name}/x003.tfrecord"],
    ]
    assert int(dataset[3 * EACH + 1]["n"]) == 3 * EACH + 1
    requests = folder.requests(lambda: dataset[3 * EACH + 2])
    assert not any(".tfidx" in line for line in requests)


# ---- what is not trusted ----


def test_entries_of_replaced_objects_are_left_out(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    index(folder.url, "--upload")
    folder.put("x003.tfrecord", content_of(OBJECTS)[: len(content_of(OBJECTS)) // 2])
    folder.put("x004.tfrecord", content_of(OBJECTS))
    empty_cache()
    dataset = folder.open()
    expected = {*ALL, *range(OBJECTS * EACH, (OBJECTS + 1) * EACH)} - {*range(3 * EACH, 5 * EACH)}
    assert set(numbers_of(dataset)) == expected
    # The index of another object in its place is not used, either.
    output = index(folder.url, "--upload")
    assert output.count("up to date") == OBJECTS - 2
    empty_cache()
    opened: list[TFRecordDataset] = []
    assert len(folder.requests(lambda: opened.append(folder.open()))) == 2
    assert set(numbers_of(opened[0])) == expected


def test_indexes_that_are_not_what_the_manifest_says(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    index(folder.url, "--upload")
    folder.put("x002.tfrecord.tfidx", b"")
    folder.put("x003.tfrecord.tfidx", b"x" * 100)
    folder.put("x004.tfrecord.tfidx", folder.read("x005.tfrecord.tfidx"))
    empty_cache()
    assert numbers_of(folder.open()) == ALL


def test_a_manifest_that_is_wrong_gives_no_wrong_data(
    folder: Folder, index: Callable[..., str], empty_cache: Callable[[], None]
) -> None:
    index(folder.url, "--upload")
    valid = folder.entries()
    for changes in ({"records": 19}, {"data_bytes": 1}, {"fingerprint": 5}):
        entry = valid["x003.tfrecord"]
        facts = entry.facts._replace(**changes)  # type: ignore[arg-type]
        wrong = {**valid, "x003.tfrecord": entry._replace(facts=facts)}
        folder.put(MANIFEST_NAME, encode_manifest(wrong))
        empty_cache()
        dataset = folder.open()
        if "data_bytes" in changes:  # so the entry is of another object
            assert numbers_of(dataset) == ALL
            continue
        with pytest.raises(StaleIndexError, match="the manifest of the folder does not match"):
            numbers_of(dataset)


def test_a_damaged_or_older_manifest_is_ignored_and_written_again(
    folder: Folder, index: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    index(folder.url, "--upload")
    valid = folder.read(MANIFEST_NAME)
    version_1 = b"\x89TFMAN\r\n" + (1).to_bytes(4, "little") + bytes(36)
    for content in (b"", valid[:-1], version_1):
        caplog.clear()
        folder.put(MANIFEST_NAME, content)
        assert numbers_of(folder.open()) == ALL
        assert "the manifest of the folder is ignored" in caplog.text
        index(folder.url, "--upload")
        assert folder.read(MANIFEST_NAME) == valid


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


def test_two_processes_extend_a_manifest(
    folder: Folder, index: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchrec_io._records import manifest  # noqa: PLC0415

    replace, others = manifest._replace, ["x01*"]

    def late(*arguments: object) -> bool:
        if others:
            index(f"{folder.url}/{others.pop()}", "--upload")
        return replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(manifest, "_replace", late)
    index(f"{folder.url}/x00*", "--upload")
    assert not others
    assert len(folder.entries()) == OBJECTS


def test_indexes_in_a_directory(
    folder: Folder, index: Callable[..., str], tmp_path: Path, empty_cache: Callable[[], None]
) -> None:
    """They are the same as those that are uploaded."""
    index(folder.url, "--output-dir", tmp_path / "indexes")
    paths = sorted((tmp_path / "indexes").iterdir())
    assert [path.name for path in paths][:1] == [MANIFEST_NAME]
    options: dict[str, Any] = {"index": paths[1:], "storage_options": folder.options}
    assert numbers_of(TFRecordDataset(folder.url, SCHEMA, batch_size=10, **options)) == ALL
    for path in paths:
        folder.put(path.name, path.read_bytes())
    empty_cache()
    assert len(folder.requests(folder.open)) == 2
    index(folder.url, "--output-dir", f"{folder.url}/other")
    assert folder.entries() == folder.entries("other/")


def test_damaged_objects_are_not_listed(folder: Folder, index: Callable[..., str]) -> None:
    folder.put("x003.tfrecord", content_of(3)[:-1])
    output = index(folder.url, "--upload", status=1)
    assert "x003.tfrecord" in output
    entries = folder.entries()
    assert len(entries) == OBJECTS - 1
    assert "x003.tfrecord" not in entries


def test_places_that_cannot_be(folder: Folder, index: Callable[..., str]) -> None:
    for arguments, message in {
        (): "is a remote object: add --upload to write its index beside it, or --output-dir DIR",
        ("--upload", "--output-dir", "x"): "--upload cannot be used with --output-dir",
        ("--upload", "--format", "text"): "a text index needs a local directory",
        ("--output-dir", "http://127.0.0.1/x"): "an HTTP server cannot be written",
    }.items():
        output = " ".join(index(folder.url, *arguments, status=2).replace("│", " ").split())
        assert message in output


def test_an_index_is_uploaded(folder: Folder, tmp_path: Path) -> None:
    url = f"{folder.url}/x003.tfrecord"
    built = RecordIndex.build(url, storage_options=folder.options)
    assert built.upload() == f"{url}.tfidx"
    assert len(RecordIndex.load(f"{url}.tfidx", storage_options=folder.options)) == EACH
    with pytest.raises(ValueError, match=r"Call upload\(\) to write the index beside it"):
        built.save()
    (tmp_path / "a.tfrecord").write_bytes(content_of(0))
    local = RecordIndex.build(tmp_path / "a.tfrecord")
    with pytest.raises(ValueError, match=r"url must name an object: .*Call save\(\)"):
        local.upload()
    to = f"{folder.url}/a.tfrecord.tfidx"
    assert local.upload(to, storage_options=folder.options) == to


# ---- other stores ----


def test_an_http_server_is_asked_for_a_manifest(
    web: WebServer, empty_cache: Callable[[], None]
) -> None:
    paths = [f"/data/x{number:02d}.tfrecord" for number in range(10)]
    entries = {}
    for number, path in enumerate(paths):
        built = RecordIndex.build(web.put(path, content_of(number)))
        web.put(f"{path}.tfidx", built.file_bytes.tobytes())
        entries[path.rpartition("/")[2]] = ManifestEntry(IndexFacts(*built.identity), '"v1"')
    whole = web.url("/data/x{00..09}.tfrecord")
    assert TFRecordDataset(whole, SCHEMA).num_records == 10 * EACH  # there is no manifest
    empty_cache()
    web.put(f"/data/{MANIFEST_NAME}", encode_manifest(entries))
    for count, asked in ((10, 1), (3, 0)):
        web.requests.clear()
        dataset = TFRecordDataset(web.url(f"/data/x{{00..{count - 1:02d}}}.tfrecord"), SCHEMA)
        assert dataset.num_records == count * EACH
        found = [request.path for request in web.gets()]
        assert found.count(f"/data/{MANIFEST_NAME}") == asked
        assert any(".tfidx" in path for path in found) != bool(asked)
        assert [int(sample["n"]) for sample in dataset] == ALL[: count * EACH]
        empty_cache()
    # A signed URL is of one object alone.
    for path in paths:
        web.files[f"{path}?signature=s"] = web.files[path]
    web.requests.clear()
    TFRecordDataset([web.url(f"{path}?signature=s") for path in paths], SCHEMA)
    assert not any(MANIFEST_NAME in request.path for request in web.requests)


def test_objects_without_an_identity_have_no_manifest(index: Callable[..., str]) -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file("/manifest/x.tfrecord", content_of(0))
    try:
        assert MANIFEST_NAME not in index("memory://manifest", "--upload")
        assert filesystem.exists("/manifest/x.tfrecord.tfidx")
    finally:
        filesystem.rm("/manifest", recursive=True)
