"""Files of this library's writers, read by TensorFlow and compared with its own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle
from torchrec_io._storage.compression import Compression

COMPRESSIONS: dict[str, Compression | None] = {"": None, "GZIP": "gzip", "ZLIB": "zlib"}
payloads = st.lists(
    st.one_of(st.binary(max_size=20), st.sampled_from([b"z" * 3000, b"y" * 70_000])), max_size=8
)


def assert_read(oracle: TfOracle, path: Path | str, compression: str, records: list[bytes]) -> None:
    answer = oracle.ask(op="read_records", path=str(path), compression=compression)
    assert answer["error"] is None
    assert [bytes.fromhex(record) for record in answer["records"]] == records


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=payloads)
def test_tensorflow_reads_our_files(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, records: list[bytes]
) -> None:
    path = tmp_path / "x"
    with tio.TFRecordWriter(path, COMPRESSIONS[compression]) as writer:
        for record in records:
            writer.write(record)
    assert_read(tf_oracle, path, compression, records)
    if not compression:
        theirs = tmp_path / "theirs"
        hexed = [record.hex() for record in records]
        tf_oracle.ask(op="write_records", path=str(theirs), records=hexed, compression="")
        assert path.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tensorflow_reads_large_files_and_shards(
    tf_oracle: TfOracle, tmp_path: Path, compression: str
) -> None:
    """GZIP files have several members, and streams are split between records."""
    rng = np.random.default_rng(0)
    sizes = [*rng.integers(0, 20_000, 150).tolist(), 1_500_000, 0, 300_000]
    records = [rng.bytes(size) for size in sizes]
    with tio.TFRecordWriter(tmp_path / "x", COMPRESSIONS[compression]) as writer:
        for record in records:
            writer.write(record)
    assert_read(tf_oracle, tmp_path / "x", compression, records)
    shards = tio.ShardedWriter(
        tmp_path / "y", max_bytes=400_000, compression=COMPRESSIONS[compression]
    )
    with shards:
        for record in records:
            shards.write(record)
    assert len(shards.paths) > 4
    found = [list(tio.TFRecordDataset(path, num_threads=1)) for path in shards.paths]
    for path, part in zip(shards.paths, found, strict=True):
        assert_read(tf_oracle, path, compression, part)
    assert [record for part in found for record in part] == records
