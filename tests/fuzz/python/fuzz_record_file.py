"""TFRecord files: all ways to read one agree with a simple reader, up to its damage.

Input: options (1 byte), a file. With options, checksums are corrected, or the file is compressed.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options, empty_folder
from tests.support.tfrecord import frame, masked_crc
from torchrec_io._records.foreign_files import HEAD_BYTES, foreign_file
from torchrec_io._records.record_size import MAX_RECORD_BYTES
from torchrec_io._records.verify import verify_file
from torchrec_io._storage.compression import detect_compression
from torchrec_io._storage.local import LocalFile, head_of
from torchrec_io.errors import (
    CorruptRecordError,
    RecordTooLargeError,
    TorchRecIOError,
    TruncatedFileError,
)

_REPAIRED, _REPAIRED_DATA, _GZIP, _UNCHECKED = 1, 2, 4, 8


class _Walk(NamedTuple):
    """Frames of a file.

    Attributes:
        records: Data of each record; None for those that do not match their checksum.
        is_whole: False if a length is damaged, or the file is truncated.
    """

    records: list[bytes | None]
    is_whole: bool


def check(data: bytes) -> None:
    (bits,), file = cut_options(data, 1)
    if bits & _REPAIRED:
        file = _with_right_checksums(file, of_data=bool(bits & _REPAIRED_DATA))
    checked = not bits & _UNCHECKED
    is_compressed = bool(bits & _GZIP)
    walk = _walk(file, checked=checked, is_compressed=is_compressed)
    whole = _walk(file, checked=True, is_compressed=is_compressed)
    compression: Any = "gzip" if is_compressed else None
    with empty_folder() as folder:
        path = folder / "data.tfrecord"
        path.write_bytes(gzip.compress(file, 1, mtime=0) if is_compressed else file)
        _check_verify(path, compression, whole)
        if detect_compression(head_of(LocalFile(str(path)))) != compression:
            return  # damaged so that it looks compressed
        options: dict[str, Any] = {"verify_crc": checked, "num_threads": 1}
        _check_reading(tio.TFRecordStream(path, **options), walk)
        _check_skipping(tio.TFRecordStream(path, on_error="skip", **options), walk)
        _check_index(path, options, walk)


def _check_verify(path: Path, compression: Any, walk: _Walk) -> None:
    report = verify_file(path, compression=compression)
    assert report.records == len([record for record in walk.records if record is not None])
    assert report.damaged == walk.records.count(None)
    assert (report.lost is None) == walk.is_whole


def _check_reading(dataset: Any, walk: _Walk) -> None:
    """Check that all records before the first damage are yielded, and then an error."""
    found: list[bytes] = []
    error = None
    try:
        for record in dataset:
            found.append(bytes(record))
    except (CorruptRecordError, RecordTooLargeError, TruncatedFileError) as raised:
        error = raised
    valid = walk.records[: walk.records.index(None)] if None in walk.records else walk.records
    assert found == valid, "other records"
    assert (error is None) == (walk.is_whole and None not in walk.records), "another verdict"


def _check_skipping(dataset: Any, walk: _Walk) -> None:
    found = [bytes(record) for record in dataset]
    assert found == [record for record in walk.records if record is not None], "other records"
    assert dataset.skipped == walk.records.count(None) + (not walk.is_whole)


def _check_index(path: Path, options: dict[str, Any], walk: _Walk) -> None:
    try:
        dataset = tio.TFRecordDataset(path, **options)
        assert len(dataset) == len(walk.records)
        assert walk.is_whole, "an index of a damaged file"
    except TorchRecIOError:
        assert not walk.is_whole, "no index of a whole file"
        return
    _check_reading(dataset, walk)
    again = dataset.replace(on_error="skip")
    _check_skipping(again, walk)


def _walk(file: bytes, *, checked: bool, is_compressed: bool) -> _Walk:
    records: list[bytes | None] = []
    at = 0
    while at < len(file):
        head = file[at : at + 12]
        is_right = head[8:] == _crc(head[:8])
        if len(head) < 12 or (checked and not is_right):
            return _Walk(records, is_whole=False)
        (length,) = struct.unpack("<Q", head[:8])
        is_foreign = at == 0 and not is_right and foreign_file(file[:HEAD_BYTES]) is not None
        if is_compressed and MAX_RECORD_BYTES < length < 1 << 63 and not is_foreign:
            # Whether the stream is long enough is known only after the record was skipped.
            records.append(None)
        end = at + 16 + length
        if end > len(file):
            return _Walk(records, is_whole=False)
        record = file[at + 12 : end - 4]
        is_valid = not checked or file[end - 4 : end] == _crc(record)
        records.append(record if is_valid else None)
        at = end
    return _Walk(records, is_whole=True)


def _crc(data: bytes) -> bytes:
    return struct.pack("<I", masked_crc(data))


def _with_right_checksums(file: bytes, *, of_data: bool) -> bytes:
    out = bytearray(file)
    at = 0
    while at + 12 <= len(out):
        out[at + 8 : at + 12] = _crc(bytes(out[at : at + 8]))
        end = at + 16 + struct.unpack_from("<Q", out, at)[0]
        if end > len(out):
            break
        if of_data:
            out[end - 4 : end] = _crc(bytes(out[at + 12 : end - 4]))
        at = end
    return bytes(out)


def seeds() -> Iterator[bytes]:
    usual = b"".join(frame(bytes([65 + size % 26]) * size) for size in (0, 3, 200, 1))
    broken = bytearray(usual)
    broken[30] ^= 1
    wrong = bytearray(usual)
    wrong[25] ^= 1  # in the checksum of a length
    for bits in range(16):
        yield bytes([bits]) + bytes(wrong)
        yield bytes([bits]) + usual
        yield bytes([bits]) + bytes(broken)
    yield b"\0" + usual[:-3]
    yield b"\0" + usual + b"stray"
    yield b"\0"
    yield b"\3" + struct.pack("<Q", 2**63) + bytes(50)
    yield b"\3" + struct.pack("<Q", 2**64 - 16) + bytes(50)
    yield b"\0" + gzip.compress(usual, mtime=0)
