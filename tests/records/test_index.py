"""RecordIndex: building, saving, validation, finding, and text indexes."""

from __future__ import annotations

import itertools
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import (
    IndexFormatError,
    RecordIndex,
    StaleIndexError,
    TFRecordDataset,
)
from torchrec_io._records.index_cache import IndexSearch, cache_path
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.location import Location

RECORDS = [bytes([i]) * (i * i) for i in range(40)]
OFFSETS = np.cumsum([0] + [len(r) + 16 for r in RECORDS])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "data.tfrecord", RECORDS)


def find(path: Path) -> RecordIndex:
    return IndexSearch(Location.of(path)).find_or_build()


# ---- building ----


# Some are larger than what is read at once.
LARGE = [bytes(3 << 20), b"small", bytes(5 << 20), *[b"x" * 100] * 5000, bytes(2 << 20)]


@pytest.mark.parametrize(
    ("records", "compression"),
    [(RECORDS, "zlib"), (LARGE, None), (LARGE, "gzip"), ([b"", b"a", b""], "gzip"), ([], None)],
    ids=["some", "large", "large in gzip", "empty", "none"],
)
def test_build_finds_every_record(
    tmp_path: Path, records: list[bytes], compression: str | None
) -> None:
    path = write_tfrecord(tmp_path / "data", records, compression)
    index = RecordIndex.build(path)
    assert index.compression == compression
    assert index.lengths.tolist() == [len(r) for r in records]
    starts = itertools.accumulate((len(r) + 16 for r in records), initial=0)
    assert [*index.offsets.tolist(), index.stream_end] == list(starts)
    assert list(iter_records(path)) == list(zip(index.offsets.tolist(), records, strict=True))


# ---- saved indexes ----


@pytest.mark.parametrize("count", [10, 20_000], ids=["in memory", "by pages"])
def test_a_saved_index_is_small_and_holds_no_descriptor(tmp_path: Path, count: int) -> None:
    path = Path(RecordIndex.build(write_tfrecord(tmp_path / "x", [b"ab"] * count)).save())
    assert path.stat().st_size < 4.1 * count + 120
    before = len(os.listdir("/proc/self/fd"))
    index = RecordIndex.load(tmp_path / "x")
    dumped = pickle.dumps(index)
    assert len(dumped) < 1200  # the name of a large file, not its content
    again = pickle.loads(dumped)
    assert len(os.listdir("/proc/self/fd")) == before
    assert index.offsets.tolist() == again.offsets.tolist() == list(range(0, 18 * count, 18))
    del index
    assert again.lengths.tolist() == [2] * count


@pytest.mark.parametrize("count", [10, 20_000], ids=["in memory", "by pages"])
@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_an_index_that_changes_before_another_process_uses_it(
    tmp_path: Path, count: int, change: str
) -> None:
    data = write_tfrecord(tmp_path / "x", [b"ab"] * count)
    path = Path(RecordIndex.build(data).save())
    dumped = pickle.dumps(RecordIndex.load(data))
    if change == "removed":
        path.unlink()
    else:
        RecordIndex.build(write_tfrecord(data, [b"abc"] * count)).save()
    again = pickle.loads(dumped)  # an error here would end a worker
    if change == "removed" and count == 10:
        again.check_unchanged()
        assert again.lengths.tolist() == [2] * 10
        return
    with pytest.raises(StaleIndexError, match=change):
        again.check_unchanged()
        len(again.offsets)


def test_every_damaged_byte_and_truncation_is_rejected(data: Path) -> None:
    path = Path(RecordIndex.build(data).save())
    whole = path.read_bytes()
    broken = [whole[:cut] for cut in range(len(whole))] + [whole + b"\0", whole * 2]
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        broken.append(bytes(changed))
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(IndexFormatError, match="damaged"):
            RecordIndex.load(data)


# ---- stale indexes ----


