"""The command ``torchrec-io verify``."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.cli.conftest import Run
from tests.support.tfrecord import frame, write_tfrecord


def test_valid_files(run: Run, tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "a.tfrecord", [b"x"] * 10)
    write_tfrecord(tmp_path / "b.tfrecord", [b"x"] * 5, "gzip")
    result = run("verify", ".")
    assert result.returncode == 0, result.stderr
    assert "2 files, 0 with errors; 15 records" in result.stdout
    assert "records/s" in result.stdout


def test_lists_every_damaged_record_with_its_offset(run: Run, tmp_path: Path) -> None:
    content = bytearray(frame(b"abcd") * 5)
    content[20 + 13] ^= 1
    content[60 + 13] ^= 1
    (tmp_path / "x").write_bytes(content)
    result = run("verify", "x")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("x: record 1 at offset 20: the record's data does not match")
    assert lines[1].startswith("x: record 3 at offset 60: ")
    assert "DAMAGED, 3 intact records, 2 damaged" in lines[2]


def test_data_lost_after_a_damaged_length_is_reported(run: Run, tmp_path: Path) -> None:
    content = bytearray(frame(b"abcd") * 5)
    content[40 + 9] ^= 1
    (tmp_path / "x").write_bytes(content)
    write_tfrecord(tmp_path / "y", [b"good"])
    result = run("verify", "x", "y")
    assert result.returncode == 1
    assert "x: record 2 at offset 40" in result.stdout
    assert "the rest of the file (60 bytes) is lost" in result.stdout
    assert "y: intact" in result.stdout
    assert "2 files, 1 with errors" in result.stdout


def test_repair_is_not_suggested_for_other_kinds_of_files(run: Run, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tfrecord", "w") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    ended = run("verify", "a.tfrecord")
    assert ended.returncode == 1
    assert "this is a tar archive" in ended.stdout + ended.stderr
    assert "repair" not in ended.stdout + ended.stderr
