"""Directories with several sets of files, which are read together only if a pattern asks for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._storage.paths import expand_paths

TRAIN, VAL = "data/train-*-of-00002", "data/val-*-of-00002"
MIXED = (
    f"the directory 'data' has 2 sets of files: '{TRAIN}', '{VAL}'; choose one of these patterns, "
    "or pass 'data/*' to read all files"
)


def record(number: int) -> bytes:
    return example_of(n=[number])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder ``data`` of the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def mixed(folder: Path) -> Path:
    """Return a folder with two training files and two for validation, of one record each."""
    names = [f"{name}-{i:05d}-of-00002" for name in ("train", "val") for i in range(2)]
    for number, name in enumerate(names):
        write_tfrecord(folder / name, [record(number)])
    (folder / "labels.txt").write_text("a\n")
    return folder


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        write_tfrecord(folder / name, [record(0)])


READERS: dict[str, Callable[[Any], Any]] = {
    "dataset": tio.TFRecordDataset,
    "lines": tio.TextLineDataset,
    "infer": tio.Schema.infer,
    "infer lists": tio.ranking.Schema.infer,
    "merge": lambda paths: tio.tools.merge(paths, "out"),
    "parquet": lambda paths: tio.convert.to_parquet(paths, "out.parquet"),
}


@pytest.mark.parametrize("reader", READERS)
def test_several_sets_of_shards_are_refused(mixed: Path, reader: str) -> None:
    if reader == "lines":
        (mixed / "labels.txt").unlink()  # all files are files of lines
    for paths in ("data", ["data"], Path("data")):
        with pytest.raises(ValueError, match=re.escape(MIXED)):
            READERS[reader](paths)
    assert not Path("out").exists()


def test_patterns_choose_one_set_or_all(mixed: Path) -> None:
    (mixed / "labels.txt").unlink()
    assert list(tio.TFRecordDataset(TRAIN)) == [record(0), record(1)]
    assert list(tio.TFRecordDataset(VAL)) == [record(2), record(3)]
    for paths in ("data/*", [TRAIN, VAL], "data/*-of-*"):
        assert list(tio.TFRecordStream(paths)) == [record(number) for number in range(4)]


@pytest.mark.parametrize(
    ("names", "patterns"),
    [
        # The same shard, plain and compressed.
        (
            ["a-00000-of-00002", "a-00001-of-00002", "a-00000-of-00002.gz"],
            ["a-*-of-00002", "a-00000-of-00002.gz"],
        ),
        (["a.tfrecord", "a.tfrecord.gz"], ["a.tfrecord", "a.tfrecord.gz"]),
        (["a.tfrecord.gz", "a.tfrecord.zst"], ["a.tfrecord.gz", "a.tfrecord.zst"]),
        # The name of one set starts with that of another.
        (
            ["a-00000-of-00002", "a-00001-of-00002", "a-b-00000-of-00002", "a-b-00001-of-00002"],
            ["a-?????-of-00002", "a-b-*-of-00002"],
        ),
        (
            ["a.tfrecord-00000-of-00001", "b.tfrecord-00000-of-00001"],
            ["a.tfrecord-00000-of-00001", "b.tfrecord-00000-of-00001"],
        ),
        # Names without a total.
        (["train.tfrecord", "val.tfrecord"], ["train.tfrecord", "val.tfrecord"]),
        (
            ["x_train00-9.tfrec", "x_train11-9.tfrec", "x_Test00-9.tfrec", "x_Test11-9.tfrec"],
            ["x_Test*-9.tfrec", "x_train*-9.tfrec"],
        ),
        (
            ["trainAb.tfrecord", "trainC0.tfrecord", "validateAb.tfrecord"],
            ["train*.tfrecord", "validateAb.tfrecord"],
        ),
        (["part-00000", "part-00001", "a-00000-of-00001"], ["a-00000-of-00001", "part-*"]),
    ],
)
def test_what_is_a_set(folder: Path, names: list[str], patterns: list[str]) -> None:
    make(folder, *names)
    with pytest.raises(ValueError, match=f"has {len(patterns)} sets of files") as caught:
        tio.TFRecordDataset("data")
    named = str(caught.value).split("files: ")[1].split("; ")[0]
    assert named == ", ".join(repr(f"data/{pattern}") for pattern in patterns)
    found = [expand_paths(f"data/{each}", allow_missing=True) for each in patterns]
    assert sorted(file.name for files in found for file in files) == sorted(
        f"data/{name}" for name in names
    )


@pytest.mark.parametrize(
    "names",
    [
        ["a-00000-of-00002", "a-00001-of-00002.gz"],
        ["part-00000", "part-00001.gz", "part-r-00002"],
        ["a.tfrecord", "b.tfrecord.gz", "0.tfrecord"],
        ["test_0.tfrecord", "test_1.tfrecord", "more.tfrecord"],
        ["latest.tfrecord", "evaluate.tfrecord", "trainer.tfrecord", "value.tfrecord"],
        ["train-00000-of-00001", "train-00000-of-00001.tfidx", "val-00000-of-00001.json"],
        ["day-31-of-12.tfrecord", "day-32-of-12.tfrecord"],
    ],
)
def test_one_set(folder: Path, names: list[str]) -> None:
    make(folder, *names)
    data = sorted(f"data/{name}" for name in names if not name.endswith((".tfidx", ".json")))
    assert list(tio.TFRecordStream("data").paths) == data


def test_a_set_without_a_pattern_of_its_own(folder: Path) -> None:
    make(folder, "a.tfrecord", "b.tfrecord", "c.tfrecord", "x-00000-of-00001.tfrecord")
    with pytest.raises(ValueError, match=r"'data/a\.tfrecord' and 2 others, 'data/x-0000"):
        tio.TFRecordDataset("data")


def test_a_folder_whose_name_looks_like_a_pattern(folder: Path) -> None:
    make(folder / "x[1]", "train.tfrecord", "val.tfrecord")
    with pytest.raises(ValueError, match=re.escape("or pass 'data/x[[]1]/*' to read all")):
        tio.TFRecordDataset("data/x[1]")
    assert tio.TFRecordDataset("data/x[[]1]/*").num_records == 2


# ---- remote folders ----


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    filesystem = fsspec.filesystem("memory")
    for name in ("train", "val"):
        for shard in range(2):
            path = f"/mixed/{name}-{shard:05d}-of-00002"
            filesystem.pipe_file(path, frame(record(shard)))
            filesystem.pipe_file(f"/above/{name}/x-{shard:05d}-of-00002", frame(record(shard)))
    yield filesystem
    filesystem.rm("/mixed", recursive=True)
    filesystem.rm("/above", recursive=True)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("path", ["memory://mixed", "memory://mixed/"])
def test_remote_folders(path: str) -> None:
    message = r"2 sets of files: 'memory://mixed/train-\*-of-00002'.*or pass 'memory://mixed/\*'"
    for reader in (tio.TFRecordDataset, tio.Schema.infer):
        with pytest.raises(ValueError, match=message):
            reader(path)
    assert len(list(tio.TFRecordStream("memory://mixed/train-*"))) == 2
    assert [other.records for other in tio.report(path).other_sets] == [2]


# ---- files one folder down ----


def test_files_one_folder_down(folder: Path) -> None:
    make(folder / "train", "a.tfrecord")
    make(folder / "val", "a.tfrecord")
    (folder / "docs").mkdir()
    (folder / "docs" / "notes.txt").touch()
    message = "but has folders: 'data/docs', 'data/train', 'data/val'; pass one of these"
    for reader in (tio.TFRecordDataset, tio.TFRecordStream, tio.Schema.infer):
        with pytest.raises(FileNotFoundError, match=message):
            reader("data")
    with pytest.raises(
        FileNotFoundError, match=r"holds no file with the name of a data file; use a pattern"
    ):
        tio.TFRecordDataset("data/docs")


# ---- split ----


def test_a_split_is_not_a_name(mixed: Path) -> None:
    for split in ("train", "train[:80%]"):
        with pytest.raises(ValueError, match=r"pass the pattern of its files.*'data/train-\*'"):
            tio.TFRecordDataset("data/*-of-*", split=split)
    with pytest.raises(ValueError, match=re.escape(TRAIN)):
        tio.TFRecordDataset(mixed, split="train")
