"""A new kind of byte source, which needs no changes outside of the storage room."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.reading import read
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import RecordIndex, StaleIndexError, TruncatedFileError
from torchrec_io.records.formats import RecordFormat
from torchrec_io.records.lines import TextLines
from torchrec_io.records.reader import RecordLocation
from torchrec_io.records.record_reader import RecordReader
from torchrec_io.records.stream_reader import StreamReader
from torchrec_io.records.verify import verify_file
from torchrec_io.records.whole_file import WholeFile
from torchrec_io.storage import location
from torchrec_io.storage.byte_source import ByteSource, Stamp
from torchrec_io.storage.local import LocalFile, StrPath
from torchrec_io.storage.location import Location
from torchrec_io.storage.several_sources import descriptors_of, read_ranges

OBJECTS: dict[str, bytes] = {}
PACKERS: dict[str | None, Callable[[bytes], bytes]] = {
    None: bytes,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
}
RECORDS = [b"abc", b"", bytes(5000), b"x" * 300]


class MemorySource(ByteSource):
    """An object of a store, with only the required interface."""

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self.stamp = stamp_of(path)
        self._content = OBJECTS[self.path]

    @property
    def size(self) -> int:
        return len(self._content)

    def read_into(self, offset: int, out: memoryview) -> int:
        part = self._content[offset : offset + len(out)]
        out[: len(part)] = part
        return len(part)

    def close(self) -> None:
        pass


def stamp_of(path: StrPath) -> Stamp:
    if os.fspath(path) not in OBJECTS:
        raise FileNotFoundError(path)
    content = OBJECTS[os.fspath(path)]
    return Stamp((str(path), f"tag {zlib.crc32(content)}"), len(content), 1)


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Create an empty store whose objects replace files."""
    OBJECTS.clear()
    monkeypatch.setattr(location, "LocalFile", MemorySource)
    monkeypatch.setattr(Location, "stamp_now", stamp_of)
    monkeypatch.setattr(Location, "is_seekable", lambda _: True)
    return OBJECTS


def fetch(reader: RecordReader, numbers: list[int]) -> list[bytes]:
    plan = reader.plan(np.array(numbers))
    reader.will_need(plan)
    block, errors = reader.fetch(plan)
    assert errors == []
    return [block[i] for i in range(len(block))]


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_records_of_an_object(store: dict[str, bytes], compression: str | None) -> None:
    store["mem/a"] = PACKERS[compression](b"".join(map(frame, RECORDS)))
    store["mem/b"] = frame(b"last")
    found = RecordIndex.build("mem/a")
    assert found.compression == compression
    reader = RecordReader([found, RecordIndex.build("mem/b")])
    assert fetch(reader, [4, 2, 0, 1, 3]) == [b"last", RECORDS[2], *RECORDS[:2], RECORDS[3]]
    frames = reader.open_frames(reader.plan(np.array([0])))
    assert frames is not None
    assert frames.block is not None  # they were read: the core has no descriptor
    assert frames.block.buffer.tobytes() == frame(RECORDS[0])
    assert reader.location(4) == RecordLocation("mem/b", 0, 0)


def test_objects_without_an_index(store: dict[str, bytes]) -> None:
    store["mem/a"] = b"".join(map(frame, RECORDS)) + b"stray"
    records, error = read("mem/a")  # type: ignore[arg-type]
    assert [data for _, data in records] == RECORDS
    assert isinstance(error, TruncatedFileError)
    [chunk] = StreamReader([Location.of("mem/a")]).chunks(0, 1, size=9)
    assert [chunk.block[i] for i in range(len(chunk))] == RECORDS
    report = verify_file("mem/a")
    assert (report.records, report.lost_bytes, report.file_bytes) == (4, 5, len(store["mem/a"]))


def test_index_file_as_an_object(store: dict[str, bytes]) -> None:
    store["mem/a"] = frame(b"abc") * 20_000
    store["mem/a.tfidx"] = RecordIndex.build("mem/a").file_bytes.tobytes()
    loaded = RecordIndex.load("mem/a")
    assert len(loaded) == 20_000
    loaded.check_unchanged()
    store["mem/a"] = frame(b"abcd") * 20_000
    with pytest.raises(StaleIndexError, match="was replaced or changed"):
        loaded.check_unchanged()


@pytest.mark.parametrize(("record_format", "count"), [(TextLines(), 2), (WholeFile(), 1)])
def test_other_formats(store: dict[str, bytes], record_format: RecordFormat, count: int) -> None:
    store["mem/a"] = b"one\ntwo\n"
    found = RecordIndex.build("mem/a", format=record_format)
    assert len(fetch(RecordReader([found]), list(range(count)))) == count


def test_sources_with_and_without_descriptors(store: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    store["mem/a"] = b"abcdef"
    local, memory = LocalFile(tmp_path / "x"), MemorySource("mem/a")
    assert descriptors_of([local, local]) == [local.descriptor] * 2
    assert descriptors_of([local, memory]) is None
    out = np.zeros(7, np.uint8)
    ranges = np.array([(8, 2, 0), (0, 3, 2), (4, 2, 5)])
    assert read_ranges([local, memory], [0, 1, 3], ranges, out).truncated_range is None
    assert out.tobytes() == b"89abcef"
    ranges[2] = (5, 2, 5)
    assert read_ranges([local, memory], [0, 1, 3], ranges, out).truncated_range == 2


def test_file_that_shrinks_during_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tfrecord(tmp_path / "x", [b"abc", bytes(100)])
    size = LocalFile.size.fget(LocalFile(path))  # type: ignore[attr-defined]
    sizes = iter([size, 60, 60])
    os.truncate(path, 60)
    monkeypatch.setattr(location, "LocalFile", LocalFile)
    monkeypatch.setattr(LocalFile, "size", property(lambda _: next(sizes)))
    found = RecordIndex.build(path, allow_damage=True)
    error = found.damage
    assert found.offsets.tolist() == [0]
    assert isinstance(error, TruncatedFileError)
    assert (error.record, error.offset) == (1, 19)
