"""Record formats: how files split into records."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import shutil
import struct
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.formats import Netstrings, netstring
from tests.support.tfrecord import write_tfrecord
from torchrec_io.checks import counted
from torchrec_io.records import lines as lines_module
from torchrec_io.records.fixed_length import FixedLength
from torchrec_io.records.formats import TFRECORD
from torchrec_io.records.index_cache import open_indexes
from torchrec_io.records.lines import TextLines
from torchrec_io.records.record_reader import RecordReader
from torchrec_io.records.whole_file import WholeFile
from torchrec_io.storage.binary_file import SourceReader
from torchrec_io.storage.location import Location
from torchrec_io.storage.opening import open_decompressed
from torchrec_io.storage.paths import expand_paths

NETSTRINGS = Netstrings()


def read_all(index: tio.RecordIndex) -> tuple[list[bytes], list[str]]:
    """Return records of a file, read in an unusual order, and their keys."""
    reader = RecordReader([index])
    order = np.arange(len(index))[::-1].copy()
    block, errors = reader.fetch(reader.plan(order))
    assert errors == []
    records = [block[position] for position in range(len(block))]
    return records[::-1], reader.keys(np.arange(len(index)))


def stored(path: Path, data: bytes, compression: str | None) -> Path:
    if compression == "gzip":
        data = gzip.compress(data)
    elif compression == "zlib":
        data = zlib.compress(data)
    path.write_bytes(data)
    return path


# ---- lines ----

LINES = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\0", b"\xff", b'"'])).map(b"".join)


def model_lines(data: bytes, skip: int) -> list[bytes]:
    """Return the lines that TensorFlow's TextLineReader returns."""
    lines = data.split(b"\n")
    lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    if not lines[-1]:
        lines.pop()
    return lines[skip:]


@given(data=LINES, numbers=st.tuples(st.sampled_from([0, 0, 1, 2, 99]), st.integers(1, 5)))
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_lines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compression: Any,
    data: bytes,
    numbers: tuple[int, int],
) -> None:
    skip, chunk = numbers
    monkeypatch.setattr(lines_module, "_CHUNK_BYTES", chunk)
    path = stored(tmp_path / "x", data, compression)
    text_lines = TextLines(skip)
    index = tio.RecordIndex.build(path, format=text_lines, compression=compression)
    records, keys = read_all(index)
    assert records == model_lines(data, skip)
    assert keys == [f"{path}:{skip + number}" for number in range(1, len(records) + 1)]
    loaded = pickle.loads(pickle.dumps(index))
    assert loaded.format.name == text_lines.name
    assert read_all(loaded)[0] == records


def test_lines_longer_than_a_chunk(tmp_path: Path) -> None:
    lines = [b"a" * (3 << 20), b"", b"b" * (1 << 20), b"c"]
    (tmp_path / "x").write_bytes(b"\n".join(lines))
    assert read_all(tio.RecordIndex.build(tmp_path / "x", format=TextLines()))[0] == lines


def test_progress(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\n" * (1 << 20))
    told: list[tuple[int, int]] = []

    def note(done: int, records: int) -> None:
        told.append((done, records))

    tio.RecordIndex.build(tmp_path / "x", format=TextLines(), progress=note)
    assert told == [(1 << 20, 1 << 19), (2 << 20, 1 << 20)]


@pytest.mark.parametrize("cut", [30, 150, -1])
def test_lines_of_a_damaged_stream(tmp_path: Path, cut: int) -> None:
    lines = [os.urandom(8).hex().encode() for _ in range(100)]
    data = gzip.compress(b"\n".join(lines[:40])) + gzip.compress(b"\n" + b"\n".join(lines[40:]))
    (tmp_path / "x").write_bytes(data[:cut])
    index = tio.RecordIndex.build(tmp_path / "x", format=TextLines(2), allow_damage=True)
    error = index.damage
    assert isinstance(error, tio.TruncatedFileError)
    assert error.record == len(index)
    # Nothing proves the lines of a member that is cut, and the last one before may continue in it.
    assert read_all(index)[0] == (lines[2:39] if cut == -1 else [])


@pytest.mark.parametrize("value", [-1, 1.5, True, "1"])
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ValueError, match="skip_header_lines must be a non-negative integer, got"):
        TextLines(value)
    with pytest.raises(ValueError, match="header_bytes must be a non-negative integer, got"):
        FixedLength(3, value)
    with pytest.raises(ValueError, match="footer_bytes must be a non-negative integer, got"):
        FixedLength(3, 0, value)
    with pytest.raises(ValueError, match="record_bytes must be a positive integer, got"):
        FixedLength(0 if value == 1 else value)


