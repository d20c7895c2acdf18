"""Compressed files with and without seek points give the records and orders of plain files."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.chunks import count_decoded
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._records.index_file import encode_index
from torchrec_io._storage.compression import CHECKED_BYTES
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.seek_points import SeekPoint, SeekPoints, pack_window
from torchrec_io._storage.zstd import load_zstd
from torchrec_io.errors import CorruptRecordError, IndexFormatError

zstd = load_zstd()

COUNT = 12_000
SPAN = 100_000
ORDERS: dict[str, dict[str, Any]] = {
    "stored": {},
    "uniform": {"shuffle": True},
    "window": {"shuffle": 500},
    "blocks": {"shuffle": tio.Shuffle(block=64, window=1000)},
    "split": {"shuffle": True, "split": "[20%:70%]"},
}


def make_records() -> list[bytes]:
    rng = np.random.default_rng(0)
    words = [rng.bytes(9) for _ in range(3000)]
    picked = rng.integers(0, 3000, (COUNT, 24))
    lengths = rng.integers(0, 24, COUNT)
    return [
        number.to_bytes(4, "little") + b"".join(words[n] for n in row[:length])
        for number, (row, length) in enumerate(zip(picked, lengths, strict=True))
    ]


RECORDS = make_records()
STREAM = b"".join(map(frame, RECORDS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the same records in several forms, each under the name ``x``."""
    root = tmp_path_factory.mktemp("forms")
    contents = {
        "plain": STREAM,
        "gzip": gzip.compress(STREAM),
        "zlib": zlib.compress(STREAM),
        "members": b"".join(
            gzip.compress(STREAM[at : at + 300_000]) for at in range(0, len(STREAM), 300_000)
        ),
        "zstd": zstd.compress(STREAM),
        "frames": b"".join(
            zstd.compress(STREAM[at : at + 90_000]) for at in range(0, len(STREAM), 90_000)
        ),
        "no points": gzip.compress(STREAM),
        "by earlier release": gzip.compress(STREAM),
    }
    for name, content in contents.items():
        path = root / name / "x"
        path.parent.mkdir()
        path.write_bytes(content)
        if name in ("gzip", "zlib", "members", "zstd", "frames"):
            tio.RecordIndex.build(path, seek_point_bytes=SPAN).save()
        if name == "no points":
            tio.RecordIndex.build(path, seek_point_bytes=1 << 40).save()
    return root


FORMS = ("gzip", "zlib", "members", "zstd", "frames", "no points")


def open_form(folder: Path, form: str, **options: Any) -> tio.TFRecordDataset:
    path = folder / form / "x"
    index = "auto" if form == "plain" else f"{path}.tfidx"
    return tio.TFRecordDataset(path, index=index, batch_size=100, **options)


def test_the_files_have_the_seek_points_that_the_tests_are_about(folder: Path) -> None:
    counts = {form: len(tio.RecordIndex.load(folder / form / "x").seek_points) for form in FORMS}
    assert counts["zstd"] == counts["no points"] == 1
    assert min(counts[form] for form in ("gzip", "zlib", "members", "frames")) > 5


@pytest.mark.parametrize(
    ("form", "order"),
    [
        ("gzip", "uniform"),
        ("gzip", "blocks"),
        ("zlib", "stored"),
        ("members", "window"),
        ("zstd", "uniform"),
        ("frames", "split"),
        ("frames", "blocks"),
        ("no points", "window"),
    ],
)
def test_orders_equal_those_of_the_plain_file(folder: Path, form: str, order: str) -> None:
    options = {**ORDERS[order], "seed": 3, "epochs": 2}
    expected = [list(batch) for batch in open_form(folder, "plain", **options)]
    for more in ({"num_threads": 3}, {"num_threads": 1, "cache_bytes": 1 << 20}):
        assert [list(each) for each in open_form(folder, form, **options, **more)] == expected


@pytest.mark.parametrize("order", ["stored", "uniform", "blocks"])
def test_resuming_decodes_only_what_follows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    options = {**ORDERS[order], "num_threads": 1}
    expected = list(open_form(folder, "plain", **options))
    dataset = open_form(folder, "gzip", **options)
    decoded = count_decoded(monkeypatch)
    dataset.resume(epoch=0, batches=90)
    assert list(dataset) == expected[90:]
    spans = len(tio.RecordIndex.load(folder / "gzip" / "x").seek_points)
    if order == "stored":  # what comes before is not even read
        assert len({*decoded}) <= spans // 4 + 2
    assert len(decoded) <= spans


