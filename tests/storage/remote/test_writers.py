"""Writers of remote objects: each object appears whole or not at all, and sets all together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.stores import S3Server
from tests.support.web import WebServer
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.folders import stamps_in
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions
from torchrec_io._writing.output_group import OutputGroup

LARGE = [bytes([number]) * 1_000_000 for number in range(20)]


def names_in(s3: S3Server, folder: str) -> list[str]:
    found = stamps_in(Location.of(f"s3://data/{folder}", s3.options()), is_recursive=True)
    return sorted(found)


def uploads_in(s3: S3Server, folder: str) -> list[str]:
    """Return the keys of uploads that were neither completed nor given up."""
    return [key for key in s3.unfinished_uploads() if key.startswith(f"{folder}/")]


def write(url: str, records: list[bytes], s3: S3Server, **options: Any) -> None:
    with tio.TFRecordWriter(url, storage_options=s3.options(), **options) as writer:
        for record in records:
            writer.write(record)


def read(url: str, options: dict[str, Any] | None) -> list[bytes]:
    return list(tio.TFRecordDataset(url, storage_options=options))


# ---- what is written ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("records", "compression"),
    [([], "gzip"), ([b"one", b"two"], None), (LARGE, "zlib"), (LARGE, None)],
    ids=["empty gzip", "small", "zlib in parts", "in parts"],
)
def test_files_are_those_of_the_local_writer(
    s3: S3Server, tmp_path: Path, records: list[bytes], compression: Any
) -> None:
    records = [os.urandom(len(record) // 2) + record for record in records]
    path, url = tmp_path / "a b%é.tfrecord", "s3://data/same/a b%é.tfrecord"
    with tio.TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    write(url, records, s3, compression=compression, index=True)
    remote = RemoteOptions(s3.options())
    assert read_bytes(Location.of(url, remote).open(), 0, 1 << 30) == path.read_bytes()
    index = tio.RecordIndex.load(f"{url}.tfidx", url, storage_options=s3.options())
    index.check_fresh()
    assert len(index) == len(records)


@pytest.mark.parametrize("limit", [{"num_shards": 2}, {"max_bytes": 12_000_000}])
def test_shards(s3: S3Server, limit: dict[str, Any]) -> None:
    name = f"s3://data/{next(iter(limit))}/x"
    options = s3.options()
    for _ in range(2):  # the second replaces the first
        with tio.ShardedWriter(name, index=True, storage_options=options, **limit) as writer:
            for record in LARGE:
                writer.write(record)
    assert writer.paths == [tio.shard_path(name, shard, 2) for shard in range(2)]
    names = [os.path.basename(path) for path in writer.paths]
    assert names_in(s3, next(iter(limit))) == sorted([*names, *(f"{n}.tfidx" for n in names)])
    assert sorted(read(f"{name}-*", options)) == LARGE
    assert not uploads_in(s3, next(iter(limit)))


def test_shards_that_objects_cannot_have() -> None:
    with pytest.raises(ValueError, match="max_bytes must be at most 5,368,709,120"):
        tio.ShardedWriter("s3://data/x/x", max_bytes=6 << 30)


def test_a_filesystem_of_fsspec() -> None:
    for records in ([b"one"], LARGE):
        fsspec.filesystem("memory").rm("/", recursive=True)
        with tio.TFRecordWriter("memory://written/a.tfrecord", index=True) as writer:
            for record in records:
                writer.write(record)
            assert not fsspec.filesystem("memory").exists("/written/a.tfrecord")
        assert read("memory://written/a.tfrecord", None) == records
        with tio.ShardedWriter("memory://shards/x", 2) as sharded:
            for record in records:
                sharded.write(record)
        assert sorted(read("memory://shards/x-*", None)) == sorted(records)


# ---- what cannot be written ----


def test_http_is_read_only(web: WebServer) -> None:
    for make in (
        tio.TFRecordWriter,
        lambda url: tio.ShardedWriter(url, 2),
        lambda url: tio.tools.merge(web.put("/in", b""), url),
    ):
        with pytest.raises(OSError, match=r"an HTTP server cannot be written; .*/out\.tfrecord'"):
            make(web.url("/out.tfrecord") + "?token=word-5f2a")


@pytest.mark.parametrize("url", ["s3://data", "s3://data/", "s3://data/folder/"])
def test_urls_that_name_no_object(url: str) -> None:
    with pytest.raises(ValueError, match="an output must be the URL of an object in a store"):
        tio.TFRecordWriter(url)


# ---- nothing before the end ----


def discard(writer: Any) -> None:
    writer.discard()


def drop(writer: Any) -> None:
    with pytest.warns(RuntimeWarning, match="never closed"):
        writer.__del__()


def fail(writer: Any) -> None:
    with pytest.raises(KeyError), writer:
        raise KeyError


@pytest.mark.parametrize("end", [discard, drop, fail])
def test_nothing_is_left_of_what_was_not_closed(s3: S3Server, end: Callable[[Any], None]) -> None:
    write("s3://data/left/a.tfrecord", [b"old"], s3)
    name = f"s3://data/left/{end.__name__}"
    options = s3.options()
    for writer in (
        tio.TFRecordWriter("s3://data/left/a.tfrecord", storage_options=options),
        tio.ShardedWriter(name, 2, storage_options=options),
        tio.ShardedWriter(f"{name}-m", max_bytes=10_000_000, storage_options=options),
    ):
        for record in LARGE:
            writer.write(record)
        hidden = [name for name in names_in(s3, "left") if name.startswith(".")]
        assert uploads_in(s3, "left") + hidden
        end(writer)
    assert names_in(s3, "left") == ["a.tfrecord"]
    assert read("s3://data/left/a.tfrecord", options) == [b"old"]
    assert not uploads_in(s3, "left")


PROGRAM = """
import json, os, sys, time
import torchrec_io as tio
from torchrec_io._storage.byte_source import read_bytes
writer = tio.ShardedWriter(sys.argv[1], 2, storage_options=json.loads(sys.argv[2]))
for number in range(20):
    writer.write(bytes(1_000_000))
