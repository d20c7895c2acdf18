"""Damaged files, and files of other formats: all records before the damage, then one error.

Each reader of whole files finds the same: indexes, sequential reading and verification.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.reading import read
from tests.support.tfrecord import frame, masked_crc, write_tfrecord
from torchrec_io import (
    CorruptRecordError,
    RecordIndex,
    RecordTooLargeError,
    TFRecordStream,
    TFRecordWriter,
    TorchRecIOError,
    TruncatedFileError,
)
from torchrec_io._records.sequential import iter_records
from torchrec_io._records.verify import verify_file
from torchrec_io.tools import repair


def check(
    path: Path,
    content: bytes,
    error_class: type[TorchRecIOError],
    records: int,
    offset: int,
    *,
    message: str = "",
) -> None:
    """Check that each reader finds records, then an error with its place."""
    path.write_bytes(content)
    with pytest.raises(error_class) as caught:
        RecordIndex.build(path)
    index = RecordIndex.build(path, allow_damage=True)
    assert len(index) == records
    assert str(index.damage) == str(caught.value)
    found, error = read(path)
    assert [at for at, _ in found] == index.offsets.tolist()
    report = verify_file(path)
    assert (report.records, report.damaged, report.ok) == (records, 0, False)
    for each in (caught.value, error, report.lost):
        assert isinstance(each, error_class)
        assert (each.path, each.record, each.offset) == (str(path), records, offset)
        assert message in each.reason


@given(
    records=st.lists(st.binary(max_size=40), max_size=6),
    cut=st.integers(0, 300),
    packed=st.booleans(),
)
def test_any_truncation(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cut: int, packed: bool
) -> None:
    ends = np.cumsum([len(frame(record)) for record in records])
    content = b"".join(map(frame, records))[:cut]
    kept = int((ends <= len(content)).sum())
    offset = int(ends[kept - 1]) if kept else 0
    path = tmp_path_factory.mktemp("cut") / "x"
    stored = gzip.compress(content) if packed else content
    if len(content) > offset:
        check(path, stored, TruncatedFileError, kept, offset)
        return
    path.write_bytes(stored)
    found, error = read(path)
    assert ([record for _, record in found], error) == (records[:kept], None)
    assert RecordIndex.build(path).offsets.tolist() == [at for at, _ in found]
    assert verify_file(path).ok


def test_a_damaged_length(tmp_path: Path) -> None:
    broken = bytearray(frame(b"abc") * 3)
    broken[19 + 8] ^= 1
    message = "length does not match"
    check(tmp_path / "x", bytes(broken), CorruptRecordError, 1, 19, message=message)


@pytest.mark.parametrize("length", [2**40, 2**62, 2**63, 2**64 - 1, 2**64 - 16, 2**63 - 12])
def test_a_huge_length(tmp_path: Path, length: int) -> None:
    head = struct.pack("<Q", length)
    content = frame(b"abc") + head + struct.pack("<I", masked_crc(head)) + bytes(100)
    path = tmp_path / "x"
    check(path, content, TruncatedFileError, 1, 19)
    # Where a compressed file ends is not known before that is reached.
    path.write_bytes(gzip.compress(content))
    index = RecordIndex.build(path, allow_damage=True)
    found, error = read(path)
    assert isinstance(index.damage, TruncatedFileError)
    assert isinstance(error, RecordTooLargeError | TruncatedFileError)
    assert found == [(0, b"abc")]
    assert index.offsets.tolist() == [0]
    assert index.damage.offset == error.offset == 19


def test_missing_file_and_directory(tmp_path: Path) -> None:
    readers: tuple[Callable[[Path], Any], ...] = (RecordIndex.build, verify_file, iter_records)
    for each in readers:
        with pytest.raises(FileNotFoundError):
            list(each(tmp_path / "missing"))
        with pytest.raises(IsADirectoryError):
            list(each(tmp_path))


# ---- other formats ----


def test_files_that_are_read_as_they_are_not_stored(tmp_path: Path) -> None:
    plain = write_tfrecord(tmp_path / "plain", [b"abc"] * 40)
    for kind in ("gzip", "zlib", "zstd"):
        with TFRecordWriter(tmp_path / kind, kind) as writer:
            writer.write(b"a")
        with pytest.raises(CorruptRecordError, match="looks compressed"):
            RecordIndex.build(tmp_path / kind, compression=None)
        with pytest.raises(CorruptRecordError, match=r"(?i)(stream|frame) is damaged"):
            RecordIndex.build(plain, compression=kind)


def written(write: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def tar_of(name: str, form: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as tar:
        tar.addfile(tarfile.TarInfo(name))
    return file.getvalue()


def zip_of() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "some text")
    return file.getvalue()


TABLE = pa.table({"a": [1]})
FILES = {
    "text": (b"a,b,c\n1,2,3\n" * 9, "looks like text"),
    "git-lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "git-lfs pointer",
    ),
    "tar": (tar_of("000.jpg"), "this is a tar archive"),
    "tar of GNU": (tar_of("x" * 200, tarfile.GNU_FORMAT), "read it with webdataset"),
    "tar.gz": (gzip.compress(tar_of("a")), "this is a tar archive"),
    "zip": (zip_of(), "this is a zip archive"),
    "parquet": (
        written(lambda file: pyarrow.parquet.write_table(TABLE, file)),
        "this is a Parquet file",
    ),
    "arrow": (
        written(lambda file: pyarrow.feather.write_feather(TABLE, file)),
        "this is an Arrow file",
    ),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "this is an HDF5 file"),
    # The page header of LMDB, then its magic number; see MDB_meta in mdb.c.
    "lmdb": (bytes(10) + b"\x08\0" + bytes(4) + b"\xde\xc0\xef\xbe\1" + bytes(99), "LMDB database"),
    "npy": (written(lambda file: np.save(file, np.arange(9))), "NumPy array"),
    "sqlite": (b"SQLite format 3\0" + bytes(4080), "SQLite database"),
    "xz": (lzma.compress(b"abc"), "compressed by xz"),
    "bzip2": (bz2.compress(b"abc"), "compressed by bzip2"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_every_reader_names_other_formats(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.tfrecord"
    check(path, content, CorruptRecordError, 0, 0, message=message)
    with pytest.raises(CorruptRecordError, match=message):
        list(TFRecordStream(path))
    if message != "looks like text":
        with pytest.raises(CorruptRecordError, match=message):
            repair(path, tmp_path / "out")
