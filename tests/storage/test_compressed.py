"""Reading of compressed files, whole and damaged, compared with zlib."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.support.inflated import read_all
from tests.support.reading import read
from tests.support.tfrecord import frame
from torchrec_io import TFRecordDataset
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import detect_compression
from torchrec_io._storage.inflater import Inflater
from torchrec_io._storage.local import LocalFile, head_of
from torchrec_io._storage.zstd import load_zstd
from torchrec_io.errors import CorruptRecordError, TorchRecIOError

DATA = b"".join(frame(bytes([i % 251]) * (i * 37 % 2000)) for i in range(300))


def inflate(path: Path, kind: str) -> tuple[bytes, TorchRecIOError | None]:
    """Return all decoded bytes of a file, and the error that ended it."""
    return read_all(Inflater(LocalFile(path), kind), 5000)  # type: ignore[arg-type]


def compressed(kind: str, *parts: bytes) -> bytes:
    compress = {"gzip": gzip.compress, "zlib": zlib.compress, "zstd": load_zstd().compress}[kind]
    return b"".join(map(compress, parts))


KINDS = pytest.mark.parametrize("kind", ["gzip", "zlib"])


@pytest.mark.parametrize("kind", ["gzip", "zlib", "zstd"])
def test_members_and_padding_are_read_and_stray_bytes_are_an_error(
    tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "misleading.tfrecord"
    whole = compressed(kind, DATA[:1000], b"", DATA[1000:], b"")
    for padding in (b"",) if kind == "zstd" else (b"", bytes(100_000)):
        file.write_bytes(whole + padding)
        assert inflate(file, kind) == (DATA, None)
    assert detect_compression(head_of(LocalFile(file))) == kind
    for stray in (b"y", b"\xff\xff", b"plain text", b"\0\0junk"):
        file.write_bytes(whole + stray)
        data, error = inflate(file, kind)
        assert data == DATA
        assert isinstance(error, CorruptRecordError), stray
        assert error.reason == f"stray bytes follow the last {kind} stream"
        assert error.path == str(file)


@pytest.mark.parametrize(("fields", "size"), [(4, 7), (10, 1), (16, 100), (28, 7), (30, 1)])
def test_a_gzip_header_may_come_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: int, size: int
) -> None:
    """Fields of RFC 1952: checksum (2), extra (4), name (8) and comment (16)."""
    head = b"\x1f\x8b\x08" + bytes([fields]) + bytes(6)
    optional = {4: b"\5\0extra", 8: b"name" * 40 + b"\0", 16: b"comment\0"}
    head += b"".join(part for bit, part in optional.items() if fields & bit)
    if fields & 2:
        head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    file = tmp_path / "x"
    file.write_bytes(2 * (head + gzip.compress(DATA[:5000])[10:]))
    monkeypatch.setattr("torchrec_io._storage.inflater._INPUT_BYTES", size)
    assert inflate(file, "gzip") == (2 * DATA[:5000], None)


def test_streams_with_a_dictionary_are_refused(tmp_path: Path) -> None:
    maker = zlib.compressobj(zdict=b"word")
    file = tmp_path / "x"
    file.write_bytes(maker.compress(b"word") + maker.flush())
    data, error = inflate(file, "zlib")
    assert data == b""
    assert error is not None
    assert error.reason == "the zlib stream needs a dictionary"


RECORDS = [b"first", b"", b"x" * 40, bytes(range(30)), b"last"]


@KINDS
def test_damage_inside_keeps_the_records_before_it(tmp_path: Path, kind: str) -> None:
    noise = [np.random.default_rng(number).bytes(1000) for number in range(300)]
    whole = bytearray(compressed(kind, b"".join(map(frame, noise))))
    whole[150_000:150_008] = b"\xff" * 8  # noise is stored as it is
    (tmp_path / "x").write_bytes(whole)
    found, error = read(tmp_path / "x")
    assert isinstance(error, CorruptRecordError)
    assert [data for _, data in found] == noise[: len(found)]
    assert len(found) > 140


@KINDS
def test_damage_at_the_end_keeps_every_record(tmp_path: Path, kind: str) -> None:
    whole = bytearray(compressed(kind, b"".join(map(frame, RECORDS))))
    whole[-1] ^= 1
    file = tmp_path / "x"
    file.write_bytes(whole)
    found, error = read(file)
    assert [data for _, data in found] == RECORDS
    assert isinstance(error, CorruptRecordError)
    assert f"the {kind} stream is damaged: incorrect checksum found" in error.reason
    dataset = TFRecordDataset(file, on_error="skip")
    assert list(dataset) == RECORDS
    assert dataset.skipped == 1


# Lengths whose first bytes look like gzip (1f 8b) or zlib, also as text ("x^").
GZIP = 0x8B1F
LOOK_ALIKES = (GZIP, 0x0178, 0x5E78, 0x9C78, 0xDA78, 0x3838)


@pytest.mark.parametrize("length", LOOK_ALIKES)
def test_plain_files_that_look_compressed_are_plain(tmp_path: Path, length: int) -> None:
    file = tmp_path / "x"
    file.write_bytes(frame(bytes(length)))
    assert detect_compression(head_of(LocalFile(file))) is None
    assert [len(data) for _, data in iter_records(file)] == [length]
    whole = bytearray(file.read_bytes())
    whole[8] ^= 1  # damage to the header does not make it one of zlib
    file.write_bytes(whole)
    if length != GZIP:
        _, error = read(file)
        assert error is not None
        assert error.reason.startswith("the record's length does not match its checksum")


def test_text_that_starts_like_zlib_is_reported_as_text(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"x^2 + 1 is a polynomial\n" * 9)
    _, error = read(file)
    assert error is not None
    assert "looks like text" in error.reason


def test_compression_argument_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'auto', None, 'gzip', 'zlib'"):
        next(iter_records(tmp_path, compression="bz2"))  # type: ignore[arg-type]
