"""The commands ``torchrec-io merge``, ``split``, ``reshard``, ``shuffle`` and others.

What the tools do is in tests/tools. Here are the options of the commands, and what they print.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import TFRecordDataset
from torchrec_io._records.sequential import iter_records

RECORDS = [b"record %d" % number for number in range(20)]


def records_in(path: str | Path) -> list[bytes]:
    return [record for _, record in iter_records(path)]


@pytest.fixture(autouse=True)
def _inputs(run: Run) -> None:
    del run  # its working directory
    write_tfrecord("a.tfrecord", RECORDS[:12])
    write_tfrecord("b.tfrecord.gz", RECORDS[12:], "gzip")


def test_merge(run: Run) -> None:
    result = run("merge", "a.tfrecord", "b.tfrecord.gz", "-o", "out/all.tfrecord")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("20 records in 1 file, ")
    assert ", 0 skipped, " in result.stdout
    assert records_in("out/all.tfrecord") == RECORDS
    assert Path("out/all.tfrecord.tfidx").exists()
    assert run("merge", "out", "-o", "all", "--no-index", "--compression", "zlib").returncode == 0
    assert records_in("all") == RECORDS
    assert not Path("all.tfidx").exists()


@pytest.mark.parametrize("fractions", ["75 25", "0.75, 0.25", "75%,25%", "3,1"])
def test_split(run: Run, fractions: str) -> None:
    options = ["--fractions", fractions, "--names", "a,b", "--seed", "7"]
    result = run("split", ".", "-o", "parts/", *options)
    assert result.returncode == 0, result.stderr
    for name, part in zip("ab", TFRecordDataset(".").split(0.75, 0.25, seed=7), strict=True):
        assert records_in(f"parts/{name}.tfrecord") == list(part)
        assert f"parts/{name}.tfrecord: {len(part)} records" in result.stdout


def test_options_of_other_tools(run: Run) -> None:
    for command in (
        "reshard . -o out/x --num-shards 3",
        "reshard . -o out/y --max-bytes 0.1KB",
        "shuffle . -o out/z --num-shards 1 --seed 3",
        "subset . -o slice --records [5:9]",
        "subset a.tfrecord -o each --every 5",
        "subset . -o sample --sample 0.25 --seed 1",
        "compress a.tfrecord -o packed",
        "decompress packed -o plain",
    ):
        result = run(*command.split())
        assert result.returncode == 0, result.stderr
    assert records_in("out/x-00001-of-00003") == RECORDS[1::3]
    assert max(path.stat().st_size for path in Path("out").glob("y-*[0-9]")) <= 100
    shuffled = list(TFRecordDataset(["a.tfrecord", "b.tfrecord.gz"], shuffle=True, seed=3))
    assert records_in("out/z-00000-of-00001") == shuffled
    assert records_in("slice") == RECORDS[5:9]
    assert records_in("each") == RECORDS[:12:5]
    assert len(records_in("sample")) == 5
    assert Path("packed/a.tfrecord.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert Path("plain/a.tfrecord").read_bytes() == Path("a.tfrecord").read_bytes()


def test_damage_is_reported(run: Run) -> None:
    data = bytearray(b"".join(map(frame, RECORDS[:5])))
    data[24 + 12] ^= 1
    Path("bad.tfrecord").write_bytes(data)
    result = run("merge", "a.tfrecord", "bad.tfrecord", "-o", "all")
    assert result.returncode == 1
    assert "bad.tfrecord: the record's data does not match" in result.stderr
    assert "(record 1, offset 24)" in result.stderr
    assert not Path("all").exists()
    result = run("merge", "a.tfrecord", "bad.tfrecord", "-o", "all", "--on-error", "skip")
    assert result.returncode == 0
    assert "(record 1, offset 24)" in result.stderr
    assert "16 records in 1 file" in result.stdout
    assert ", 1 skipped, " in result.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("merge a.tfrecord -o ./a.tfrecord", "overwrite the input"),
        ("split a.tfrecord -o x --fractions half", "fractions must be numbers"),
        ("split a.tfrecord -o x --fractions 70%,20%", "must sum to 1"),
        ("reshard a.tfrecord -o x --max-bytes much", "a size must look like"),
    ],
)
def test_invalid_arguments_are_refused(run: Run, command: str, message: str) -> None:
    before = sorted(Path().iterdir())
    result = run(*command.split())
    assert result.returncode == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert sorted(Path().iterdir()) == before
