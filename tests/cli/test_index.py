"""The command ``torchrec-io index``."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, run_in_terminal
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import RecordIndex

RECORDS = [b"x" * i for i in range(20)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    data.mkdir()
    write_tfrecord(data / "a.tfrecord", RECORDS)
    write_tfrecord(data / "b.tfrecord.gz", RECORDS, "gzip")
    write_tfrecord(data / "c.tfrecord", RECORDS[:3], "zlib")
    return data


def test_writes_an_index_next_to_each_file(run: Run, folder: Path) -> None:
    result = run("index", folder)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split(": ")[1].split(", ")[:2] for line in lines] == [
        ["indexed", "20 records"], ["indexed", "20 records"], ["indexed", "3 records"],
    ]  # fmt: skip
    assert lines[0].startswith(f"{folder}/a.tfrecord: ")
    assert len(RecordIndex.load(folder / "a.tfrecord")) == 20
    assert RecordIndex.load(folder / "b.tfrecord.gz").compression == "gzip"
    assert RecordIndex.load(folder / "c.tfrecord").lengths.tolist() == [0, 1, 2]
    assert len(os.listdir(folder)) == 6  # no other files remain


def test_current_index_is_kept_unless_forced(run: Run, folder: Path) -> None:
    run("index", folder / "a.tfrecord")
    index = folder / "a.tfrecord.tfidx"
    os.utime(index, ns=(1, 1))
    assert "up to date, 20 records" in run("index", folder / "*.tfrecord").stdout
    assert index.stat().st_mtime_ns == 1
    assert "indexed" in run("index", folder / "a.tfrecord", "--force", "--jobs", 1).stdout
    assert index.stat().st_mtime_ns != 1


def test_stale_or_damaged_index_is_rebuilt(run: Run, folder: Path) -> None:
    run("index", folder / "a.tfrecord")
    write_tfrecord(folder / "a.tfrecord", RECORDS[:5])
    assert "indexed, 5 records" in run("index", folder / "a.tfrecord").stdout
    (folder / "a.tfrecord.tfidx").write_bytes(b"garbage")
    assert "indexed, 5 records" in run("index", folder / "a.tfrecord").stdout


def test_text_indexes(run: Run, folder: Path) -> None:
    assert run("index", folder / "a.tfrecord", "--format", "text").returncode == 0
    first = (folder / "a.tfrecord.idx").read_text().splitlines()[:3]
    assert first == ["0 16", "16 17", "33 18"]
    result = run("index", folder / "b.tfrecord.gz", "--format", "text")
    assert result.returncode == 1
    assert "a text index of a gzip file is not possible" in result.stderr


def test_invalid_file_fails_and_the_others_are_indexed(run: Run, folder: Path) -> None:
    bad = folder / "a.tfrecord"
    bad.write_bytes(bad.read_bytes()[:-3])
    result = run("index", folder)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"{bad}: the record reaches past the end of the file (record 19"
    )
    assert len(result.stderr.splitlines()) == 1
    assert sorted(os.listdir(folder)) == [
        "a.tfrecord", "b.tfrecord.gz", "b.tfrecord.gz.tfidx", "c.tfrecord", "c.tfrecord.tfidx",
    ]  # fmt: skip


def test_check(run: Run, folder: Path) -> None:
    missing = run("index", folder, "--check")
    assert missing.returncode == 1
    assert missing.stderr.count("the index does not exist") == 3
    assert len(os.listdir(folder)) == 3  # it builds nothing
    run("index", folder)
    assert run("index", folder, "--check").returncode == 0
    write_tfrecord(folder / "c.tfrecord", RECORDS[:4], "zlib")
    stale = run("index", folder, "--check")
    assert stale.returncode == 1
    assert "c.tfrecord" in stale.stderr


def test_check_reads_the_whole_file(run: Run, folder: Path) -> None:
    # The file has different records in the middle; its ends, size and time are unchanged.
    path = folder / "a.tfrecord"
    ends = [bytes(100_000)]
    write_tfrecord(path, [*ends, b"x" * 50, b"y" * 60, *ends])
    time = path.stat().st_mtime_ns
    run("index", path)
    write_tfrecord(path, [*ends, b"x" * 60, b"y" * 50, *ends])
    os.utime(path, ns=(time, time))
    assert "up to date" in run("index", path).stdout
    result = run("index", path, "--check")
    assert result.returncode == 1
    assert result.stderr == f"{path}.tfidx: the index does not match the records of the data file\n"


def test_check_of_text(run: Run, folder: Path) -> None:
    path = folder / "a.tfrecord"
    run("index", path, "--format", "text")
    assert "index matches" in run("index", path, "--format", "text", "--check").stdout
    index = folder / "a.tfrecord.idx"
    index.write_text(index.read_text().replace("16 17\n33 18", "16 18\n34 17"))
    assert run("index", path, "--format", "text", "--check").returncode == 1
    assert run("index", path, "--check", "--force").returncode == 2


def test_index_files_among_the_arguments_are_ignored(run: Run, folder: Path) -> None:
    run("index", folder)
    named = sorted(folder.iterdir())  # like the expansion of `*` in a shell
    result = run("index", *named, folder / "a.tfrecord")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("up to date") == len(result.stdout.splitlines()) == 3


def test_progress_moves_within_a_file(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [bytes(1000)] * 5000)
    for kind in (None, "gzip"):
        write_tfrecord(path, [os.urandom(1000) for _ in range(5000)], kind)
        seen: list[tuple[int, int]] = []
        RecordIndex.build(path, progress=lambda *state, seen=seen: seen.append(state))
        assert len(seen) >= 5
        assert seen == sorted(seen)
        assert seen[-1] == (path.stat().st_size, 5000)


def test_progress_bar_with_rates_on_a_terminal(folder: Path) -> None:
    text = run_in_terminal(folder, "index", ".", columns=100, lines=30)
    assert "records/s" in text
    assert "%" in text
    assert "\x1b[" in text  # the bar is redrawn
    assert "3 indexed" in text


def test_seek_points(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord.gz"
    record = np.random.default_rng(0).bytes(1000)
    path.write_bytes(gzip.compress(b"".join(frame(record) for _ in range(3000)), 0))
    counts = []
    for arguments in ([], ["--force", "--seek-points", "200KB"]):
        result = run("index", path, *arguments)
        assert result.returncode == 0, result.stderr
        counts.append(len(RecordIndex.load(path).seek_points))
    assert counts[0] == 1
    assert 10 <= counts[1] <= 16
    result = run("index", path, "--force", "--seek-points", "much")
    assert result.returncode == 2


def test_an_index_has_a_limit(run: Run, tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "data", [b"x"] * 40)
    refused = run("index", path, "--max-index-size", "159")
    assert refused.returncode == 1
    assert "the index of 40 records or more has over 159 bytes" in refused.stderr
    assert run("index", path, "--max-index-size", "160").returncode == 0
    assert run("index", path, "--check", "--max-index-size", "160").returncode == 0
