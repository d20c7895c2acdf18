"""Zstandard files, compared with the stream that was compressed."""

from __future__ import annotations

import importlib
import io
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.inflated import read_all
from tests.support.tfrecord import frame
from torchrec_io._storage.inflater import Inflater
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.zstd import load_zstd
from torchrec_io.errors import CorruptRecordError, TorchRecIOError

zstd = load_zstd()


def packed(data: bytes) -> bytes:
    with_checksum = {zstd.CompressionParameter.checksum_flag: 1}
    return bytes(zstd.compress(data, options=with_checksum))


def read(content: bytes, step: int = 1 << 16) -> tuple[bytes, TorchRecIOError | None]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x")
        path.write_bytes(content)
        return read_all(Inflater(LocalFile(path), "zstd"), step)


@given(st.binary(max_size=300), st.integers(0, 255), st.integers(1, 500))
def test_a_frame_whose_last_block_is_lost_is_damaged(content: bytes, said: int, step: int) -> None:
    # The frame has one segment. It ends with an empty block (RFC 8878, section 3.1.1).
    block = (len(content) << 3).to_bytes(3, "little") + content
    found, error = read(b"\x28\xb5\x2f\xfd\x20" + bytes([said]) + block + b"\x01\0\0", step)
    if said == len(content):
        assert (found, error) == (content, None)
    else:
        assert isinstance(error, CorruptRecordError)
        # A segment has no room for blocks that are larger.
        assert found == (content if len(content) < said else b"")


def test_writers_write_frames(tmp_path: Path) -> None:
    records = [b"%d" % number * 1000 for number in range(3000)]
    path = tmp_path / "x.tfrecord.zst"
    with tio.TFRecordWriter(path, "zstd", index=True) as writer:
        for record in records:
            writer.write(record)
    with zstd.open(io.BytesIO(path.read_bytes())) as file:
        assert file.read() == b"".join(map(frame, records))
    index = tio.RecordIndex.load(path)
    assert index.compression == "zstd"
    assert len(index.seek_points) > 5
    assert list(tio.TFRecordStream(path)) == records
    assert tio.TFRecordMapDataset(path)[2999] == records[2999]


def test_the_error_of_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(packed(b"abc"))
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install torchrec-io\[zstd\]"):
        list(tio.TFRecordStream(path))
