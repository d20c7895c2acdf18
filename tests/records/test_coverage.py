"""Indexes that do not cover their data file are not believed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import (
    CorruptRecordError,
    IndexFormatError,
    RecordIndex,
    StaleIndexError,
    TFRecordDataset,
    TFRecordMapDataset,
    _core,
)
from torchrec_io._records.index_cache import IndexSearch, cache_path
from torchrec_io._records.index_file import encode_index
from torchrec_io._records.opening import open_indexes
from torchrec_io._storage.compression import CHECKED_BYTES, Compression
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.location import Location
from torchrec_io._storage.seek_points import START, SeekPoints

RECORDS = [b"%03d" % number for number in range(100)]
FRAME = 19
TOTAL = FRAME * len(RECORDS)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "data", RECORDS)


def write_index(
    data: Path,
    starts: list[int],
    end: int,
    *,
    compression: Compression | None = None,
    footer_bytes: int = 0,
) -> Path:
    """Write an index with valid checksums beside a data file, whatever it says about the file."""
    points = None
    if compression is not None:
        points = SeekPoints.of([START], [0] * -(-(end + footer_bytes) // CHECKED_BYTES))
    each = np.array(starts, np.uint64)
    content = encode_index(
        LocalFile(data), each, end, compression, points, footer_bytes=footer_bytes
    )
    path = data.with_name(f"{data.name}.tfidx")
    path.write_bytes(content)
    return path


ALL = list(range(0, TOTAL, FRAME))
HALF = TOTAL // 2
# Starts, end and footer of indexes that leave out records, or contradict the file.
WRONG: dict[str, tuple[list[int], int, int]] = {
    "first half": (ALL[:50], HALF, 0),
    "first half, rest as a footer": (ALL[:50], HALF, TOTAL - HALF),
    "second half": (ALL[50:], TOTAL, 0),
    "nothing": ([], 0, 0),
    "nothing, all as a footer": ([], 0, TOTAL),
    "end past the file": (ALL, TOTAL + 1, 0),
    "end far past the file": (ALL, 2**62, 0),
    "end before the file's": (ALL, TOTAL - 1, 0),
    "equal starts": ([*ALL[:9], ALL[8], *ALL[10:]], TOTAL, 0),
    "descending starts": ([*ALL[:9], ALL[10], ALL[9], *ALL[11:]], TOTAL, 0),
    "records too short": ([*ALL[:9], ALL[9] + 5, *ALL[10:]], TOTAL, 0),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_index_is_built_again_or_refused(data: Path, kind: str) -> None:
    starts, end, footer = WRONG[kind]
    path = write_index(data, starts, end, footer_bytes=footer)
    with pytest.raises(IndexFormatError) as caught:
        RecordIndex.load(data)
    assert caught.value.path == str(path)
    with pytest.raises(IndexFormatError):
        TFRecordDataset(data, index=path)
    dataset = TFRecordDataset(data, batch_size=30)
    assert [record for batch in dataset for record in batch] == RECORDS


# ---- compressed files ----


@pytest.mark.parametrize("shuffle", [False, True])
def test_compressed_stream_continues_after_the_index(tmp_path: Path, shuffle: bool) -> None:
    data = write_tfrecord(tmp_path / "x", RECORDS, "gzip")
    path = write_index(data, ALL[:50], HALF, compression="gzip")
    dataset = TFRecordDataset(data, index=path, batch_size=10, shuffle=shuffle)
    with pytest.raises(StaleIndexError, match="ends at byte 950 of the decompressed stream"):
        list(dataset)


# ---- damage ----


@pytest.mark.parametrize("compressed", [False, True])
def test_saved_index_of_a_damaged_file_says_so(tmp_path: Path, compressed: bool) -> None:
    content = b"".join(map(frame, RECORDS))
    data = tmp_path / "x"
    data.write_bytes(gzip.compress(content)[:-9] if compressed else content[:-1])
    built = RecordIndex.build(data, allow_damage=True)
    damage = built.damage
    assert damage is not None
    path = built.save()
    found, errors = open_indexes([Location.of(data)], path, "auto")
    assert len(found[0]) == len(built)
    [error] = errors
    assert isinstance(error, CorruptRecordError)
    assert (error.path, error.record, error.offset) == (damage.path, damage.record, damage.offset)
    with pytest.raises(CorruptRecordError, match="lost to damage when it was indexed"):
        TFRecordDataset(data, index=path)
    dataset = TFRecordDataset(data, index=path, on_error="skip", batch_size=200)
    assert list(dataset) == [RECORDS[: len(built)]]
    assert dataset.skipped == 1
    with pytest.raises(type(damage)) as caught:  # "auto" scans the file again
        TFRecordDataset(data)
    assert caught.value.reason.startswith(f"{damage.reason}; on_error=")
    assert not cache_path(data).exists()


# ---- text indexes ----


@pytest.mark.parametrize(
    "left_out", [{0}, {0, 1, 50, 51, 98, 99}, set(range(50, 100)), set(range(100))]
)
def test_text_index_that_leaves_out_records(data: Path, left_out: set[int]) -> None:
    wanted = [start for start in ALL if start // FRAME not in left_out]
    path = data.with_name("data.idx")
    path.write_text("".join(f"{at} {FRAME}\n" for at in wanted))
    first = min(left_out) * FRAME
    message = f"leaves out bytes {first:,} to [0-9,]+ of the data file: build it again"
    for load in (RecordIndex.load, RecordIndex.from_text):
        with pytest.raises(StaleIndexError, match=message) as caught:
            load(path, data)
        assert caught.value.path == str(path)
    makers: tuple[Any, ...] = (TFRecordDataset, TFRecordMapDataset)
    for make in makers:
        with pytest.raises(StaleIndexError, match=message):
            make(data, index=path)
        assert len(make(data)) == 100  # "auto" wants all records


# ---- lines ----


def with_header(content: bytes, at: int, new: bytes) -> bytes:
    """Return an index with a change of its header, and a valid checksum."""
    header = bytearray(content[:100])
    header[at : at + len(new)] = new
    crc = _core.crc32c(np.frombuffer(bytes(header), np.uint8))
    return bytes(header) + crc.to_bytes(4, "little") + content[104:]


# ---- headers ----


def test_index_of_an_earlier_release(data: Path) -> None:
    path = Path(RecordIndex.build(data).save())
    path.write_bytes(with_header(path.read_bytes(), 8, (1).to_bytes(4, "little")))
    with pytest.raises(IndexFormatError, match="an earlier release wrote it"):
        RecordIndex.load(data)
    assert len(IndexSearch(Location.of(data)).find_or_build()) == 100