# ---- fixed-length records ----


@given(size=st.integers(1, 4), ends=st.tuples(*[st.integers(0, 3)] * 3), count=st.integers(0, 5))
@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_fixed_length(
    tmp_path: Path, compression: Any, size: int, ends: tuple[int, int, int], count: int
) -> None:
    head, foot, left = ends
    left %= size
    records = [bytes([65 + number]) * size for number in range(count)]
    data = b"h" * head + b"".join(records) + b"l" * left + b"f" * foot
    path = stored(tmp_path / "x", data, compression)
    fixed = FixedLength(size, head, foot)
    index = tio.RecordIndex.build(path, format=fixed, compression=compression, allow_damage=True)
    error = index.damage
    found, keys = read_all(index)
    assert found == records
    assert keys == [f"{path}:{number}" for number in range(count)]
    assert (error is not None) == (left > 0)
    if error is not None:
        assert isinstance(error, tio.TruncatedFileError)
        assert (error.path, error.record) == (str(path), count)
        assert error.offset == head + count * size
        assert f"the file has {counted(len(data), 'byte')}:" in error.reason
        assert f"{counted(left, 'byte')} left over after {counted(count, 'record')}" in error.reason


def test_file_too_short_for_its_header(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    with pytest.raises(tio.TruncatedFileError, match="3 bytes, too few for a header of 2"):
        tio.RecordIndex.build(tmp_path / "x", format=FixedLength(1, 2, 2))


# ---- whole files ----


@pytest.mark.parametrize("data", [b"", b"abc", gzip.compress(b"abc", mtime=0), bytes(1 << 20)])
def test_whole_files(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert read_all(tio.RecordIndex.build(path, format=WholeFile())) == ([data], [str(path)])


def test_whole_files_are_not_read_before_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for number in range(5):
        paths.append(str(tmp_path / f"{number}"))
        Path(paths[-1]).write_bytes(b"%d" % number)
    pread, preadv = os.pread, os.preadv
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "preadv")
    files = [Location.of(path) for path in paths]
    indexes, errors = open_indexes(files, "auto", "auto", WholeFile())
    monkeypatch.setattr(os, "pread", pread, raising=False)
    monkeypatch.setattr(os, "preadv", preadv, raising=False)
    assert errors == []
    reader = RecordReader(indexes)
    block, _ = reader.fetch(reader.plan(np.array([3, 0, 3])))
    assert [block[0], block[1], block[2]] == [b"3", b"0", b"3"]


def test_whole_files_are_identified_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"same")
    (tmp_path / "b").write_bytes(b"same")
    (tmp_path / "c").mkdir()
    shutil.copy(tmp_path / "a", tmp_path / "c" / "a")
    whole = WholeFile()
    first, second, moved = (
        tio.RecordIndex.build(tmp_path / name, format=whole).identity for name in ("a", "b", "c/a")
    )
    assert first != second
    assert first == moved


# ---- custom formats ----


@given(records=st.lists(st.binary(max_size=12)), cut=st.integers(0, 30))
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_custom_formats(tmp_path: Path, compression: Any, records: list[bytes], cut: int) -> None:
    """Complete and truncated files yield their complete records and the right error."""
    data = b"".join(map(netstring, records))
    data = data[: len(data) - min(cut, len(data))]
    ends = np.cumsum([len(netstring(record)) for record in records])
    whole = int((ends <= len(data)).sum())
    path = stored(tmp_path / "x", data, compression)
    index = tio.RecordIndex.build(
        path, format=NETSTRINGS, compression=compression, allow_damage=True
    )
    error = index.damage
    offsets = [0, *ends.tolist()][: whole + 1]
    assert index.offsets.tolist() == offsets[:-1]
    found, keys = read_all(index)
    assert found == records[:whole]
    assert keys == [f"{path}:{offset}" for offset in offsets[:-1]]
    assert (error is None) == (offsets[-1] == len(data))
    if error is not None:
        assert isinstance(error, tio.TruncatedFileError)
        assert (error.path, error.record, error.offset) == (str(path), whole, offsets[-1])


