"""Record formats: how files split into records."""

from __future__ import annotations

import gzip
import io
import os
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
from torchrec_io._records.fixed_length import FixedLength
from torchrec_io._records.lines import TextLines
from torchrec_io._records.record_reader import RecordReader

NETSTRINGS = Netstrings()


def read_all(index: tio.RecordIndex) -> tuple[list[bytes], list[str]]:
    """Return records of a file, read in an unusual order, and their keys."""
    reader = RecordReader([index])
    order = np.arange(len(index))[::-1].copy()
    block, errors = reader.fetch(reader.plan(order))
    assert errors == []
    records = [block[position] for position in range(len(block))]
    return records[::-1], [place.key for place in reader.locate(np.arange(len(index)))]


def build(
    path: Path, each: tio.RecordFormat, **options: Any
) -> tuple[tio.RecordIndex, tio.TorchRecIOError | None]:
    index = tio.RecordIndex.build(path, format=each, allow_damage=True, **options)
    return index, index.damage


def stored(path: Path, data: bytes, compression: str | None = None) -> Path:
    packed = {"gzip": gzip.compress(data), "zlib": zlib.compress(data), None: data}
    path.write_bytes(packed[compression])
    return path


# ---- lines ----


@pytest.mark.parametrize("value", [-1, 1.5, True, "1"])
def test_parameters_are_checked(value: Any) -> None:
    for make in (TextLines, lambda it: FixedLength(3, it), lambda it: FixedLength(3, 0, it)):
        with pytest.raises(ValueError, match=r"_(lines|bytes) must be a non-negative integer, got"):
            make(value)
    with pytest.raises(ValueError, match="record_bytes must be a positive integer, got"):
        FixedLength(0 if value == 1 else value)


# ---- fixed-length records ----


def test_file_too_short_for_its_header(tmp_path: Path) -> None:
    path = stored(tmp_path / "x", b"abc")
    with pytest.raises(tio.TruncatedFileError, match="3 bytes, too few for a header of 2"):
        tio.RecordIndex.build(path, format=FixedLength(1, 2, 2))


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
    index, error = build(path, NETSTRINGS, compression=compression)
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
    path = stored(tmp_path / "x", b"HEAP")
    seen: list[tuple[int, int]] = []
    index, error = build(path, Framed(), progress=lambda *done: seen.append(done))
    assert (len(index), seen) == (0, [])
    assert isinstance(error, tio.CorruptRecordError)
    assert "does not begin with HEAD" in error.reason
    assert (error.record, error.offset) == (0, 0)
    stored(path, framed([b"abc", b"d"]) + b"\1")  # neither a complete length nor a footer
    index, error = build(path, Framed())
    assert isinstance(error, tio.CorruptRecordError)
    assert isinstance(error.__cause__, struct.error)
    assert (error.path, error.record, error.offset) == (str(path), 2, 16)
    assert read_all(index)[0] == [b"abc", b"d"]


class Given(tio.RecordFormat):
    """A format whose methods are arguments and not generators."""

    name = "given"

    def __init__(self, find: Any, take: Any = None) -> None:
        self._find, self._take = find, take

    def boundaries(self, file: BufferedReader) -> Any:
        return self._find(file)

    def record(self, frame: memoryview) -> Any:
        return frame if self._take is None else self._take(frame)


@pytest.mark.parametrize(
    ("find", "count", "reason"),
    [
        (lambda _: [0, 3, 6.0], 1, "TypeError: 'float'"),
        (lambda _: [0, 3, 2**70], 1, "OverflowError"),
        (lambda _: [0, 3, None], 1, "TypeError: '<' not supported"),
        (lambda _: iter((0, 5, 3)), 1, "a frame cannot end at 3, before it starts"),
        (lambda _: None, 0, "TypeError"),
        (lambda file: [int(file.read())], 0, "invalid literal"),
    ],
    ids=["float", "huge", "None", "descending", "nothing", "exception"],
)
def test_boundaries_that_are_not_offsets(
    tmp_path: Path, find: Any, count: int, reason: str
) -> None:
    path = stored(tmp_path / "x", b"a123456789")
    index, error = build(path, Given(find))
    assert len(index) == count
    assert isinstance(error, tio.CorruptRecordError)
    assert reason in error.reason
    assert error.path == str(path)


def test_format_without_boundaries_is_an_error(tmp_path: Path) -> None:
    nothing = tio.RecordFormat()
    nothing.name = "nothing"
    with pytest.raises(NotImplementedError, match="RecordFormat has no method boundaries"):
        tio.RecordFileDataset(stored(tmp_path / "x", b"012"), nothing, on_error="skip")


def test_record_must_be_bytes(tmp_path: Path) -> None:
    path = stored(tmp_path / "x", b"0123456789")
    reader = RecordReader([tio.RecordIndex.build(path, format=Given(lambda _: [0, 4, 8], len))])
    block, errors = reader.fetch(reader.plan(np.array([0, 1])))
    assert len(block) == 0
    assert ["not 'int'" in error.reason for error in errors] == [True, True]


def test_only_plain_files_seek_backwards(tmp_path: Path) -> None:
    def find(file: BufferedReader) -> Iterator[int]:
        end = file.seek(0, io.SEEK_END)
        file.seek(0)
        yield from (file.tell(), end)

    plain = stored(tmp_path / "plain", b"a" * 100_000)
    assert read_all(tio.RecordIndex.build(plain, format=Given(find)))[0] == [b"a" * 100_000]
    packed = stored(tmp_path / "packed", b"a" * 100_000, "gzip")
    with pytest.raises(io.UnsupportedOperation, match="the size of a compressed file"):
        tio.RecordIndex.build(packed, format=Given(find))


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
