"""The limit of the size of an index: small files of very many records take little memory."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io.records.lines import TextLines
from torchrec_io.storage.zstd import load_zstd

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


@pytest.mark.parametrize(
    ("kind", "compress", "data", "most_bytes"),
    [
        ("lines", gzip.compress, b"\n" * MANY, 62_000),
        ("lines", zstd, b"\n" * MANY, 8_000),
        ("fixed", zstd, b"\n" * MANY, 8_000),
        ("tfrecord", zstd, frame(b"") * LARGE, 100_000),
    ],
    ids=["lines-gzip", "lines-zstd", "fixed-zstd", "tfrecord-zstd"],
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


@pytest.mark.parametrize("kind", ["lines", "fixed"])
def test_the_option_allows_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "many"
    path.write_bytes(zstd(b"\n" * LARGE))
    if kind == "lines":
        with pytest.raises(tio.IndexTooLargeError, match="has over 67,108,864 bytes"):
            tio.TextLineDataset(path)
        lines = tio.TextLineDataset(path, max_index_bytes=80 << 20)
        assert (len(lines), next(iter(lines))) == (LARGE, b"")
        assert len(tio.TextLineDataset(path)) == LARGE  # the index is in the cache
    else:
        with pytest.raises(tio.IndexTooLargeError, match="has over 67,108,864 bytes"):
            tio.FixedLengthRecordDataset(path, 1)
        fixed = tio.FixedLengthRecordDataset(path, 1, max_index_bytes=80 << 20)
        assert (len(fixed), next(iter(fixed))) == (LARGE, b"\n")


def test_a_large_file_may_have_a_large_index(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\n" * LARGE)  # 4 bytes of the index for each byte
    assert len(tio.RecordIndex.build(path, format=TextLines())) == LARGE


def test_an_own_limit(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "data", [b"x"] * 40)
    with pytest.raises(tio.IndexTooLargeError, match="the index of 40 records or more"):
        tio.RecordIndex.build(path, max_index_bytes=159)
    assert len(tio.RecordIndex.build(path, max_index_bytes=160)) == 40
    for open_dataset in (tio.TFRecordDataset, tio.TFRecordMapDataset):
        with pytest.raises(tio.IndexTooLargeError, match="the index of 40 records or more"):
            open_dataset(path, max_index_bytes=159)
    for open_dataset in (tio.TFRecordDataset, tio.TFRecordMapDataset):
        assert len(open_dataset(path, max_index_bytes=160)) == 40
    for build in (tio.RecordIndex.build, tio.TFRecordDataset):
        with pytest.raises(ValueError, match="max_index_bytes must be"):
            build(path, max_index_bytes=0)
