"""Damaged gzip and Zstandard files of records without checksums: no wrong record is given."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from torchrec_io._storage.zstd import load_zstd

# Records of several kinds of repetition, so that damage can also repeat earlier bytes. Every third
# of the stream is a member, which starts and ends inside of a record.
RECORDS = [b"%06d %s" % (7919 * i % 9973, b"abc"[i % 3 : i % 3 + 1] * 8) for i in range(15)]
STREAM = b"".join(record + b"\n" for record in RECORDS)
RECORD_BYTES = len(RECORDS[0]) + 1
CUTS = [0, 80, 160, len(STREAM)]


def with_checksum(data: bytes) -> bytes:
    zstd = load_zstd()
    return bytes(zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}))


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": with_checksum,
}


class Lines(tio.RecordFormat):
    """A format of a user: lines that are not empty."""

    name = "lines of a user"

    def boundaries(self, file: BufferedReader) -> Iterator[int]:
        yield 0
        for line in file:
            if len(line) < 2:
                raise ValueError("an empty line")
            yield file.tell()


DATASETS: dict[str, Callable[..., Any]] = {
    "lines": tio.TextLineDataset,
    "fixed length": lambda path, **options: tio.FixedLengthRecordDataset(
        path, RECORD_BYTES, **options
    ),
    "custom": lambda path, **options: tio.RecordFileDataset(path, format=Lines(), **options),
}


@pytest.mark.parametrize("flip", [0x01, 0xFF])
@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_each_byte_in_turn_is_damaged(
    tmp_path: Path, compression: str, name: str, flip: int
) -> None:
    parts = [STREAM[at:end] for at, end in itertools.pairwise(CUTS)]
    members = [COMPRESSIONS[compression](part) for part in parts]
    content = b"".join(members)
    expected = RECORDS if name == "lines" else [record + b"\n" for record in RECORDS]
    damaged_files = 0
    for at in range(len(content)):
        path = tmp_path / str(at)
        path.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
        errors: list[tio.TorchRecIOError] = []
        dataset = DATASETS[name](path, compression=compression, on_error=errors.append)
        found = [bytes(record) for record in dataset]
        if not errors:  # a byte of a header without a meaning, such as the time in gzip
            assert found == expected
            continue
        sizes = [sum(map(len, members[:count])) for count in (1, 2)]
        sound = CUTS[sum(at >= size for size in sizes)]
        assert found == expected[: sound // RECORD_BYTES]
        assert errors[0].record == len(found)
        assert errors[0].path == str(path)
        damaged_files += 1
    assert damaged_files > 0.7 * len(content)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_truncated_file_gives_the_records_of_whole_members(
    tmp_path: Path, compression: str, name: str
) -> None:
    first = COMPRESSIONS[compression](STREAM[: CUTS[1]])
    path = tmp_path / "x"
    path.write_bytes(first + COMPRESSIONS[compression](STREAM[CUTS[1] :])[:-1])
    with pytest.raises(tio.TruncatedFileError) as caught:
        list(DATASETS[name](path))
    assert caught.value.record == CUTS[1] // RECORD_BYTES
    assert len(list(DATASETS[name](path, on_error="skip"))) == CUTS[1] // RECORD_BYTES


def test_a_footer_that_starts_in_a_sound_member(tmp_path: Path) -> None:
    """The damaged member may have had fewer bytes, so its size does not show where it starts."""
    damaged = bytearray(gzip.compress(bytes(100)))
    damaged[-5] ^= 1
    (tmp_path / "x").write_bytes(gzip.compress(b"abcdefgFOOTER ") + damaged)
    dataset = tio.FixedLengthRecordDataset(tmp_path / "x", 7, footer_bytes=10, on_error="skip")
    assert list(dataset) == []
    assert dataset.skipped == 1
