"""Decoded chunks of compressed files in a cache on the local disk."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.chunks import count_decoded
from tests.support.examples import example_of
from tests.support.web import web_server

SCHEMA = {"n": tio.FixedLenFeature([], "int64"), "text": tio.FixedLenFeature([], "string")}
COUNT = 400
TEXTS = [random.Random(number).randbytes(5000) for number in range(COUNT)]
# Smaller than the data, so that chunks are evicted.
OPTIONS: Any = {"batch_size": 16, "cache_bytes": 1 << 20}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a compressed file with chunks of 256 KiB."""
    found = str(tmp_path / "data.tfrecord.gz")
    write(found, TEXTS)
    tio.RecordIndex.build(found, seek_point_bytes=1 << 18).save()
    return found


def write(path: str, texts: list[bytes]) -> None:
    with tio.TFRecordWriter(path, compression="gzip", index=False) as writer:
        for number, text in enumerate(texts):
            writer.write(example_of(n=[number], text=[text]))


@pytest.fixture
def cache(tmp_path: Path) -> tio.BlockCache:
    return tio.BlockCache(tmp_path / "cache", max_bytes=1 << 26)


def values(dataset: Any) -> list[tuple[int, bytes]]:
    return [
        (int(n), text)
        for batch in dataset
        for n, text in zip(batch["n"], batch["text"].tolist(), strict=True)
    ]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the numbers of the chunks that are decoded from now on."""
    return count_decoded(monkeypatch)


@pytest.mark.parametrize("shuffle", [False, True, tio.Shuffle(block=30, window=90)])
def test_each_chunk_is_decoded_once(
    path: str, cache: tio.BlockCache, decoded: list[int], shuffle: Any
) -> None:
    options = {**OPTIONS, "cache": cache, "shuffle": shuffle}
    dataset = tio.TFRecordDataset(path, SCHEMA, **options)
    expected = sorted(enumerate(TEXTS))
    assert sorted(values(dataset)) == expected
    assert len(decoded) == len({*decoded}) == cache.summary().blocks > 5
    decoded.clear()
    assert sorted(values(DataLoader(dataset, batch_size=None, num_workers=2))) == expected
    assert sorted(values(pickle.loads(pickle.dumps(dataset)))) == expected
    records = tio.TFRecordMapDataset(path, SCHEMA, cache=cache, cache_bytes=1 << 20)
    assert records[399]["text"] == TEXTS[399]
    assert decoded == []


def test_a_file_that_was_replaced(path: str, cache: tio.BlockCache) -> None:
    assert len(values(tio.TFRecordDataset(path, SCHEMA, cache=cache, **OPTIONS))) == COUNT
    others = [text[::-1] for text in TEXTS]
    before = os.stat(path)
    write(f"{path}.new", others)
    os.replace(f"{path}.new", path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    tio.RecordIndex.build(path, seek_point_bytes=1 << 18).save()
    assert values(tio.TFRecordDataset(path, SCHEMA, cache=cache, **OPTIONS)) == list(
        enumerate(others)
    )


def test_damage_to_the_file_is_not_stored(path: str, cache: tio.BlockCache) -> None:
    data = bytearray(Path(path).read_bytes())
    stamp = os.stat(path)
    data[len(data) // 2] ^= 0x10
    Path(path).write_bytes(data)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    options = {**OPTIONS, "batch_size": None, "on_error": "skip", "cache": cache}
    for _ in range(2):
        found = [int(item["n"]) for item in tio.TFRecordDataset(path, SCHEMA, **options)]
        assert 300 < len(found) < COUNT


def test_remote_files(path: str, cache: tio.BlockCache, decoded: list[int]) -> None:
    with web_server() as web:
        url = web.put("/data.tfrecord.gz", Path(path).read_bytes())
        web.put("/data.tfrecord.gz.tfidx", Path(f"{path}.tfidx").read_bytes())
        dataset = tio.TFRecordDataset(url, SCHEMA, cache=cache, shuffle=True, **OPTIONS)
        assert sorted(values(dataset)) == list(enumerate(TEXTS))
        decoded.clear()
        again = tio.TFRecordDataset(url, SCHEMA, cache=cache, shuffle=True, **OPTIONS)
        before = len(web.gets())
        assert sorted(values(again)) == list(enumerate(TEXTS))
        assert decoded == []
        assert len(web.gets()) == before


@pytest.mark.parametrize(
    ("seek_point_bytes", "cache_bytes", "has_cache"),
    [(1 << 18, 1 << 20, True), (1 << 18, 1 << 20, False), (1 << 30, 1 << 28, False)],
)
def test_repeated_decompression_is_reported(
    tmp_path: Path,
    cache: tio.BlockCache,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    *,
    seek_point_bytes: int,
    cache_bytes: int,
    has_cache: bool,
) -> None:
    monkeypatch.setattr("torchrec_io._storage.seek_points._MOST_CHUNK_BYTES", 1 << 20)
    path = str(tmp_path / "large.tfrecord.gz")
    write(path, [bytes(100_000)] * 200)
    tio.RecordIndex.build(path, seek_point_bytes=seek_point_bytes).save()
    options: Any = {"cache": cache} if has_cache else {}
    options["cache_bytes"] = cache_bytes
    next(iter(tio.TFRecordDataset(path, SCHEMA, shuffle=True, **options)))
    assert ("decompresses the files about" in caplog.text) == (not has_cache)
