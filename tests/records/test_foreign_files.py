"""Files of other formats: the error says what they are."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from torchrec_io import CorruptRecordError, RecordIndex, TFRecordStream
from torchrec_io.records.verify import verify_file
from torchrec_io.tools import repair


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
def test_every_reader_names_them(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(content)
    with pytest.raises(CorruptRecordError, match=message):
        RecordIndex.build(path)
    with pytest.raises(CorruptRecordError, match=message):
        list(TFRecordStream(path))
    report = verify_file(path)
    assert report.lost is not None
    assert message in report.lost.reason
    with pytest.raises(CorruptRecordError, match=message):
        repair(path, tmp_path / "out")
