"""The command ``torchrec-io repair``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import detect_compression


def records_in(path: str) -> list[bytes]:
    return [record for _, record in iter_records(path)]


@pytest.fixture(autouse=True)
def _input(run: Run) -> None:
    del run  # its working directory
    content = bytearray(b"".join(frame(b"%d" % number) for number in range(10, 30)))
    content[18 * 3] ^= 1
    content[18 * 12 + 13] ^= 1
    Path("in").write_bytes(content)


def test_report_as_text(run: Run) -> None:
    result = run("repair", "in", "out")
    assert result.returncode == 0, result.stderr
    assert len(records_in("out")) == 18
    assert Path("out.tfidx").exists()
    first, second, bar, summary = result.stdout.splitlines()
    reason = "the record's length does not match its checksum"
    assert first == f"in: at offset 54: {reason} (18 bytes, about 1 record lost)"
    assert second.startswith("in: at offset 216: the record's data does not match its checksum")
    assert bar.startswith("in: [░")
    assert bar.count("█") == 8
    assert summary.startswith(
        "18 valid records written to out, about 2 records lost, 36 bytes of the file lost"
    )


def test_report_as_json(run: Run) -> None:
    result = run("repair", "in", "out", "--json", "--no-index")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["ok"], report["records"], report["lost_records"]) == (False, 18, 2)
    assert (report["path"], report["output"], report["lost_bytes"]) == ("in", "out", 36)
    assert [loss["offset"] for loss in report["losses"]] == [54, 216]
    assert not Path("out.tfidx").exists()


def test_dry_run(run: Run) -> None:
    result = run("repair", "in", "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "18 valid records would be written, about 2 records lost" in result.stdout
    assert [path.name for path in Path().iterdir()] == ["in"]


def test_compression(run: Run) -> None:
    write_tfrecord("in.gz", [b"a"], "gzip")
    for name, expected in {"same": "gzip", "none": None, "zlib": "zlib"}.items():
        assert run("repair", "in.gz", name, "--compression", name).returncode == 0
        assert detect_compression(Path(name).read_bytes()) == expected
    assert run("repair", "in.gz", "raw", "--input-compression", "none").returncode == 1
    intact = run("repair", "in.gz", "--dry-run").stdout
    assert intact.startswith("1 valid record would be written, nothing lost, ")
    content = Path("in.gz").read_bytes()
    Path("in.gz").write_bytes(content + b"stray")
    lines = run("repair", "in.gz", "--dry-run").stdout.splitlines()
    assert lines[0].startswith(f"in.gz: at offset {len(content)}: stray bytes follow")
    assert "5 bytes of the file and 0 bytes of its decompressed content lost" in lines[-1]


def test_exit_codes(run: Run) -> None:
    assert run("repair", "in").returncode == 2
    assert run("repair", "in", "in").returncode == 2
    assert run("repair", "no such file", "out").returncode == 2
    assert run("repair", "in", "out", "--max-record-bytes", "many").returncode == 2
    Path("zeros").write_bytes(bytes(1000))
    result = run("repair", "zeros", "out")
    assert result.returncode == 1
    assert "zeros: no sound record was found" in result.stderr
    assert not Path("out").exists()


def test_many_losses_are_shortened(run: Run) -> None:
    broken = bytearray(frame(b"abcd"))
    broken[13] ^= 1
    Path("in").write_bytes((bytes(broken) + frame(b"good")) * 30)
    lines = run("repair", "in", "out").stdout.splitlines()
    assert len(lines) == 23
    assert lines[20] == "in: 10 more lost parts (--json lists them)"


def test_verify_shows_the_damage(run: Run) -> None:
    result = run("verify", "in")
    assert result.returncode == 1
    [bar] = [line for line in result.stdout.splitlines() if line.endswith("damaged parts")]
    cells = bar[bar.index("[") + 1 : bar.index("]")]
    assert len(cells) == 64
    assert cells[:9] == cells[0] * 9
    assert cells[10:] == cells[10] * 54
    assert cells[0] != cells[10]
    assert "'torchrec-io repair' may find more records in it" in result.stdout
