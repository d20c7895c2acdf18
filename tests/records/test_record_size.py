"""The limit of the size of a record: what is larger is an error, and takes no memory."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfrecord import frame, masked_crc, write_tfrecord

SMALL = [b"a" * 10, b"b" * 1000, b"c" * 10]
RECORDS = [SMALL[0], SMALL[1], b"x" * 1001, SMALL[2]]
OFFSET = 2 * 16 + 1010  # of the frame that is too large


@pytest.fixture(params=[None, "gzip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "data", RECORDS, request.param)


def open_all(path: Path, **options: Any) -> dict[str, Any]:
    shuffle = tio.Shuffle(block=2, window=2)
    return {
        "stream": tio.TFRecordStream(path, **options),
        "samples": tio.TFRecordDataset(path, **options),
        "batches": tio.TFRecordDataset(path, batch_size=2, **options),
        "shuffled": tio.TFRecordDataset(path, shuffle=True, **options),
        "blocks": tio.TFRecordDataset(path, shuffle=shuffle, **options),
    }


def check_error(error: tio.RecordTooLargeError, path: Path) -> None:
    assert error.reason == (
        "the record claims 1,001 bytes, and max_record_bytes is 1,000: pass a larger "
        "max_record_bytes if the record is meant to have this size"
    )
    assert (error.path, error.record, error.offset) == (str(path), 2, OFFSET)


def test_a_record_that_is_too_large_is_an_error(path: Path) -> None:
    for dataset in open_all(path, max_record_bytes=1000).values():
        with pytest.raises(tio.RecordTooLargeError) as caught:
            list(dataset)
        check_error(caught.value, path)


def test_a_record_that_is_too_large_is_skipped_alone(path: Path) -> None:
    errors: list[Any] = []
    for name, dataset in open_all(path, max_record_bytes=1000, on_error=errors.append).items():
        items = list(dataset)
        records = [record for batch in items for record in batch] if name == "batches" else items
        assert sorted(records) == SMALL, name
        assert dataset.skipped == 1
        check_error(errors.pop(), path)


def test_other_formats(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a\n" + b"x" * 2000 + b"\nb\n")
    options: Any = {"max_record_bytes": 1000, "on_error": "skip"}
    assert list(tio.TextLineDataset(text, **options)) == [b"a", b"b"]
    assert list(tio.WholeFileDataset(text, **options)) == []
    assert list(tio.FixedLengthRecordDataset(text, 2005, **options)) == []


@pytest.mark.parametrize("limits", [(1000, 1000), (1000, 999)])
def test_datasets_of_a_mixture_have_their_limits(path: Path, limits: tuple[int, int]) -> None:
    parts = [tio.TFRecordDataset(path, max_record_bytes=limit) for limit in limits]
    mixed = tio.mix(parts, weights=[1, 1], stop="each_once", on_error="skip")
    assert set(mixed) == set(SMALL)


def write_bomb(path: Path, claimed: int, actual: int) -> None:
    """Write a compressed file with a record that claims more bytes than there are, all zeros."""
    length = struct.pack("<Q", claimed)
    header = length + struct.pack("<I", masked_crc(length))
    zeros = bytes(1 << 20)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(frame(b"first") + header)
        for _ in range(actual >> 20):
            file.write(zeros)


def test_memory_does_not_grow_with_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    write_bomb(path, 20 << 30, 200 << 20)
    code = (
        "import resource, sys\n"
        "from torchrec_io._records.verify import verify_file\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "verify_file(sys.argv[2])\n"
        "before = peak()\n"
        "report = verify_file(sys.argv[1], max_record_bytes=1 << 20)\n"
        "print(report.damaged, peak() - before)\n"
    )
    write_tfrecord(tmp_path / "small", SMALL)
    command = [sys.executable, "-c", code, str(path), str(tmp_path / "small")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    damaged, grown = map(int, output.split())
    assert damaged == 1
    assert grown * (1024 if sys.platform == "linux" else 1) < 32 << 20
