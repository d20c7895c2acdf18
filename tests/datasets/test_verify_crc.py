"""Without verify_crc, the checksums of lengths and of data are ignored by every reader."""

from __future__ import annotations

import functools
import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, record
from tests.support.pipes import feeding
from tests.support.tfrecord import frame, masked_crc, write_tfrecord
from torchrec_io._records.index_cache import cache_path
from torchrec_io._records.sequential import iter_records

COUNT = 40
RECORDS = [record(number) for number in range(COUNT)]


def frame_with(data: bytes, length_crc: int | None = None, data_crc: int | None = None) -> bytes:
    """Return the frame of a record, with other checksums than the right ones."""
    right = frame(data)
    first = right[8:12] if length_crc is None else struct.pack("<I", length_crc)
    last = right[-4:] if data_crc is None else struct.pack("<I", data_crc)
    return right[:8] + first + data + last


# What writers without checksums have written.
WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "zero": lambda data: frame_with(data, 0, 0),
    "wrong lengths": lambda data: frame_with(data, 12345),
    "wrong data": lambda data: frame_with(data, None, 12345),
    "swapped": lambda data: frame_with(data, masked_crc(data), 0),
}


@pytest.fixture(params=[*((name, None) for name in WRITERS), ("zero", "gzip")], ids=str)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    writer, compression = request.param
    stream = b"".join(map(WRITERS[writer], RECORDS))
    found = tmp_path / "data.tfrecord"
    found.write_bytes(stream if compression is None else gzip.compress(stream))
    return found


def read_map(path: Path, **options: Any) -> list[bytes]:
    dataset = tio.TFRecordMapDataset(path, **options)
    return [dataset[number] for number in range(len(dataset))]


def read_map_batches(path: Path, **options: Any) -> list[bytes]:
    dataset = tio.TFRecordMapDataset(path, **options)
    return list(dataset.__getitems__(range(len(dataset))))


def read_sequentially(path: Path, **options: Any) -> list[bytes]:
    return [data for _, data in iter_records(path, **options)]


def read_shuffled(path: Path, **options: Any) -> list[bytes]:
    dataset = tio.TFRecordDataset(path, shuffle=True, with_key=True, **options)
    return [data for _, data in sorted(dataset, key=lambda item: int(item[0].split(":")[-1]))]


def read_parsed(open_dataset: Any, path: Path, **options: Any) -> list[bytes]:
    """Read batches that native code parses."""
    batches = open_dataset(path, SCHEMA, batch_size=8, **options)
    return [record(number) for batch in batches for number in batch["id"].tolist()]


READERS: dict[str, Callable[..., list[bytes]]] = {
    "indexed": lambda path, **options: list(tio.TFRecordDataset(path, **options)),
    "shuffled": read_shuffled,
    "map": read_map,
    "map batches": read_map_batches,
    "stream": lambda path, **options: list(tio.TFRecordStream(path, **options)),
    "sequential": read_sequentially,
    "parsed": functools.partial(read_parsed, tio.TFRecordDataset),
    "parsed stream": functools.partial(read_parsed, tio.TFRecordStream),
}


@pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))
def test_every_reader_gives_all_records(path: Path, read: Callable[..., list[bytes]]) -> None:
    assert read(path, verify_crc=False) == RECORDS
    with pytest.raises(tio.CorruptRecordError, match="does not match its checksum") as raised:
        read(path)  # the index that was used is not taken for right
    assert (raised.value.path, raised.value.record is None) == (str(path), False)


def test_a_pipe(tmp_path: Path) -> None:
    stream = b"".join(map(WRITERS["zero"], RECORDS))
    with feeding(tmp_path / "pipe", [stream]) as pipe:
        assert list(tio.TFRecordStream(pipe, verify_crc=False)) == RECORDS
    wrong = pytest.raises(tio.CorruptRecordError, match="this looks like text")
    with feeding(tmp_path / "text", [b"id,name\n" * 100]) as pipe, wrong:
        list(tio.TFRecordStream(pipe, verify_crc=False))


@pytest.mark.parametrize("name", ["zero", "swapped"])
def test_an_index_of_wrong_checksums_is_not_kept(tmp_path: Path, name: str) -> None:
    path, right = tmp_path / "wrong", write_tfrecord(tmp_path / "right", RECORDS)
    path.write_bytes(b"".join(map(WRITERS[name], RECORDS)))
    for each in (path, right):
        assert len(tio.TFRecordDataset(each, verify_crc=False)) == COUNT
    assert not cache_path(path).exists()
    assert cache_path(right).exists()
    with pytest.raises(tio.CorruptRecordError, match="length does not match its checksum"):
        tio.TFRecordDataset(path)
    with pytest.raises(tio.CorruptRecordError, match="length does not match its checksum"):
        tio.RecordIndex.build(path)


def test_a_given_index(tmp_path: Path) -> None:
    """The index of another program, which knows where records are, is used by both."""
    path = tmp_path / "data"
    path.write_bytes(b"".join(map(WRITERS["zero"], RECORDS)))
    at, lines = 0, []
    for data in RECORDS:
        lines.append(f"{at} {len(data) + 16}\n")
        at += len(data) + 16
    index = tmp_path / "data.idx"
    index.write_text("".join(lines))
    assert list(tio.TFRecordDataset(path, index=index, verify_crc=False)) == RECORDS
    with pytest.raises(tio.CorruptRecordError, match="length does not match its checksum"):
        list(tio.TFRecordDataset(path, index=index))


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("at", "length"), [(0, 1 << 20), (5, 1 << 20), (5, 1 << 62), (5, (1 << 64) - 1)]
)
def test_a_record_must_end_inside_its_file(
    tmp_path: Path, compress: Callable[[bytes], bytes], at: int, length: int
) -> None:
    frames = list(map(WRITERS["zero"], RECORDS))
    frames[at] = struct.pack("<Q", length) + frames[at][8:]
    path = tmp_path / "data"
    path.write_bytes(compress(b"".join(frames)))
    for read in READERS.values():
        with pytest.raises((tio.TruncatedFileError, tio.RecordTooLargeError)) as raised:
            read(path, verify_crc=False)
        assert raised.value.record == at
    for open_dataset in (tio.TFRecordDataset, tio.TFRecordStream):
        dataset = open_dataset(path, verify_crc=False, on_error="skip")
        assert list(dataset) == RECORDS[:at]
        assert dataset.skipped >= 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"id,name\n" * 100, "this looks like text, not like a TFRecord file"),
        (b"PAR1\x15\x04\x15\x10" * 100, "this is a Parquet file"),
        (b"\xff" * 100, r"reaches past the end of the file; is this a TFRecord file\?"),
    ],
    ids=["text", "parquet", "unknown"],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_files_of_other_formats_are_still_recognized(
    tmp_path: Path,
    content: bytes,
    reason: str,
    compress: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / "data"
    path.write_bytes(compress(content))
    errors = (tio.CorruptRecordError, tio.TruncatedFileError)
    for read in READERS.values():
        with pytest.raises(errors, match=reason) as raised:
            read(path, verify_crc=False)
        assert (raised.value.path, raised.value.record) == (str(path), 0)
