"""verify_file: counts, damage and lost bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._records.verify import verify_file


@given(flips=st.sets(st.integers(0, 19), max_size=6))
def test_every_damaged_record_is_found(
    tmp_path_factory: pytest.TempPathFactory, flips: set[int]
) -> None:
    content = bytearray(frame(b"abcd") * 20)
    for number in flips:
        content[number * 20 + 12 + number % 8] ^= 1  # in the data or its checksum
    path = tmp_path_factory.mktemp("verify") / "x"
    path.write_bytes(content)
    report = verify_file(path)
    assert report.records == 20 - len(flips)
    assert [error.record for error in report.damage] == sorted(flips)
    assert [error.offset for error in report.damage] == [20 * number for number in sorted(flips)]
    assert report.ok == (not flips)


def test_many_damaged_records_are_counted(tmp_path: Path) -> None:
    broken = bytearray(frame(b"abcd"))
    broken[13] ^= 1
    (tmp_path / "x").write_bytes(bytes(broken) * 100)
    report = verify_file(tmp_path / "x", most_listed=10)
    assert (report.damaged, len(report.damage)) == (100, 10)


def marked(path: Path, width: int, limit: int = 1 << 30) -> list[int]:
    cells = verify_file(path, max_record_bytes=limit).damage_map.cells(width)
    return [cell for cell, is_damaged in enumerate(cells) if is_damaged]


def test_damage_is_marked_where_it_is(tmp_path: Path) -> None:
    content = bytearray(frame(b"abcd") * 64)
    assert marked(write_tfrecord(tmp_path / "valid", [b"abcd"] * 64), 64) == []
    content[20 * 5 + 13] ^= 1
    content[20 * 40 + 13] ^= 1
    (tmp_path / "data").write_bytes(content)
    assert marked(tmp_path / "data", 64) == [5, 40]
    (tmp_path / "gzip").write_bytes(gzip.compress(content, 0))
    assert set(marked(tmp_path / "gzip", 64)) <= {4, 5, 6, 39, 40, 41}
    content[20 * 60] ^= 1
    (tmp_path / "length").write_bytes(content)
    assert marked(tmp_path / "length", 64) == [5, 40, 60, 61, 62, 63]
    large = write_tfrecord(tmp_path / "large", [b"x" * 48, b"x" * 176, *[b"x" * 48] * 12])
    assert marked(large, 16, limit=100) == [1, 2, 3]
