"""The commands ``torchrec-io merge``, ``split``, ``reshard``, ``shuffle`` and others."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import TFRecordDataset
from torchrec_io._records.sequential import iter_records
from torchrec_io.cli.commands import app


def numbered(count: int) -> list[bytes]:
    return [b"record %d" % number for number in range(count)]


def records_in(path: str | Path) -> list[bytes]:
    return [record for _, record in iter_records(path)]


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tfrecord("a.tfrecord", numbered(20)[:12])
    write_tfrecord("b.tfrecord.gz", numbered(20)[12:], "gzip")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_merge() -> None:
    result = call("merge", "a.tfrecord", "b.tfrecord.gz", "-o", "out/all.tfrecord")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("20 records in 1 file, ")
    assert ", 0 skipped, " in result.stdout
    assert records_in("out/all.tfrecord") == numbered(20)
    assert Path("out/all.tfrecord.tfidx").exists()
    assert call("merge", "out", "-o", "all", "--no-index", "--compression", "zlib").exit_code == 0
    assert records_in("all") == numbered(20)
    assert not Path("all.tfidx").exists()


def test_split() -> None:
    arguments = ["--fractions", "0.5,0.25,0.25", "--names", "a,b,c", "--seed", "7"]
    result = call("split", ".", "-o", "parts/", *arguments)
    assert result.exit_code == 0, result.output
    parts = TFRecordDataset(".").split(0.5, 0.25, 0.25, seed=7)
    for name, part in zip("abc", parts, strict=True):
        assert records_in(f"parts/{name}.tfrecord") == list(part)
        assert f"parts/{name}.tfrecord: {len(part)} records" in result.stdout


@pytest.mark.parametrize(
    "fractions", ["75,25", "75 25", "0.75, 0.25", "75%,25%", "3,1", "75.0,25.0"]
)
def test_fractions(fractions: str) -> None:
    result = call("split", ".", "-o", "parts/", "--fractions", fractions)
    assert result.exit_code == 0, result.output
    parts = TFRecordDataset(".").split(0.75, 0.25)
    assert [records_in(f"parts/{name}.tfrecord") for name in ("train", "test")] == list(
        map(list, parts)
    )


def test_reshard_and_shuffle() -> None:
    assert call("reshard", ".", "-o", "out/x", "--num-shards", 3).exit_code == 0
    assert records_in("out/x-00001-of-00003") == numbered(20)[1::3]
    assert call("reshard", ".", "-o", "out/y", "--max-bytes", "0.1KB").exit_code == 0
    assert max(path.stat().st_size for path in Path("out").glob("y-*[0-9]")) <= 100
    assert call("shuffle", ".", "-o", "out/z", "--num-shards", 1, "--seed", 3).exit_code == 0
    shuffled = list(TFRecordDataset(".", shuffle=True, seed=3))
    assert records_in("out/z-00000-of-00001") == shuffled != numbered(20)


def test_subset() -> None:
    assert call("subset", ".", "-o", "one", "--records", "[5:9]").exit_code == 0
    assert records_in("one") == numbered(20)[5:9]
    assert call("subset", "a.tfrecord", "-o", "two", "--every", 5).exit_code == 0
    assert records_in("two") == numbered(12)[::5]
    assert call("subset", ".", "-o", "three", "--sample", 0.25, "--seed", 1).exit_code == 0
    assert len(records_in("three")) == 5


def test_compress_and_decompress() -> None:
    assert call("compress", "a.tfrecord", "-o", "packed").exit_code == 0
    assert Path("packed/a.tfrecord.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert call("decompress", "packed", "-o", "plain").exit_code == 0
    assert Path("plain/a.tfrecord").read_bytes() == Path("a.tfrecord").read_bytes()


def test_damage_is_reported() -> None:
    data = bytearray(b"".join(map(frame, numbered(5))))
    data[24 + 12] ^= 1
    Path("bad.tfrecord").write_bytes(data)
    result = call("merge", "a.tfrecord", "bad.tfrecord", "-o", "all")
    assert result.exit_code == 1
    assert "bad.tfrecord: the record's data does not match" in result.output
    assert "(record 1, offset 24)" in result.output
    assert not Path("all").exists()
    result = call("merge", "a.tfrecord", "bad.tfrecord", "-o", "all", "--on-error", "skip")
    assert result.exit_code == 0
    assert "(record 1, offset 24)" in result.stderr
    assert "16 records in 1 file" in result.stdout
    assert ", 1 skipped, " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["merge", "a.tfrecord", "-o", "./a.tfrecord"], 2, "overwrite the input"),
        (["merge", "missing", "-o", "x"], 2, "no such file: 'missing'"),
        (["split", "*.tfrecord*", "-o", "x", "--fractions", "0.5,0.6"], 2, "must sum to 1"),
        (
            ["split", "*.tfrecord*", "-o", "x", "--fractions", "half"],
            2,
            "fractions must be numbers",
        ),
        (["split", "*.tfrecord*", "-o", "x", "--fractions", "70%,20%"], 2, "must sum to 1"),
        (["reshard", "*.tfrecord*", "-o", "x"], 2, "exactly one of num_shards and max_bytes"),
        (["reshard", "*.tfrecord*", "-o", "x", "--max-bytes", "much"], 2, "a size must look like"),
        (
            ["subset", "*.tfrecord*", "-o", "x", "--records", "[50:]"],
            2,
            "there are only 20 records",
        ),
        (["subset", "*.tfrecord*", "-o", "x"], 2, "exactly one of"),
        (["reshard", "*.tfrecord*", "-o", "old", "--num-shards", "2"], 1, "old-00000-of-00001"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], status: int, message: str) -> None:
    Path("old-00000-of-00001").touch()
    before = sorted(Path().iterdir())
    result = call(*arguments)
    assert result.exit_code == status, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
    assert sorted(Path().iterdir()) == before