class Framed(tio.RecordFormat):
    """Format with a header, records preceded by their lengths, and a footer that starts with 0."""

    name = "framed"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        if file.read(4) != b"HEAD":
            raise ValueError("the file does not begin with HEAD")
        yield file.tell()
        while size := struct.unpack("<I", file.read(4))[0]:
            file.seek(size, io.SEEK_CUR)
            yield file.tell()

    def record(self, frame: memoryview) -> memoryview:
        return frame[4:]

    def key(self, path: str, record: int, offset: int) -> str:
        return f"{os.path.basename(path)}#{record}@{offset}"


def framed(records: list[bytes]) -> bytes:
    return b"HEAD" + b"".join(struct.pack("<I", len(r)) + r for r in records)


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_header_and_a_footer(tmp_path: Path, compression: Any, size: int) -> None:
    records = [b"abc" * size, b"d", b"ef" * size]
    path = stored(tmp_path / "x", framed(records) + b"\0\0\0\0whatever", compression)
    index = tio.RecordIndex.build(path, format=Framed())
    starts = np.cumsum([4, *(len(record) + 4 for record in records)])
    assert index.offsets.tolist() == starts[:-1].tolist()
    assert index.stream_end == starts[-1]
    assert read_all(index) == (records, [f"x#{i}@{starts[i]}" for i in range(3)])


def test_exception_of_a_format_ends_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"HEAP")
    with pytest.raises(tio.CorruptRecordError, match="does not begin with HEAD") as caught:
        tio.RecordIndex.build(path, format=Framed())
    assert (caught.value.record, caught.value.offset) == (0, 0)
    path.write_bytes(framed([b"abc", b"d"]) + b"\1")  # neither a complete length nor a footer
    index = tio.RecordIndex.build(path, format=Framed(), allow_damage=True)
    error = index.damage
    assert isinstance(error, tio.CorruptRecordError)
    assert isinstance(error.__cause__, struct.error)
    assert "struct.error" not in type(error).__name__
    assert (error.path, error.record, error.offset) == (str(path), 2, 16)
    assert read_all(index)[0] == [b"abc", b"d"]


def test_progress_of_a_search_that_fails_immediately(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"HEAP")
    seen: list[tuple[int, int]] = []
    index = tio.RecordIndex.build(
        tmp_path / "x", format=Framed(), progress=lambda *done: seen.append(done), allow_damage=True
    )
    error = index.damage
    assert len(index) == 0
    assert isinstance(error, tio.CorruptRecordError)
    assert seen == []


class Backwards(tio.RecordFormat):
    name = "backwards"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        del file
        yield from (0, 5, 3)


class Rereading(tio.RecordFormat):
    name = "rereading"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        end = file.seek(0, io.SEEK_END)
        file.seek(0)
        yield from (file.tell(), end)


