"""Sets of shards that are incomplete."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from torchrec_io._storage.paths import expand_paths


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def shards(start: str, numbers: Iterable[int], count: int, end: str = "") -> list[str]:
    return [f"{start}-{number:05d}-of-{count:05d}{end}" for number in numbers]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "paths",
    [
        "data", "data/*", "data/a-*-of-*", "data/a-?????-of-00003", "data/a-[0-9]*-of-*",
        "data/a-[0-9][0-9][0-9][0-9][0-9]-of-00003", "da*/a-*", "data/**", ["data/a-*"],
    ],
)  # fmt: skip
def test_a_missing_shard_is_named(folder: Path, paths: str | list[str]) -> None:
    make(folder, *shards("data/a", [0, 2], 3))
    with pytest.raises(FileNotFoundError, match="1 of 3 shards is missing: 'data/a-00001-of-"):
        expand_paths(paths)
    found = expand_paths(paths, allow_missing=True)
    assert [os.path.basename(path) for path in found] == shards("a", [0, 2], 3)
    make(folder, "data/a-00001-of-00003")
    assert len(expand_paths(paths)) == 3


@pytest.mark.parametrize(
    "paths",
    [
        "data/a-0000[0-4]-of-00010", "data/a-*[02468]-of-*", "data/a-[!3]*", "d*/a-00000-of-00010",
        ["data/a-00000-of-00010", "data/a-00004-of-00010"],
    ],
)  # fmt: skip
def test_some_shards_are_asked_for(folder: Path, paths: str | list[str]) -> None:
    make(folder, *shards("data/a", [0, 4], 10))
    assert expand_paths(paths)[0].name == "data/a-00000-of-00010"


@pytest.mark.parametrize(
    ("start", "end"),
    [("a", ""), ("a-train.tfrecord", ".gz"), ("a-7-of-9", ".tfrecord"), ("x.y_z", ".tfrecord.gz")],
)
def test_all_names_of_shards_are_known(folder: Path, start: str, end: str) -> None:
    names = shards(start, [0, 1], 3, end)
    make(folder, *names)
    with pytest.raises(FileNotFoundError, match="1 of 3 shards is missing: ") as caught:
        expand_paths("*")
    assert shards(start, [2], 3, end)[0] in str(caught.value)


def test_few_of_many_missing_shards_are_named(folder: Path) -> None:
    make(folder, *shards("a", [0, 7], 99_999))
    with pytest.raises(
        FileNotFoundError,
        match=r"99,997 of 99,999 shards are missing: '.*a-00001-of-99999', '.*a-00002-of-99999', "
        r"'.*a-00003-of-99999', 99,994 more; restore what is missing, or name the files ",
    ):
        expand_paths(folder)


def test_sets_of_different_names_are_separate(folder: Path) -> None:
    make(folder, *shards("train", [0, 1], 2), *shards("test", [0, 1, 3], 4))
    with pytest.raises(FileNotFoundError, match=r"1 of 4 shards is missing: '.*test-00002-of-"):
        expand_paths("*")
    assert len(expand_paths("train-*")) == 2
    make(folder, *shards("test", [2], 4))
    assert len(expand_paths("*")) == 6


def test_two_sets_of_one_name_are_refused(folder: Path) -> None:
    make(folder, *shards("a", range(3), 3), *shards("a", range(4), 4))
    with pytest.raises(ValueError, match=r"'.*a' has two sets .*, -of-00003 and -of-00004; "):
        expand_paths(folder)
    assert len(expand_paths("a-*-of-00004")) == 4
    assert len(expand_paths(folder, allow_missing=True)) == 7


def test_indexes_and_other_companions_are_no_shards(folder: Path) -> None:
    make(folder, *shards("a", [0], 2), *shards("a", [0, 1], 2, ".tfidx"))
    make(folder, *shards("a", [0, 1], 2, ".idx"), *shards("a", [1], 2, ".md5"))
    with pytest.raises(FileNotFoundError, match=r"1 of 2 shards .*a-00001-of-00002'"):
        expand_paths(folder)
    with pytest.raises(FileNotFoundError, match=r"1 of 2 shards .*a-00001-of-00002'"):
        expand_paths("a-*")


def test_a_set_may_be_partly_compressed(folder: Path) -> None:
    make(folder, *shards("a", [0, 2], 3), *shards("a", [1], 3, ".gz"))
    assert len(expand_paths(folder)) == 3


def test_a_compressed_copy_does_not_stand_for_a_shard_of_another_set(folder: Path) -> None:
    make(folder, *shards("a", [0, 2], 3), *shards("a", [0, 1, 2], 3, ".gz"))
    with pytest.raises(FileNotFoundError, match=r"1 of 3 shards .*a-00001-of-00003'"):
        expand_paths("a-*")


def test_shards_may_be_counted_from_one(folder: Path) -> None:
    make(folder, "a-1-of-3.tfrecord", "a-3-of-3.tfrecord")
    with pytest.raises(FileNotFoundError, match=r"1 of 3 shards .*a-2-of-3\.tfrecord'"):
        expand_paths(folder)
    make(folder, "a-2-of-3.tfrecord")
    assert len(expand_paths(folder)) == 3


def test_names_that_are_not_of_shards(folder: Path) -> None:
    make(folder, "day-31-of-12.tfrecord", "a-1-of-many.tfrecord", f"b-0-of-{10**30}.tfrecord")
    assert len(expand_paths(folder)) == 3


def test_names_of_other_formats(folder: Path) -> None:
    make(folder, *shards("a", [0], 2, ".csv"), *shards("a", [0], 2, ".csv.idx"))
    with pytest.raises(FileNotFoundError, match=r"1 of 2 shards .*a-00001-of-00002\.csv"):
        expand_paths(folder, tfrecord_names=False)


def test_readers_refuse_incomplete_sets(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for name in shards("a", [0, 2], 3):
        write_tfrecord(source / name, [b"x"] * 2)
    readers: list[Callable[..., Any]] = [
        tio.TFRecordDataset,
        tio.TFRecordStream,
        tio.TextLineDataset,
        functools.partial(tio.tools.merge, output=tmp_path / "out"),
    ]
    for read in readers:
        with pytest.raises(FileNotFoundError, match="1 of 3 shards is missing"):
            read(source)
    assert len(list(tio.TFRecordDataset(sorted(source.iterdir())))) == 4
    assert tio.tools.merge(source, tmp_path / "out", allow_missing=True).records == 4