print("written", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, 0))],
)
def test_a_process_that_ends(s3: S3Server, number: int) -> None:
    """The helper process gives up the uploads of a process that was killed."""
    folder = f"ended-{number}"
    command = [sys.executable, "-c", PROGRAM, f"s3://data/{folder}/x", json.dumps(s3.options())]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    assert len(uploads_in(s3, folder)) == 2
    if number:
        process.send_signal(number)
    process.communicate(timeout=30)
    wait_until(lambda: not uploads_in(s3, folder))
    assert names_in(s3, folder) == []


def wait_until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.1)


# ---- existing objects ----


def test_existing_objects_are_refused(s3: S3Server) -> None:
    url, options = "s3://data/exists/a.tfrecord", s3.options()
    write(url, [b"old"], s3)
    write("s3://data/exists/b.tfrecord", [b"old", b"older"], s3)
    with pytest.raises(FileExistsError, match=r"the output exists; .*s3://data/exists/b.tfrecord"):
        tio.tools.merge(url, "s3://data/exists/b.tfrecord", storage_options=options)
    assert len(read("s3://data/exists/b.tfrecord", options)) == 2
    tio.tools.merge(url, "s3://data/exists/b.tfrecord", force=True, storage_options=options)
    assert len(read("s3://data/exists/b.tfrecord", options)) == 1
    with pytest.raises(ValueError, match="would overwrite the input"):
        tio.tools.merge(url, url, force=True, storage_options=options)


@pytest.mark.parametrize("records", [[b"new"], LARGE], ids=["small", "in parts"])
def test_an_object_that_appears_meanwhile_is_kept(s3: S3Server, records: list[bytes]) -> None:
    folder = f"race-{len(records)}"
    for names in (["a"], ["b", "c"]):
        group = OutputGroup(force=False)
        for name in names:
            file = group.open_records(Location.of(f"s3://data/{folder}/{name}", s3.options()))
            for record in records:
                file.write(record)
        group.prepare()
        write(f"s3://data/{folder}/{names[-1]}", [b"other"], s3)
        with pytest.raises(FileExistsError), group:
            pass
        assert read(f"s3://data/{folder}/{names[-1]}", s3.options()) == [b"other"]
    assert names_in(s3, folder) == ["a", "c"]
