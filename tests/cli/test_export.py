"""The command ``torchrec-io convert --to``."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyarrow import parquet

import torchrec_io as tio
from tests.cli.conftest import Run
from tests.support.tfrecord import write_tfrecord

JPEG = b"\xff\xd8\xff and so on"


@pytest.fixture(autouse=True)
def _inputs(run: Run) -> None:
    del run  # its working directory
    names = (b"cat/1.jpg", b"dog/2.jpg", b"cat/3.jpg")
    records = [
        tio.encode_example({"image": JPEG, "label": len(name) - 9, "name": name, "n": [1, 2]})
        for name in names
    ]
    write_tfrecord("in.tfrecord", records)


def test_parquet(run: Run) -> None:
    schema = tio.Schema({"label": tio.FixedLenFeature([], "uint8")})
    Path("schema.json").write_text(schema.to_json())
    arguments = ["--to", "parquet", "--schema", "schema.json", "--num-shards", 2]
    result = run("convert", "in.tfrecord", "out", *arguments)
    assert result.returncode == 0, result.stderr
    assert "3 records in 2 files" in result.stdout
    [first, second] = sorted(Path().glob("out-*.parquet"))
    assert parquet.read_table(first).to_pydict() == {"label": [0]}
    assert parquet.read_table(second).to_pydict() == {"label": [0, 0]}


def test_webdataset(run: Run) -> None:
    arguments = ["--key", "name", "--extensions", "image=jpg,label=cls", "--max-bytes", "10KiB"]
    result = run("convert", "in.tfrecord", "out/x", "--to", "webdataset", *arguments)
    assert result.returncode == 0, result.stderr
    assert "out/x-000000.tar: 2 records" in result.stdout
    with tarfile.open("out/x-000001.tar") as tar:
        assert tar.getnames() == ["cat/3.jpg", "cat/3.cls", "cat/3.n.npy", "cat/3.name.txt"]


def test_files(run: Run) -> None:
    arguments = ["--feature", "image", "--name-from", "name", "--by-class", "label"]
    result = run("convert", "in.tfrecord", "out", "--to", "files", *arguments)
    assert result.returncode == 0, result.stderr
    assert "3 records in 1 folder" in result.stdout
    found = sorted(str(path) for path in Path("out").rglob("*.jpg"))
    assert found == ["out/0/cat/1.jpg", "out/0/cat/3.jpg", "out/0/dog/2.jpg"]
    result = run("convert", "in.tfrecord", "out", "--to", "files", *arguments)
    assert result.returncode == 1
    assert "must be a new or empty folder" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "files"], "--to files needs --feature"),
        (["--to", "parquet", "--feature", "image"], "--feature cannot be used with --to parquet"),
        (["--to", "webdataset", "--extensions", "jpg"], "NAME=VALUE"),
        (["--from", "csv", "--key", "name"], "--key cannot be used with --from csv"),
        (["--to", "parquet", "--schema", "no.json"], "no.json: No such file"),
    ],
)
def test_incompatible_options(run: Run, arguments: list[str], message: str) -> None:
    result = run("convert", "in.tfrecord", "out", *arguments)
    assert result.returncode == 2, result.stderr
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert [path.name for path in Path().iterdir()] == ["in.tfrecord"]


def test_invalid_schema(run: Run) -> None:
    Path("schema.json").write_text("{}")
    result = run("convert", "in.tfrecord", "out", "--to", "parquet", "--schema", "schema.json")
    assert result.returncode == 1
    assert result.stderr.startswith('schema.json: "torchrec_io_schema" must be 1')


def test_the_summary_names_some_of_many_features(run: Run) -> None:
    records = [tio.encode_example({"a": 1, **{f"f{number:02}": 1 for number in range(12)}})]
    write_tfrecord("many.tfrecord", records)
    Path("schema.json").write_text(tio.Schema({"a": tio.VarLenFeature("int64")}).to_json())
    arguments = ["--to", "webdataset", "--schema", "schema.json"]
    result = run("convert", "many.tfrecord", "out", *arguments)
    assert "left out features 'f00' (in 1 record), " in result.stdout
    assert "'f09' (in 1 record) and 2 more" in result.stdout
