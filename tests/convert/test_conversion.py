"""Common parts of all conversions to TFRecord: sources and complete outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.convert.reading import Heard, contents, rows_of

ROWS = 600


def source(folder: Path, rows: int = ROWS, bad: int | None = None) -> Path:
    """Write a CSV file of several pieces, optionally with an invalid line."""
    lines = [f"{i},{'x' * 4000}" for i in range(rows)]
    if bad is not None:
        lines[bad] = "no fields"
    path = folder / "in.csv"
    path.write_text("\n".join(lines))
    return path


def convert(folder: Path, **options: Any) -> tio.tools.Result:
    return tio.convert.from_csv(
        folder / "in.csv",
        folder / "out" / "x",
        columns=["n", "s"],
        types={"n": "int64", "s": "string"},
        **options,
    )


def numbers(paths: Any) -> list[int]:
    return [row["n"][0] for row in rows_of(paths)]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("train", "train.tfrecord"),
        ("train.tfrecord", "train.tfrecord"),
        ("train.tfrecord.gz", "train.tfrecord.gz"),
        ("train.csv", "train.csv.tfrecord"),
    ],
)
def test_one_file(tmp_path: Path, name: str, file: str) -> None:
    path = source(tmp_path, 5)
    done = tio.convert.from_csv(path, tmp_path / name, columns=["n", "s"])
    assert done.paths == (str(tmp_path / file),)
    assert set(contents(tmp_path)) == {"in.csv", file, file + ".tfidx"}
    assert numbers(done.paths) == list(range(5))


def test_shards(tmp_path: Path) -> None:
    source(tmp_path)
    done = convert(tmp_path, num_shards=3, index=False)
    names = [f"x-0000{i}-of-00003" for i in range(3)]
    assert list(contents(tmp_path / "out")) == names
    assert done.paths == tuple(str(tmp_path / "out" / name) for name in names)
    assert [numbers([path]) for path in done.paths] == [
        list(range(i, ROWS, 3)) for i in range(3)
    ]  # fmt: skip
    with pytest.raises(FileExistsError):
        convert(tmp_path, num_shards=2)


@pytest.mark.parametrize("compression", [None, "gzip", "zlib"])
def test_shards_by_size(tmp_path: Path, compression: Any) -> None:
    source(tmp_path)
    most = 1 << 19 if compression is None else 1 << 14
    done = convert(tmp_path, max_bytes=most, compression=compression)
    assert len(done.paths) > 1
    assert all(os.path.getsize(path) <= most for path in done.paths)
    assert numbers(done.paths) == list(range(ROWS))
    assert tio.RecordIndex.load(done.paths[0]).compression == compression


def test_failure_changes_nothing(tmp_path: Path) -> None:
    source(tmp_path, 10)
    convert(tmp_path)
    before = contents(tmp_path / "out")
    source(tmp_path, bad=ROWS - 1)
    with pytest.raises(tio.ConversionError, match=f"row {ROWS}: the row has 1 field"):
        convert(tmp_path, jobs=2, force=True)
    assert contents(tmp_path / "out") == before
    done = convert(tmp_path, on_error="skip", force=True)
    assert numbers(done.paths) == list(range(ROWS - 1))
    assert len(tio.RecordIndex.load(done.paths[0])) == ROWS - 1


class Interrupting(Heard):
    def advanced(self, size: int, records: int) -> None:
        super().advanced(size, records)
        if self.records > ROWS // 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("options", [{"jobs": 2}, {"num_shards": 2}, {"max_bytes": 100_000}])
def test_interrupt_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr("torchrec_io.convert.csv_import._PIECE_BYTES", 1 << 18)
    source(tmp_path)
    watcher = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path, watcher=watcher, **options)
    assert 0 < watcher.size < watcher.total
    assert not contents(tmp_path / "out")


def test_watcher_receives_all_progress(tmp_path: Path) -> None:
    size = source(tmp_path).stat().st_size
    heard = Heard()
    done = convert(tmp_path, watcher=heard)
    assert (heard.total, heard.size, heard.records) == (size, size, ROWS)
    assert (done.records, done.skipped, done.errors, done.ignored) == (ROWS, 0, (), {})


def test_invalid_sources(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        convert(tmp_path)
    with pytest.raises(ValueError, match="name at least one file"):
        tio.convert.from_npz([], tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe, which cannot be read twice"):
        tio.convert.from_csv(tmp_path / "pipe", tmp_path / "x")


@pytest.mark.parametrize("sources", ["part-*.csv", "."])
def test_pattern_or_folder_of_sources(tmp_path: Path, sources: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("part-1.csv", "part-0.csv"):
        (folder / name).write_text(f"n,s\n{name[5]},x\n")
    assert numbers(tio.convert.from_csv(folder / sources, tmp_path / "out").paths) == [0, 1]


def test_source_is_not_replaced(tmp_path: Path) -> None:
    path = source(tmp_path, 5).rename(tmp_path / "x.tfrecord.csv")
    with pytest.raises(ValueError, match=r"x\.tfrecord\.csv' would overwrite the input"):
        tio.convert.from_csv(path, f"{tmp_path}/./x.tfrecord.csv")
    shard = path.rename(tmp_path / "x-00001-of-00002")
    with pytest.raises(ValueError, match="would overwrite the input"):
        tio.convert.from_csv(shard, tmp_path / "x", num_shards=2)
    assert list(contents(tmp_path)) == ["x-00001-of-00002"]


@pytest.mark.parametrize("name", ["", ".", "..", "/"])
def test_destination_must_not_be_a_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is a folder; add the start of the file names"):
        tio.convert.from_csv(source(tmp_path, 5), f"{tmp_path}/{name}")
    assert list(contents(tmp_path)) == ["in.csv"]
