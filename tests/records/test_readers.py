"""The common interface of all readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import CorruptRecordError, RecordIndex, _core
from torchrec_io._records.block_reader import BlockReader
from torchrec_io._records.reader import Reader
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._records.stream_reader import StreamReader
from torchrec_io._storage.location import Location
from torchrec_io.episodes.reader import StepNumbers, StepReader

RECORDS = [b"%d" % number for number in range(12)]
KINDS = ["records", "blocks", "stream", "steps", "steps of blocks"]


def reader_and_records(kind: str, path: Path) -> tuple[Reader, Any, Any]:
    """Return a reader, some of its records, and the records that follow them."""
    reader = RecordReader([RecordIndex.build(path)])
    blocks = BlockReader(reader, lambda n: n // 4, lambda b: np.arange(4 * b, 4 * b + 4), 2)
    first, second = np.arange(4), np.arange(4, 8)
    if kind == "stream":
        stream = StreamReader([Location.of(path)])
        one, other, _ = stream.chunks(0, 1, size=4)
        return stream, one, other
    if kind.startswith("steps"):
        numbers = StepNumbers(np.ones(12, np.int64))
        return StepReader(blocks if "blocks" in kind else reader, numbers), first, second
    return (blocks if kind == "blocks" else reader), first, second


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_record_is_an_error_with_its_location(tmp_path: Path, kind: str) -> None:
    path = write_tfrecord(tmp_path / "x", RECORDS)
    content = bytearray(path.read_bytes())
    content[17 * 2 + 12] ^= 1
    path.write_bytes(content)
    reader, first, _ = reader_and_records(kind, path)
    block, [error] = reader.fetch(reader.plan(first))
    assert [block[i] for i in range(3)] == [RECORDS[i] for i in (0, 1, 3)]
    assert isinstance(error, CorruptRecordError)
    assert (error.path, error.record, error.offset) == (str(path), 2, 34)
    assert "np." not in str(error)


@pytest.mark.parametrize(
    ("starts", "sizes", "reason"),
    [
        ([0, 1], [16], "a start and a size"),
        ([-1], [16], "must lie in the buffer"),
        ([0], [15], "must lie in the buffer"),
        ([2**63 - 8], [16], "must lie in the buffer"),
    ],
)
def test_frames_that_cannot_be(starts: list[int], sizes: list[int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        _core.ReadPlan.of_frames(np.array(starts), np.array(sizes))


def test_frames_past_the_end_of_their_buffer() -> None:
    buffer = np.zeros(31, np.uint8)
    plan = _core.ReadPlan.of_frames(np.array([0, 15]), np.array([16, 17]))
    assert plan.buffer_bytes == 32
    records = _core.Records(buffer, np.array([0]), np.array([1]))
    with pytest.raises(ValueError, match="smaller than the plan requires"):
        _core.BatchReads.of_buffer(plan, buffer, records)