def test_windows_in_an_index_of_zstandard_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(zstd.compress(STREAM[:9000]) + zstd.compress(STREAM[9000:]))
    index = tio.RecordIndex.build(path, seek_point_bytes=1)
    bits = int(index.seek_points.file_bits[1])
    checks = [0] * (1 + -(-(len(STREAM) - 9000) // CHECKED_BYTES))
    points = SeekPoints.of([SeekPoint(0, 0), SeekPoint(9000, bits, pack_window(b"x"))], checks)
    starts = index.offsets.astype(np.uint64)
    content = encode_index(LocalFile(path), starts, len(STREAM), "zstd", points)
    path.with_name("x.tfidx").write_bytes(content)
    with pytest.raises(IndexFormatError, match="no windows"):
        tio.RecordIndex.load(path)
    assert len(tio.TFRecordMapDataset(path)) == COUNT  # with another index


@pytest.mark.parametrize(
    ("order", "span"),
    [("stored", "first"), ("uniform", "inner"), ("window", "last"), ("blocks", "inner")],
)
@pytest.mark.parametrize("cache_bytes", [1 << 20, 1 << 28])
def test_damage_is_reported_for_exactly_the_records_that_it_touches(
    tmp_path: Path, order: str, span: str, cache_bytes: int
) -> None:
    """This holds however often a span is decoded."""
    path = tmp_path / "x"
    content = bytearray(gzip.compress(STREAM))
    path.write_bytes(content)
    index = tio.RecordIndex.build(path, seek_point_bytes=SPAN)
    bits = np.append(index.seek_points.file_bits, 8 * len(content))
    edges = np.append(index.seek_points.stream_offsets, len(STREAM))
    number = {"first": 0, "inner": 3, "last": len(bits) - 2}[span]
    at = int(bits[number] + bits[number + 1]) // 16
    content[at : at + 64] = bytes(64)
    stamp = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    index.save()
    errors: list[Exception] = []
    options = {**ORDERS[order], "cache_bytes": cache_bytes, "on_error": errors.append}
    dataset = tio.TFRecordDataset(path, index=f"{path}.tfidx", batch_size=100, **options)
    got = [record for batch in dataset for record in batch]
    lost = sorted({*RECORDS} - {*got})
    assert len(got) + len(lost) == COUNT
    assert {*got} < {*RECORDS}
    assert 0 < len(lost) == len(errors)
    assert dataset.skipped == len(lost)
    places = sorted(error.offset for error in errors)  # type: ignore[attr-defined]
    assert all(isinstance(error, CorruptRecordError) for error in errors)
    assert edges[number] - 300 < places[0]  # a record may start in the span before
    assert places[-1] < edges[number + 1]


def test_damaged_lines_are_never_given(tmp_path: Path) -> None:
    lines = [
        b"%06d " % number + record.hex().encode()[:60] for number, record in enumerate(RECORDS)
    ]
    content = bytearray(gzip.compress(b"\n".join(lines) + b"\n", 0))  # stored as they are
    path = tmp_path / "x.txt.gz"
    path.write_bytes(content)
    first = list(tio.TextLineDataset(path))
    at = content.index(b"006000 ") + 20
    content[at] ^= 1
    stamp = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    for shuffle in (False, True):
        dataset = tio.TextLineDataset(
            path,
            on_error="skip",
            batch_size=50,
            shuffle=shuffle,
            cache_bytes=1 << 22,  # no other reader's, which may have read the file before
        )
        got = [line for batch in dataset for line in batch]
        assert {*got} <= {*first}
        assert dataset.skipped > 0
        assert dataset.skipped + len(got) == COUNT


@pytest.mark.parametrize("error", [MemoryError, RuntimeError("can't start new thread")])
def test_records_that_cannot_be_prefetched_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    path = str(write_tfrecord(tmp_path / "x", RECORDS, "gzip"))

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("torchrec_io._records.prefetch.RecordPrefetcher.begin", fail)
    assert list(tio.TFRecordDataset(path)) == RECORDS


def test_many_decodings_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x"
    with tio.TFRecordWriter(path, "gzip", index=True) as writer:
        for _ in range(40):
            writer.write(bytes(200_000))
    options: dict[str, Any] = {"cache_bytes": 1 << 20}
    for shuffle in (False, 100, tio.Shuffle(block=10, window=20)):
        tio.TFRecordDataset(path, shuffle=shuffle, **options)
    tio.TFRecordDataset(path, shuffle=True)
    assert not caplog.records
    dataset = tio.TFRecordDataset(path, shuffle=True, **options)
    assert dataset.replace(seed=3).num_records == 40
    [message] = [record.getMessage() for record in caplog.records]
    assert "about 20 times in an epoch" in message
    for way in ("Shuffle(block=...)", "cache", "torchrec-io compress or decompress"):
        assert way in message
    caplog.clear()
    path = tmp_path / "y"
    with tio.TFRecordWriter(path, "gzip", index=True) as writer:
        for _ in range(8000):
            writer.write(bytes(1000))
    small = tio.TFRecordDataset(path, shuffle=tio.Shuffle(block=50, window=200), **options)
    assert small.num_records == 8000
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("shuffle=Shuffle(block=50) decompresses the files about ")
    assert "use larger blocks, a larger cache, or torchrec-io compress or decompress" in message
