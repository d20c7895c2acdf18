"""Division of the records of indexed files into parts, and reading of the parts."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from torchrec_io.cluster.division import DividedRecords
from torchrec_io.cluster.file_piece import FilePiece

RECORDS = [bytes([i]) * (i * 37 % 91) for i in range(100)]


def read(piece: FilePiece, **options: Any) -> tuple[list[bytes], list[tio.TorchRecIOError]]:
    records, errors = [], []
    for block in piece.blocks(**options):
        records += [record for _, record in block.records()]
        errors += block.errors
    return records, errors


@pytest.mark.parametrize("change", ["replaced", "shorter", "same size"])
def test_a_changed_file_is_refused(tmp_path: Path, change: str) -> None:
    path = write_tfrecord(tmp_path / "a", RECORDS)
    piece = FilePiece.of(tio.RecordIndex.build(path), 10, 5, base=0)
    other = {"replaced": RECORDS[::-1], "shorter": RECORDS[:50], "same size": RECORDS[1:]}[change]
    write_tfrecord(path, [*other, RECORDS[0]] if change == "same size" else other)
    with pytest.raises(tio.StaleIndexError, match="replaced or changed while it was in use") as e:
        read(piece)
    assert e.value.path == str(path)


def test_other_records_in_the_middle_of_a_large_file_are_noticed(tmp_path: Path) -> None:
    ends = [bytes(70_000)]
    path = write_tfrecord(tmp_path / "a", [*ends, *[bytes(48)] * 10, *ends])
    piece = FilePiece.of(tio.RecordIndex.build(path), 1, 10, base=0)
    write_tfrecord(path, [*ends, *[bytes(112)] * 5, *ends])  # frames of the same total size
    with pytest.raises(tio.StaleIndexError, match=r"it has 5 records where its index has 10"):
        read(piece)


def test_a_compressed_file_is_divided_at_seek_points(tmp_path: Path) -> None:
    records = [np.random.default_rng(i).bytes(700) for i in range(3000)]
    path = tmp_path / "a.gz"
    content = write_tfrecord(tmp_path / "a", records).read_bytes()
    path.write_bytes(gzip.compress(content, 1, mtime=0))
    index = tio.RecordIndex.build(path, seek_point_bytes=200_000)
    points = index.seek_points.stream_offsets
    assert len(points) > 5
    parts = DividedRecords([index]).divide(4)
    assert len(parts) == 4
    assert [record for [piece] in parts for record in read(piece)[0]] == records
    for [piece] in parts:
        assert piece.seek_point is not None
        assert piece.begin - piece.seek_point.stream_offset < 720
    [piece] = pickle.loads(pickle.dumps(parts[2]))
    found, errors = read(piece)
    assert found == records[piece.first : piece.first + piece.count]
    assert errors == []
    assert len(DividedRecords([index]).divide(10_000)) <= len(points)