def test_inconsistent_boundaries(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    with pytest.raises(tio.CorruptRecordError, match="a frame cannot end at 3, before it starts"):
        tio.RecordIndex.build(tmp_path / "x", format=Backwards())
    with pytest.raises(NotImplementedError, match="RecordFormat has no method boundaries"):
        next(iter(tio.RecordFormat().boundaries(io.BufferedReader(io.BytesIO()))))


class Given(tio.RecordFormat):
    """A format whose method is an argument and not a generator."""

    name = "given"

    def __init__(self, find: Any, take: Any = None) -> None:
        self._find, self._take = find, take

    def boundaries(self, file: BufferedReader) -> Any:
        return self._find(file)

    def record(self, frame: memoryview) -> Any:
        return self._take(frame)


@pytest.mark.parametrize(
    ("find", "reason"),
    [
        (lambda _: [0, 3, 6.0], "TypeError: 'float'"),
        (lambda _: [0, 3, 2**70], "OverflowError"),
        (lambda _: [0, 3, None], "TypeError: '<' not supported"),
    ],
    ids=["float", "huge", "None"],
)
def test_boundaries_that_are_not_offsets(tmp_path: Path, find: Any, reason: str) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    index = tio.RecordIndex.build(tmp_path / "x", format=Given(find), allow_damage=True)
    error = index.damage
    assert index.offsets.tolist() == [0]
    assert isinstance(error, tio.CorruptRecordError)
    assert reason in error.reason


@pytest.mark.parametrize("find", [lambda _: None, lambda file: [int(file.read())]])
def test_boundaries_that_return_none(tmp_path: Path, find: Any) -> None:
    (tmp_path / "x").write_bytes(b"HEAP")
    index = tio.RecordIndex.build(tmp_path / "x", format=Given(find), allow_damage=True)
    error = index.damage
    assert len(index) == 0
    assert isinstance(error, tio.CorruptRecordError)
    assert error.path == str(tmp_path / "x")


def test_format_without_boundaries_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    nothing = tio.RecordFormat()
    nothing.name = "nothing"
    with pytest.raises(NotImplementedError, match="RecordFormat has no method boundaries"):
        tio.RecordFileDataset(tmp_path / "x", nothing, on_error="skip")


def test_record_must_be_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    index = tio.RecordIndex.build(tmp_path / "x", format=Given(lambda _: [0, 4, 8], len))
    reader = RecordReader([index])
    block, errors = reader.fetch(reader.plan(np.array([0, 1])))
    assert len(block) == 0
    assert ["not 'int'" in error.reason for error in errors] == [True, True]


def test_only_plain_files_seek_backwards(tmp_path: Path) -> None:
    plain = stored(tmp_path / "plain", b"a" * 100_000, None)
    assert read_all(tio.RecordIndex.build(plain, format=Rereading()))[0] == [b"a" * 100_000]
    packed = stored(tmp_path / "packed", b"a" * 100_000, "gzip")
    with pytest.raises(io.UnsupportedOperation, match="the size of a compressed file"):
        tio.RecordIndex.build(packed, format=Rereading())


def test_compressed_stream_seeks_only_forwards(tmp_path: Path) -> None:
    path = stored(tmp_path / "x", b"0123456789", "gzip")
    index = tio.RecordIndex.build(path, format=TextLines())
    file = SourceReader(open_decompressed(Location.of(path).open(), "gzip"))
    assert len(index) == 1
    assert file.seek(4) == 4
    assert file.read(3) == b"456"
    with pytest.raises(io.UnsupportedOperation, match="from front to back"):
        file.seek(0)
    with pytest.raises(ValueError, match="offset must not be negative, got -1"):
        file.seek(-8, io.SEEK_CUR)


def test_damage_is_reported_for_its_record(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(netstring(b"one") + b"3:two;" + netstring(b"three"))
    reader = RecordReader([tio.RecordIndex.build(path, format=NETSTRINGS)])
    block, [error] = reader.fetch(reader.plan(np.array([2, 1, 0])))
    assert [block[0], block[1]] == [b"three", b"one"]
    assert block.numbers.tolist() == [2, 0]
    assert isinstance(error, tio.CorruptRecordError)
    assert (error.reason, error.record, error.offset) == ("it is no netstring", 1, 6)


@pytest.mark.parametrize("name", [None, "", 7])
def test_format_must_be_an_instance_with_a_name(tmp_path: Path, name: Any) -> None:
    (tmp_path / "x").write_bytes(b"")
    nameless = Netstrings()
    nameless.name = name
    with pytest.raises(ValueError, match="a RecordFormat with a name"):
        tio.RecordFileDataset(tmp_path, nameless)
    with pytest.raises(ValueError, match="a RecordFormat with a name"):
        tio.RecordFileDataset(tmp_path, Netstrings)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"80\n", b"x^2", b"\x1f\x8b\x07\0abc", b"\x1f\x8b\x08\xe0abc"])
def test_only_gzip_is_detected(tmp_path: Path, data: bytes) -> None:
    """Text may start like a zlib stream."""
    path = tmp_path / "x"
    path.write_bytes(data)
    assert list(tio.TextLineDataset(path)) == [data.rstrip(b"\n")]
    stored(path, data, "gzip")
    assert list(tio.TextLineDataset(path)) == [data.rstrip(b"\n")]
    assert b"".join(tio.TextLineDataset(path, compression=None)) != data
    stored(path, data, "zlib")
    assert list(tio.TextLineDataset(path, compression="zlib")) == [data.rstrip(b"\n")]


def test_directory_includes_all_its_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a.csv", "_c", ".hidden", "a.csv.tfidx"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    found = [os.path.basename(path) for path in expand_paths(tmp_path, tfrecord_names=False)]
    assert found == ["_c", "a.csv", "b.txt"]
    with pytest.raises(FileNotFoundError, match="holds no file"):
        expand_paths(tmp_path / "folder", tfrecord_names=False)


def test_tfrecord_file_can_be_read_with_its_format(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [b"a", b"", b"bc"])
    dataset = tio.RecordFileDataset(path, TFRECORD, with_key=True)
    assert list(dataset) == list(tio.TFRecordDataset(path, with_key=True))
