"""The limit of the size of an index: small files of very many records take little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._storage.zstd import load_zstd

LARGE = 17 << 20  # records whose index has more than 64 MiB
MANY = 60_000_000  # records whose offsets alone take 480 MB
PEAK = """
import resource, sys
import torchrec_io as tio
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path = sys.argv[1]
open_dataset = {
    "lines": lambda path: tio.TextLineDataset(path),
    "fixed": lambda path: tio.FixedLengthRecordDataset(path, 1),
    "tfrecord": lambda path: tio.TFRecordDataset(path),
}[sys.argv[2]]
open_dataset(sys.argv[3])
before = peak()
try:
    open_dataset(path)
except tio.IndexTooLargeError as error:
    assert error.path == path, error
    assert "pass a larger max_index_bytes" in str(error), error
    print(peak() - before)
"""


def zstd(data: bytes) -> bytes:
    return bytes(load_zstd().compress(data))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "compress", "data", "most_bytes"),
    [
        ("lines", gzip.compress, b"\n" * MANY, 62_000),
        ("fixed", zstd, b"\n" * MANY, 8_000),
        ("tfrecord", zstd, frame(b"") * LARGE, 100_000),
    ],
    ids=["lines-gzip", "fixed-zstd", "tfrecord-zstd"],
)
def test_a_small_file_of_very_many_records_is_an_error(
    tmp_path: Path, kind: str, compress: type[bytes], data: bytes, most_bytes: int
) -> None:
    path, small = tmp_path / "bomb", tmp_path / "small"
    path.write_bytes(compress(data))
    assert path.stat().st_size < most_bytes
    small.write_bytes(compress(data[:160]))
    command = [sys.executable, "-c", PEAK, str(path), kind, str(small)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(output) * (1024 if sys.platform == "linux" else 1) < 300 << 20


def test_a_dataset_uses_an_index_that_was_built_with_a_larger_limit(tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_bytes(zstd(frame(b"") * LARGE))
    with pytest.raises(tio.IndexTooLargeError, match="has over 67,108,864 bytes"):
        tio.TFRecordDataset(path)
    tio.RecordIndex.build(path, max_index_bytes=80 << 20).save()
    assert len(tio.TFRecordDataset(path)) == LARGE


def test_an_own_limit(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "data", [b"x"] * 40)
    with pytest.raises(ValueError, match="max_index_bytes must be"):
        tio.RecordIndex.build(path, max_index_bytes=0)
    with pytest.raises(tio.IndexTooLargeError, match="the index of 40 records or more"):
        tio.RecordIndex.build(path, max_index_bytes=159)
    assert len(tio.RecordIndex.build(path, max_index_bytes=160)) == 40
