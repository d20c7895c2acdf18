"""iter_records: valid records in order, then the error of the damage, in limited memory."""

from __future__ import annotations

import gzip
import itertools
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.reading import read
from tests.support.tfrecord import frame, masked_crc, write_tfrecord
from torchrec_io import CorruptRecordError, RecordTooLargeError, TruncatedFileError
from torchrec_io.records.sequential import iter_records


def expected(records: list[bytes]) -> list[tuple[int, bytes]]:
    offsets = itertools.accumulate((len(record) + 16 for record in records), initial=0)
    return list(zip(offsets, records, strict=False))


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_reads_everything(tmp_path: Path, compression: str | None) -> None:
    records = [b"", b"abc", bytes(3 << 20), b"x" * 100, bytes((1 << 20) - 16), *[b"small"] * 9000]
    write_tfrecord(tmp_path / "x", records, compression)
    got, error = read(tmp_path / "x")
    assert error is None
    assert got == expected(records)


@given(
    records=st.lists(st.binary(max_size=40), max_size=6),
    cut=st.integers(0, 300),
    packed=st.booleans(),
)
def test_any_truncation_yields_complete_records_then_raises(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cut: int, packed: bool
) -> None:
    whole = b"".join(map(frame, records))
    content = whole[: min(cut, len(whole))]
    path = tmp_path_factory.mktemp("cut") / "x"
    path.write_bytes(gzip.compress(content) if packed else content)
    kept = [pair for pair in expected(records) if pair[0] + len(pair[1]) + 16 <= len(content)]
    got, error = read(path)
    assert got == kept
    clean = len(content) == sum(len(frame(data)) for _, data in kept)
    assert (error is None) == clean
    if error is not None:
        assert isinstance(error, TruncatedFileError)
        assert (error.path, error.record) == (str(path), len(kept))


def test_bad_data_raises_unless_unchecked(tmp_path: Path) -> None:
    content = bytearray(frame(b"abcd") * 4)
    content[40 + 13] ^= 1
    path = tmp_path / "x"
    path.write_bytes(content)
    got, error = read(path)
    assert [data for _, data in got] == [b"abcd"] * 2
    assert isinstance(error, CorruptRecordError)
    assert (error.record, error.offset) == (2, 40)
    assert len(read(path, verify_crc=False)[0]) == 4


@pytest.mark.parametrize("length", [1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("packed", [False, True])
def test_huge_length_is_rejected_without_allocating(
    tmp_path: Path, length: int, packed: bool
) -> None:
    head = struct.pack("<Q", length)
    content = frame(b"good") + head + struct.pack("<I", masked_crc(head)) + bytes(100)
    (tmp_path / "x").write_bytes(gzip.compress(content) if packed else content)
    got, error = read(tmp_path / "x")
    assert got == [(0, b"good")]
    # Only the size of a file that is not compressed is known.
    is_too_large = packed and length < 1 << 63
    assert isinstance(error, RecordTooLargeError if is_too_large else TruncatedFileError)
    assert error.offset == 20


def test_records_before_a_wrong_gzip_trailer_are_yielded(tmp_path: Path) -> None:
    records = [b"abc"] * 50
    content = bytearray(gzip.compress(b"".join(map(frame, records))))
    content[-6] ^= 1
    (tmp_path / "x").write_bytes(content)
    got, error = read(tmp_path / "x")
    assert got == expected(records)
    assert isinstance(error, CorruptRecordError)


def test_missing_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(iter_records(tmp_path / "missing"))
    with pytest.raises(IsADirectoryError):
        list(iter_records(tmp_path))