def test_another_size_or_content_is_stale(data: Path) -> None:
    RecordIndex.build(data).save()
    stat = data.stat()
    content = bytearray(data.read_bytes())
    content[-20] ^= 1
    data.write_bytes(content)
    os.utime(data, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the time does not show the change
    with pytest.raises(StaleIndexError, match="content"):
        RecordIndex.load(data)
    write_tfrecord(data, RECORDS[:-1])
    with pytest.raises(StaleIndexError, match="bytes"):
        RecordIndex.load(data)


# ---- text indexes ----


def test_text_round_trip(data: Path, tmp_path: Path) -> None:
    built = RecordIndex.build(data)
    text = built.to_text(tmp_path / "data.tfrecord.idx")
    lines = [f"{a} {b - a}" for a, b in itertools.pairwise(OFFSETS)]
    assert text.read_text().splitlines() == lines
    for index in (RecordIndex.from_text(text, data), RecordIndex.load(text)):
        assert index.offsets.tolist() == built.offsets.tolist()
        assert index.lengths.tolist() == built.lengths.tolist()


@pytest.mark.parametrize(
    "garbage",
    [
        "hello\n", "0\n", "0 1 2\n", "0 -19\n", "a 19\n", "0 19\n\n", "0 1_9\n", "0 19.0\n",
        "5 19\n", "0 15\n", "0 19\n18 19\n", "0 19\n20 19\n", "0 " + "9" * 30 + "\n",
        "0 \u0661\u0669\n", "\0\0\0\0",
    ],
)  # fmt: skip
def test_garbage_is_rejected_with_its_line(tmp_path: Path, garbage: str) -> None:
    write_tfrecord(tmp_path / "d", [b"abc", b"abc"])
    (tmp_path / "d.idx").write_text(garbage, "utf-8")
    with pytest.raises(IndexFormatError, match=r"line \d+ of the index"):
        RecordIndex.load(tmp_path / "d.idx")


def test_text_index_of_another_file(data: Path, tmp_path: Path) -> None:
    other = write_tfrecord(tmp_path / "other", [b"x" * len(b"".join(RECORDS))])
    text = RecordIndex.build(data).to_text(tmp_path / "i.idx")
    with pytest.raises(StaleIndexError, match="another file"):
        RecordIndex.from_text(text, other)
    same_size = list(RECORDS)
    same_size[3], same_size[9] = same_size[9], same_size[3]
    write_tfrecord(other, same_size)
    with pytest.raises(StaleIndexError, match="length differs from the one in the index"):
        list(TFRecordDataset(other, index=text))


# ---- finding ----


def test_sidecar_precedes_cache_precedes_new_index(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = find(data)
    assert built.index_path == str(cache_path(data))
    assert os.listdir(data.parent) == ["data.tfrecord"]  # no file next to the data

    def no_scan(*_: object, **__: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(RecordIndex, "build", no_scan)
    assert find(data).index_path == str(cache_path(data))
    built.save()
    assert find(data).index_path == str(data) + ".tfidx"


def test_a_stale_or_damaged_sidecar_is_ignored(data: Path) -> None:
    sidecar = Path(RecordIndex.build(data).save())
    write_tfrecord(data, RECORDS[:3])
    assert len(find(data)) == 3
    sidecar.write_bytes(b"garbage")
    assert len(find(data)) == 3
    assert sidecar.read_bytes() == b"garbage"  # it belongs to the user


def test_unreadable_indexes_are_ignored(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(f"{data}.tfidx").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "file"))
    index = find(data)
    assert (len(index), index.index_path, index.damage) == (len(RECORDS), None, None)


# ---- many files ----


def test_links_to_one_file_share_its_index(data: Path, tmp_path: Path) -> None:
    (tmp_path / "to_file").symlink_to(data)
    (tmp_path / "to_folder").symlink_to(data.parent)
    for name in ("to_file", "to_folder/data.tfrecord", "to_folder/to_file"):
        assert cache_path(tmp_path / name) == cache_path(data)
