"""The command ``torchrec-io convert``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import torchrec_io as tio
from tests.cli.conftest import Run, run_in_terminal
from tests.convert.reading import contents, rows_of
from tests.support.images import encoded, noise
from torchrec_io.cli.commands import app


def put_images(root: Path) -> None:
    for name in ("cat/1", "cat/2", "dog/3"):
        path = root / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(noise(20, 30)))


def run_source(source: str, folder: Path) -> Any:
    """Run printed Python code in a folder."""
    space: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        exec(source, space)  # noqa: S102  # source that the command has printed
    finally:
        os.chdir(before)
    return space


def test_images(run: Run, tmp_path: Path) -> None:
    put_images(tmp_path / "in")
    (tmp_path / "in" / "notes.txt").touch()
    result = run(
        "convert", "in", "out/x", "--num-shards", 2, "--resize", "9x6", "--encode", "jpeg",
        "--quality", 80, "--compression", "gzip", "--shuffle", 0,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("3 records in 2 files, ")
    assert ", 0 skipped, ignored 1 .txt, " in result.stderr
    names = ["x-00000-of-00002", "x-00001-of-00002"]
    assert sorted(contents(tmp_path / "out")) == sorted(
        [*names, *(name + ".tfidx" for name in names), "x.labels.txt"]
    )
    rows = rows_of(str(tmp_path / "out" / name) for name in names)
    assert sorted(row["image/filename"][0] for row in rows) == [b"1.png", b"2.png", b"3.png"]
    assert {(row["image/width"][0], row["image/height"][0]) for row in rows} == {(9, 6)}
    assert {row["image/format"][0] for row in rows} == {b"JPEG"}
    dataset = run_source(result.stdout, tmp_path)["dataset"]
    assert len(dataset) == 3
    assert dataset.schema["image/encoded"] == tio.ImageFeature(size=(6, 9))
    found = run("schema", "out/x-*")
    assert '"image/encoded": tio.ImageFeature(size=[6, 9]),\n' in found.stdout


def test_invalid_images(run: Run, tmp_path: Path) -> None:
    put_images(tmp_path / "in")
    bad = tmp_path / "in" / "cat" / "\x1b[31m.png"
    bad.write_bytes(b"")
    result = run("convert", "in", "out")
    assert (result.returncode, result.stdout) == (1, "")
    line = "'in/cat/\\x1b[31m.png': the image cannot be opened: its format is not known"
    assert result.stderr.startswith(line)
    assert len(result.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["in"]
    result = run("convert", "in", "out", "--on-error", "skip", "--no-index")
    assert result.returncode == 0
    assert result.stderr.startswith(line)
    assert "3 records in 1 file" in result.stderr
    assert ", 1 skipped, " in result.stderr
    assert set(os.listdir(tmp_path)) == {"in", "out.tfrecord", "out.labels.txt"}


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,02134\n2,5\n")
    (tmp_path / "b").write_text('{"id": 1, "zip": "02134"}\n{"id": 2, "zip": "5"}\n')
    pq.write_table(pa.table({"id": [1, 2], "zip": ["02134", "5"]}), tmp_path / "c.parquet")
    rows = [{"id": [1], "zip": [b"02134"]}, {"id": [2], "zip": [b"5"]}]
    for arguments in (
        ["a.csv", "x", "--columns", "id,zip", "--types", "zip=string,id=int64"],
        ["b", "x", "--from", "jsonl"],
        ["c.parquet", "x", "--jobs", "1"],
    ):
        result = in_this_process(tmp_path, [*arguments, "--force"])
        assert result.exit_code == 0, result.output
        assert "2 records in 1 file" in result.stderr
        assert rows_of([str(tmp_path / "x.tfrecord")]) == rows
        assert set(run_source(result.stdout, tmp_path)["schema"]) == {"id", "zip"}
    result = in_this_process(tmp_path, ["a.csv", "y", "--columns", "id,zip"])
    assert result.exit_code == 1
    assert "mixed types: '5' in row 2 of 'a.csv' is a number, '02134' in row 1" in result.stderr
    assert not (tmp_path / "y.tfrecord").exists()


def test_columns_are_left_out_and_cast(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,zip,x\n1,02134,\n2,5,3\n")
    options = ["--exclude", "x", "--types", "zip=string"]
    assert in_this_process(tmp_path, ["a.csv", "y", *options]).exit_code == 0
    options = ["--include", "id,zip", "--to", "csv"]
    result = in_this_process(tmp_path, ["y.tfrecord", "z", *options])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "z.csv").read_text() == '"id","zip"\n1,"02134"\n2,"5"\n'


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere.csv", "x"], "no such file: 'nowhere.csv'"),
        (["nowhere", "x"], "no such file: 'nowhere'"),
        (
            ["file", "x"],
            "use --from to give the format of 'file': images, npz, csv, parquet, jsonl",
        ),
        (["a.csv", "x", "--resize", "3"], "--resize cannot be used with --from csv"),
        ([".", "x", "--types", "a=int64"], "--types cannot be used with --from images"),
        ([".", "x", "--resize", "3x"], "--resize must be WIDTHxHEIGHT or one number, got '3x'"),
        ([".", "x", "--shuffle", "0", "--label-pattern", "a"], "must have a group for the label"),
        (["a.csv", "x", "--types", "a"], "must be NAME="),
        (["a.csv", "x", "--types", "a=int8"], "must be one of 'int64', 'float32', 'string', got"),
        (["a.csv", "x", "--max-bytes", "lots"], "a size must look like 100MB"),
        (["a.csv", "x", "--compression", "GZIP"], "for '--compression': 'GZIP' is not one of"),
        (
            ["a.csv", "x", "--max-bytes", "9", "--num-shards", "2"],
            "num_shards and max_bytes cannot be used together",
        ),
    ],
)
def test_usage(tmp_path: Path, arguments: list[str], reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a.csv").write_text("a\n1\n")
    before = contents(tmp_path)
    done = in_this_process(tmp_path, arguments)
    assert done.exit_code == 2
    assert reason in " ".join(done.output.split())
    assert contents(tmp_path) == before


def in_this_process(folder: Path, arguments: list[str]) -> Any:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(app, ["convert", *arguments])
    finally:
        os.chdir(before)


# The process gets a signal when a third of the rows is written.
STOPPED = """
import os, signal, sys
from torchrec_io.tools.report import JobReport

