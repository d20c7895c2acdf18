"""Files of TensorFlow read by this library; its own and damaged files read by both."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.support.reading import read
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.sequential import iter_records
from torchrec_io.errors import TruncatedFileError

# Each example is a request to another process.

COMPRESSIONS = {"": None, "GZIP": "gzip", "ZLIB": "zlib"}
payloads = st.lists(st.one_of(st.binary(max_size=20), st.just(b"z" * 3000)), max_size=8)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(records=payloads)
def test_files_written_by_tensorflow(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, records: list[bytes]
) -> None:
    path = tmp_path / "written.tfrecord"
    tf_oracle.ask(
        op="write_records",
        path=str(path),
        records=[record.hex() for record in records],
        compression=compression,
    )
    found = list(iter_records(path))
    assert [record for _, record in found] == records
    index = tio.RecordIndex.build(path)
    # Even an empty GZIP or ZLIB file has a header.
    assert index.compression == COMPRESSIONS[compression]
    assert index.lengths.tolist() == [len(record) for record in records]
    assert index.offsets.tolist() == [offset for offset, _ in found]
    assert list(tio.TFRecordDataset(path, num_threads=1)) == records


RECORDS = [b"first", b"", b"second record", b"x" * 40, bytes(10)]


@given(st.data())
def test_damaged_files(tf_oracle: TfOracle, tmp_path: Path, data: st.DataObject) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS)
    whole = path.read_bytes()
    stream = bytearray(whole)
    if data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))
    path.write_bytes(stream[:cut])
    answer = tf_oracle.ask(op="read_records", path=str(path), compression="")
    found, error = read(path, compression=None)
    assert [record.hex() for _, record in found] == answer["records"]
    size = sum(len(record) + 16 for _, record in found)
    if answer["error"] is None and size != cut:
        # TensorFlow ignores a few bytes after the last record.
        assert cut - size < 12
        assert isinstance(error, TruncatedFileError)
        assert error.offset == size
    else:
        assert (error is None) == (answer["error"] is None)


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
@given(part=st.floats(0, 1))
def test_truncated_compressed_files(
    tf_oracle: TfOracle, tmp_path: Path, compression: str, part: float
) -> None:
    kind = COMPRESSIONS[compression]
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    answer = tf_oracle.ask(op="read_records", path=str(path), compression=compression)
    found, error = read(path, compression=kind)
    assert [record for _, record in found] == RECORDS[: len(found)]
    assert len(answer["records"]) <= len(found)
    # TensorFlow accepts some truncated files. This library accepts only empty and complete files.
    cut = 0 < int(len(whole) * part) < len(whole)
    assert (error is not None) == cut
    if answer["error"] is not None:
        assert error is not None


def test_reserved_gzip_flags_are_rejected(tf_oracle: TfOracle, tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS, "gzip")
    stream = bytearray(path.read_bytes())
    stream[3] |= 0x20
    path.write_bytes(stream)
    answer = tf_oracle.ask(op="read_records", path=str(path), compression="GZIP")
    assert answer["error"] == "DataLossError"
    assert read(path, compression="gzip")[1] is not None
