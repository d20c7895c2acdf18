"""Remote objects through a cache: which requests are made, and that the data is right."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import numpy as np
import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.tfrecord import frame
from tests.support.web import WebServer
from torchrec_io._storage.byte_source import ByteSource, read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.options import RemoteOptions

BLOCK = 1 << 16
RECORDS = [np.random.default_rng(number).bytes(7000) for number in range(300)]  # 2.1 MB
DATA = b"".join(map(frame, RECORDS))
BLOCKS = -(-len(DATA) // BLOCK)


@pytest.fixture
def cache(tmp_path: Path) -> tio.BlockCache:
    """Return a cache that has room for all data."""
    return tio.BlockCache(tmp_path / "blocks", max_bytes=8 << 20, block_bytes=BLOCK)


def options_with(
    cache: tio.BlockCache, memory_bytes: int = 4 << 20, **options: Any
) -> RemoteOptions:
    return RemoteOptions({"timeout": 20, **options}, memory_bytes, cache)


def opened(url: str, cache: tio.BlockCache, **options: Any) -> ByteSource:
    """Return an open object. All that have the same memory share the blocks in it."""
    return Location.of(url, options_with(cache, **options)).open()


def downloads(web: WebServer, size: int = len(DATA)) -> Counter[int]:
    """Return how often each block of an object was asked for."""
    counts: Counter[int] = Counter()
    for request in web.gets():
        assert request.range is not None
        begin, end = request.range
        assert begin % BLOCK == 0
        assert end % BLOCK == 0 or end == size
        counts.update(range(begin // BLOCK, -(-end // BLOCK)))
    return counts


@pytest.mark.parametrize("shuffle", [False, True, tio.Shuffle(block=20, window=60)])
def test_the_second_epoch_makes_no_request(
    web: WebServer, cache: tio.BlockCache, shuffle: Any
) -> None:
    urls = [web.put(f"/{name}.tfrecord", DATA) for name in "ab"]
    dataset = tio.TFRecordDataset(urls, cache=cache, shuffle=shuffle, batch_size=16)
    for _ in range(2):
        assert sorted(record for batch in dataset for record in batch) == sorted(2 * RECORDS)
    assert list(tio.TFRecordStream(urls, cache=cache)) == 2 * RECORDS
    assert tio.TFRecordMapDataset(urls, cache=cache)[307] == RECORDS[7]
    assert downloads(web) == dict.fromkeys(range(BLOCKS), 2)
    assert cache.summary()[2:5] == (8 << 20, 2 * BLOCKS, 2)


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_download_each_block_once(
    web: WebServer, cache: tio.BlockCache, shuffle: bool
) -> None:
    url = web.put("/a.tfrecord", DATA)
    index = tio.RecordIndex.build(url)
    web.requests.clear()
    web.delay = 0.01
    dataset = tio.TFRecordDataset(url, cache=cache, shuffle=shuffle, batch_size=4)
    loader = DataLoader(dataset, batch_size=None, num_workers=3)
    assert sorted(record for batch in loader for record in batch) == sorted(RECORDS)
    assert len(index) == len(RECORDS)
    assert downloads(web) == dict.fromkeys(range(BLOCKS), 1)


# ---- right data ----


def wrong_answer(handler: Any) -> None:
    """Answer with wrong bytes, some in each record."""
    begin, end = map(int, re.findall(r"\d+", handler.headers["Range"]))
    content = handler.server.state.files[handler.path].data
    body = np.frombuffer(content[begin : end + 1], np.uint8).copy()
    body[500::3000] ^= 1
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("ETag", '"v1"')
    handler.end_headers()
    handler.wfile.write(body.tobytes())


@pytest.mark.parametrize(
    ("is_compressed", "has_cache", "shuffle"),
    pairs([False, True], [False, True], [False, tio.Shuffle(block=20, window=60)]),
)
def test_a_wrong_answer_is_asked_for_again(
    web: WebServer, cache: tio.BlockCache, *, is_compressed: bool, has_cache: bool, shuffle: Any
) -> None:
    url = web.put("/a.tfrecord", gzip.compress(DATA, 1) if is_compressed else DATA)
    options: dict[str, Any] = {"shuffle": shuffle, "batch_size": 16}
    expected = sorted(record for batch in tio.TFRecordDataset(url, **options) for record in batch)
    options["cache_bytes"] = 1 << 23  # shares no memory
    dataset = tio.TFRecordDataset(url, cache=cache if has_cache else None, **options)
    web.requests.clear()
    web.faults = [wrong_answer]
    assert sorted(record for batch in dataset for record in batch) == expected
    assert not web.faults
    web.requests.clear()
    assert sorted(record for batch in dataset for record in batch) == expected
    assert not (has_cache and web.gets())
    cache.clear()
    options["cache_bytes"] = 1 << 22
    again = tio.TFRecordDataset(url, cache=cache if has_cache else None, **options)
    web.faults = [wrong_answer] * 1000  # the object itself is damaged
    with pytest.raises(tio.CorruptRecordError, match=r"a\.tfrecord"):
        list(again)


@pytest.mark.parametrize(
    ("is_compressed", "make"), [(True, tio.TFRecordDataset), (False, tio.TFRecordStream)]
)
def test_a_wrong_answer_to_the_first_reader_does_not_stay(
    web: WebServer, cache: tio.BlockCache, *, is_compressed: bool, make: Any
) -> None:
    url = web.put("/a.tfrecord", gzip.compress(DATA, 1) if is_compressed else DATA)
    web.faults = [None, wrong_answer]  # the first bytes are read before
    with contextlib.suppress(tio.TorchRecIOError):
        list(make(url, cache=cache))
    web.faults = []
    assert list(make(url, cache=cache)) == RECORDS


@pytest.mark.parametrize(("verify_crc", "shuffle"), [(True, False), (False, True)])
def test_batches_of_damaged_blocks(
    web: WebServer, cache: tio.BlockCache, *, verify_crc: bool, shuffle: bool
) -> None:
    content = b"".join(frame(tio.encode_example({"data": record})) for record in RECORDS)
    url = web.put("/a.tfrecord", content)
    for epoch in range(3):
        dataset = tio.TFRecordDataset(
            url,
            {"data": tio.RawFeature("uint8", (7000,))},
            batch_size=4,
            shuffle=shuffle,
            cache=cache,
            cache_bytes=(4 << 20) + epoch,  # shares no memory
            verify_crc=verify_crc,
        )
        rows = [row.numpy().tobytes() for batch in dataset for row in batch["data"]]
        assert sorted(rows) == sorted(RECORDS)
        assert {*downloads(web, len(content)).values()} == {1}
        web.requests.clear()
        size = len(content) // len(RECORDS)  # of each frame
        for path in Path(cache.directory).glob("*.block"):
            begin = int(path.stem.rpartition("-")[2], 16) * BLOCK
            data = bytearray(path.read_bytes())
            # In each record that lies in this block alone: another one may be dropped for it, too.
            for at in range(-begin % size, min(len(data), BLOCK) - size, size):
                data[at + 100] ^= 4
            with path.open("r+b") as file:
                file.write(data)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"etag": '"v1"'}, {"etag": '"v2"'}),
        (
            {"etag": None, "changed": "Mon, 02 Nov 2026 10:00:00 GMT"},
            {"etag": None, "changed": "Mon, 02 Nov 2026 10:00:01 GMT"},
        ),
    ],
)
def test_blocks_of_a_replaced_object_are_not_used(
    web: WebServer, cache: tio.BlockCache, first: dict[str, Any], second: dict[str, Any]
) -> None:
    url = web.put("/a.tfrecord", DATA, **first)
    file = opened(url, cache)
    assert read_bytes(file, 0, len(DATA) // 2) == DATA[: len(DATA) // 2]
    other = bytes(len(DATA))
    web.put("/a.tfrecord", other, **second)
    with pytest.raises(tio.StaleIndexError):
        read_bytes(file, len(DATA) // 2, len(DATA))
    assert read_bytes(opened(url, cache), 0, len(DATA)) == other
    assert read_bytes(Location.of(url, options_with(cache)).open(file.stamp), 0, 100) == DATA[:100]


@pytest.mark.parametrize("fields", [{"etag": None, "changed": None}, {"etag": 'W/"1"'}])
def test_objects_without_an_identity_are_not_cached(
    web: WebServer, cache: tio.BlockCache, fields: dict[str, Any]
) -> None:
    if fields["etag"]:  # a weak one, and a change that may be followed by another one
        fields["changed"] = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    url = web.put("/a.tfrecord", DATA, **fields)
    for _ in range(2):
        assert read_bytes(opened(url, cache), 0, 1000) == DATA[:1000]
    assert len(web.gets()) >= 2
    assert not os.path.exists(cache.directory)


OTHER = "http://other"


@pytest.mark.parametrize(
    ("url", "environment", "options"),
    [
        ("s3://b/a", {"AWS_ENDPOINT": OTHER}, {"AWS_ENDPOINT": OTHER}),
        ("s3://b/a", {"AWS_ENDPOINT_URL": OTHER}, {"endpoint": OTHER}),
        ("s3://b/a", {"AWS_ENDPOINT_URL_S3": OTHER}, {"endpoint": OTHER}),
        ("s3://b/a", {"AWS_PROFILE": "x"}, {"endpoint": OTHER}),
        ("gs://b/a", {"GOOGLE_BASE_URL": OTHER}, {"base_url": OTHER}),
        ("az://b/a", {"AZURE_ENDPOINT": OTHER}, {"endpoint": OTHER}),
        ("az://b/a", {"AZURE_STORAGE_ENDPOINT": OTHER}, {"endpoint": OTHER}),
        ("az://b/a", {"AZURE_STORAGE_ACCOUNT_NAME": "one"}, {"account_name": "one"}),
        ("az://b/a", {"AZURE_STORAGE_USE_EMULATOR": "true"}, {"use_emulator": True}),
    ],
)
def test_stores_with_one_name_are_different(
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    url: str,
    environment: dict[str, str],
    options: dict[str, Any],
) -> None:
    (tmp_path / "config").write_text(f"[profile x]\nendpoint_url = {OTHER}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    stamp = Location.of(web.put("/a", DATA)).open().stamp
    other = Location.of(url, {"sas_key": "5f2a", **options}).content_identity(stamp)
    assert Location.of(url).content_identity(stamp) != other
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Location.of(url).content_identity(stamp) == other


# ---- faults of the store ----


@pytest.mark.parametrize("plant", ["pipe", "link", "symbolic link", "folder"])
def test_what_others_put_in_place_of_files(
    web: WebServer, cache: tio.BlockCache, tmp_path: Path, plant: str
) -> None:
    url = web.put("/a.tfrecord", DATA)
    dataset = tio.TFRecordDataset(url, cache=cache, batch_size=16)
    list(dataset)
    other = tmp_path / "other"
    other.write_bytes(DATA)
    names = sorted(os.listdir(cache.directory))
    assert len(names) > BLOCKS
    locks = [f"{name.removesuffix('.block')}.lock" for name in names if name.endswith(".block")]
    for name in [*names, *locks[::2], "torchrec_io-cache.part"]:
        path = Path(cache.directory, name)
        path.unlink(missing_ok=True)
        if plant == "pipe":
            os.mkfifo(path)
        elif plant == "link":
            os.link(other, path)
        elif plant == "symbolic link":
            path.symlink_to(other)
        else:
            path.mkdir()
    assert [record for batch in dataset for record in batch] == RECORDS
    assert cache.summary().blocks <= len(names)
    with contextlib.suppress(OSError):
        cache.clear()
    assert other.read_bytes() == DATA


# ---- limits ----


def test_a_cache_that_is_smaller_than_the_data(web: WebServer, tmp_path: Path) -> None:
    small = tio.BlockCache(tmp_path / "c", max_bytes=1 << 20, block_bytes=BLOCK)
    url = web.put("/a.tfrecord", DATA)
    dataset = tio.TFRecordDataset(url, cache=small, shuffle=True)
    for _ in range(2):
        assert sorted(dataset) == sorted(RECORDS)
        assert sum(path.stat().st_blocks * 512 for path in (tmp_path / "c").iterdir()) <= 1 << 20
    assert read_bytes(opened(url, small), 0, 8 * BLOCK) == DATA[: 8 * BLOCK]
    web.requests.clear()
    assert read_bytes(opened(url, small), 0, 8 * BLOCK) == DATA[: 8 * BLOCK]
    assert not web.gets()


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"max_bytes must be at least 4,456,448 with blocks of 1,0"
    ):
        tio.BlockCache(tmp_path, max_bytes=1000)
    with pytest.raises(ValueError, match="block_bytes must be an integer of at least 65536, got 5"):
        tio.BlockCache(tmp_path, max_bytes=1000, block_bytes=5)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match="directory must not be a file, got '/"):
        tio.BlockCache(tmp_path / "file", max_bytes=1 << 30)
    with pytest.raises(ValueError, match=r"cache must be a BlockCache, such as .*got '/tmp/c'"):
        tio.TFRecordDataset("x", cache="/tmp/c")  # type: ignore[call-overload]


def test_local_files_need_no_cache(tmp_path: Path, cache: tio.BlockCache) -> None:
    (tmp_path / "a.tfrecord").write_bytes(DATA)
    assert list(tio.TFRecordDataset(tmp_path / "a.tfrecord", cache=cache)) == RECORDS
    assert not os.path.exists(cache.directory)
    assert repr(cache).endswith("blocks', max_bytes=8388608, block_bytes=65536)")
    assert cache == tio.BlockCache(cache.directory, max_bytes=8 << 20, block_bytes=BLOCK)


# ---- a folder that cannot be written ----


def test_a_folder_that_cannot_be_made(
    web: WebServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tio.BlockCache(tmp_path / "file" / "c", max_bytes=8 << 20, block_bytes=BLOCK)
    (tmp_path / "file").write_bytes(b"")
    dataset = tio.TFRecordDataset(web.put("/a.tfrecord", DATA), cache=cache)
    for _ in range(2):
        assert list(dataset) == RECORDS
    [warning] = caplog.messages
    assert f"the cache {cache.directory} cannot be written (" in warning


def test_filesystems_of_fsspec(cache: tio.BlockCache) -> None:
    class CountingFileSystem(fsspec.get_filesystem_class("memory")):  # type: ignore[misc]
        reads = 0

        def cat_file(self, *arguments: Any, **options: Any) -> Any:
            type(self).reads += 1
            return super().cat_file(*arguments, **options)

        def info(self, path: str, **options: Any) -> Any:
            return {**super().info(path, **options), "ETag": "1"}

    filesystem = CountingFileSystem()
    filesystem.pipe("/cached/a.tfrecord", DATA)
    dataset = tio.TFRecordDataset(
        "memory://cached/a.tfrecord", cache=cache, storage_options={"filesystem": filesystem}
    )
    assert list(dataset) == RECORDS
    before = CountingFileSystem.reads
    assert sorted(dataset.replace(shuffle=True)) == sorted(RECORDS)
    assert CountingFileSystem.reads == before
    assert cache.summary().blocks == BLOCKS


def test_secrets_are_not_stored(web: WebServer, cache: tio.BlockCache) -> None:
    url = web.put("/a.tfrecord?X-Amz-Signature=5f2a5f2a", DATA)
    headers = {"default_headers": {"x-key": "5f2a5f2a"}}
    file = opened(url, cache, client_options=headers)
    assert read_bytes(file, 0, len(DATA)) == DATA
    for path in Path(cache.directory).iterdir():
        assert "5f2a5f2a" not in path.name
        assert b"5f2a5f2a" not in path.read_bytes()