add = JobReport.add
def stop(report, records, size, errors=()):
    add(report, records, size, errors)
    if report.records > 300:
        os.kill(os.getpid(), {number})
        signal.pause()

if __name__ == "__main__":
    JobReport.add = stop
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = "torchrec-io convert in.csv out/x --num-shards 2 --force --jobs {jobs}".split()
    from torchrec_io.cli import main
    main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "jobs"),
    [(signal.SIGINT, 130, 2), (signal.SIGTERM, 143, 1), (signal.SIGKILL, -9, 2)],
)
def test_interrupt_and_run_again(
    tmp_path: Path, number: signal.Signals, code: int, jobs: int
) -> None:
    (tmp_path / "in.csv").write_text("n\n1\n2\n")
    done = in_this_process(tmp_path, ["in.csv", "out/x", "--num-shards", "2"])
    assert done.exit_code == 0, done.output
    before = contents(tmp_path / "out")
    text = "n,s\n" + "".join(f"{i},{'x' * 4000}\n" for i in range(900))
    (tmp_path / "in.csv").write_text(text)
    (tmp_path / "program.py").write_text(STOPPED.format(number=int(number), jobs=jobs))
    result = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    after = contents(tmp_path / "out")
    assert {name: data for name, data in after.items() if not name.startswith(".")} == before
    assert (after == before) == (number != signal.SIGKILL)
    assert tio.TFRecordDataset(tmp_path / "out").num_records == 2
    done = in_this_process(tmp_path, ["in.csv", "out/x", "--num-shards", "2", "--force"])
    assert done.exit_code == 0, done.output
    paths = [str(tmp_path / "out" / f"x-0000{i}-of-00002") for i in range(2)]
    assert [row["n"][0] for row in rows_of(paths[:1])] == list(range(0, 900, 2))


def test_progress_bar_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 5 + "1\n")
    arguments = ["convert", "a.csv", "x", "--on-error", "skip"]
    shown = run_in_terminal(tmp_path, *arguments, columns=80, lines=24)
    assert "100%" in shown
    assert "a.csv: row 7: the row has 1 field, expected 2" in shown
    assert "5 records in 1 file" in shown


def test_never_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    script = (
        "import sys\n"
        "from torchrec_io.cli import main\n"
        "sys.argv = ['torchrec-io', 'convert', 'a.csv', 'x']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert not {'torch', 'PIL'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=tmp_path)
