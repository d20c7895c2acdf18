"""Tests of reading dataset_info.json, of finding directories, and of names of shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import Wild
from tests.support.tfds import (
    NUMBERS,
    change_info,
    numbered,
    shard_path,
    write_tfds,
)
from tests.support.tfds_golden import GOLDEN
from torchrec_io._storage.location import Location
from torchrec_io.tfds import info as info_module
from torchrec_io.tfds.info import DatasetInfo, read_info
from torchrec_io.tfds.json_text import Node
from torchrec_io.tfds.templates import ShardTemplate


def read(folder: Path, **info: Any) -> DatasetInfo:
    (folder / "dataset_info.json").write_text(json.dumps(info))
    return read_info(Location.of(folder))


def refusal(folder: Path, **info: Any) -> str:
    with pytest.raises(tio.SchemaError) as caught:
        read(folder, **info)
    assert caught.value.path == str(folder / "dataset_info.json")
    return caught.value.reason


# ---- dataset_info.json ----


def test_contents_of_the_file(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        name="x",
        configName="c",
        version="1.2.3",
        description="words",
        fileFormat="array_record",
        alternativeFileFormats=["tfrecord"],  # there are TFRecord files, too
        supervisedKeys={"input": "a", "output": "b"},
        splits=[
            {"name": "train", "shardLengths": ["3", 4], "numBytes": "70"},
            {"name": "test", "num_shards": "2", "statistics": {"numExamples": "9"}},
            {"name": "none"},
        ],
    )
    assert (found.name, found.config, found.version) == ("x", "c", "1.2.3")
    assert found.description == "words"
    assert found.supervised_keys == ("a", "b")
    train, test, none = found.splits.values()
    assert (train.shard_lengths, train.num_bytes) == ((3, 4), 70)
    assert (test.shard_lengths, test.num_shards, test.num_examples) == (None, 2, 9)
    assert (none.shard_lengths, none.num_shards, none.num_examples) == ((), None, None)


def test_keys_nested_in_tuples_and_dicts(tmp_path: Path) -> None:
    inner = {"tuple": {"items": [{"featureKey": "a"}, {"featureKey": "b"}]}}
    of_dict = {"dict": {"dict": {"z": {"featureKey": "c"}, "y": inner}}}
    found = read(tmp_path, supervisedKeys={"tuple": {"items": [inner, of_dict]}})
    assert found.supervised_keys == (("a", "b"), {"y": ("a", "b"), "z": "c"})
    assert read(tmp_path).supervised_keys is None


def test_invalid_dataset_info(tmp_path: Path) -> None:
    assert "splits[0].shardLengths[1]: must be an integer from 0" in refusal(
        tmp_path, splits=[{"name": "a", "shardLengths": ["1", "-1"]}]
    )
    assert "must be a list" in refusal(tmp_path, splits=[{"name": "a", "shardLengths": "12"}])
    assert "a split must have at most 4611686018427387904 records" in refusal(
        tmp_path, splits=[{"name": "a", "shardLengths": [2**61] * 4}]
    )
    assert "splits must have different names" in refusal(tmp_path, splits=[{"name": "a"}] * 2)
    assert "the name of a split must not be empty" in refusal(tmp_path, splits=[{"name": ""}])
    assert "'name' is missing" in refusal(tmp_path, splits=[{}])
    nest: Any = {"featureKey": "a"}
    for _ in range(70):
        nest = {"tuple": {"items": [nest]}}
    assert "nested more than 64 levels deep" in refusal(tmp_path, supervisedKeys=nest)


def test_more_shards_than_there_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info_module, "_MOST_SHARDS", 2)
    two = [{"name": "a", "shardLengths": [1, 1]}]
    assert read(tmp_path, splits=two).splits["a"].shard_lengths == (1, 1)
    two[0]["shardLengths"] = [1, 1, 0]
    assert "splits[0]: a split must have at most 2 shards, got 3" in refusal(tmp_path, splits=two)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    with open(tmp_path / "dataset_info.json", "wb") as file:
        file.truncate((32 << 20) + 1)
    with pytest.raises(tio.SchemaError, match="more than 33554432 bytes"):
        read_info(Location.of(tmp_path))


@pytest.mark.parametrize("form", ["array_record", "bagz"])
def test_files_of_another_format(form: str, tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1)]}, fileFormat=form)
    with pytest.raises(tio.SchemaError, match=f"{form}.*tfds convert_format") as caught:
        tio.tfds.Directory(tmp_path)
    assert caught.value.path == str(tmp_path / "dataset_info.json")


def test_features_may_be_in_it(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1, 2)]}, None, features=NUMBERS)
    assert dict(tio.Schema.from_tfds(tmp_path)) == {
        "id": tio.FixedLenFeature([], "int64"),
        "text": tio.FixedLenFeature([], "string"),
    }


# ---- directories ----


def test_configs_and_versions() -> None:
    folder = GOLDEN / "configs"
    assert tio.tfds.Directory(folder, "small").version == "1.10.0"  # by number, not by text
    assert tio.tfds.Directory(folder / "small").version == "1.10.0"
    assert tio.tfds.Directory(folder / "small", "small", "1.9.0").version == "1.9.0"
    assert tio.tfds.Directory(folder, config="large").config == "large"
    assert tio.tfds.Directory(folder / "small" / "1.0.0", "small", "1.0.0").version == "1.0.0"
    wrong: list[tuple[tuple[Any, ...], str]] = [
        ((folder,), "config is required, and must be one of 'large', 'small'"),
        ((folder, "tiny"), "config must be one of 'large', 'small', got 'tiny'"),
        ((folder, "small", "3.0.0"), "version must be one of '1.0.0', '1.9.0', '1.10.0', got"),
        ((folder / "small", "large"), "config must be None, because .*, got 'large'"),
        ((folder / "small" / "1.0.0", "large"), "config must be 'small', got 'large'"),
        ((folder / "small" / "1.0.0", None, "1.9.0"), "version must be '1.0.0', got '1.9.0'"),
    ]
    for arguments, reason in wrong:
        with pytest.raises(ValueError, match=reason):
            tio.tfds.Directory(*arguments)


def test_the_only_config_is_meant(tmp_path: Path) -> None:
    write_tfds(tmp_path / "a" / "1.0.0", {"train": [numbered(1)]})
    (tmp_path / "b" / "1.0.0").mkdir(parents=True)  # without a dataset_info.json
    (tmp_path / "downloads").mkdir()
    assert tio.tfds.Directory(tmp_path).path == str(tmp_path / "a" / "1.0.0")


def test_a_directory_of_any_name(tmp_path: Path) -> None:
    write_tfds(tmp_path / "mine", {"train": [numbered(1)]}, configName="c")
    assert tio.tfds.Directory(tmp_path / "mine", "c", "1.0.0").version == "1.0.0"
    with pytest.raises(ValueError, match=r"version must be '1\.0\.0', got '2\.0\.0'"):
        tio.tfds.Directory(tmp_path / "mine", "c", "2.0.0")


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_tfds(tmp_path / "data" / "1.0.0", {"train": [numbered(1)]})
    assert tio.tfds.Directory("~/data").path == str(tmp_path / "data" / "1.0.0")


def test_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no dataset_info\.json in this directory"):
        tio.tfds.Directory(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tio.tfds.Directory(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        tio.tfds.Directory(tmp_path / "file")


# ---- names of shards ----


def template(text: str, dataset: str = "data", split: str = "train") -> ShardTemplate:
    return ShardTemplate(text, dataset, split, Node(None, "dataset_info.json", "splits"))


def test_names_of_shards() -> None:
    assert template("").paths(2) == [
        "data-train.tfrecord-00000-of-00002",
        "data-train.tfrecord-00001-of-00002",
    ]
    text = "{SPLIT}/{DATASET}_{SHARD_INDEX}.{NUM_SHARDS}.{FILEFORMAT}"
    assert template(text).paths(1) == ["train/data_00000.00001.tfrecord"]
    # What stands behind a "%" says how to read the file.
    assert template("x-{SHARD_X_OF_Y}%GZIP").paths(1) == ["x-00000-of-00001"]
    assert template("x").paths(1) == ["x"]
    assert template("")._path(7, 123_456) == "data-train.tfrecord-000007-of-123456"
    # What is filled in is not looked at again.
    assert template("{SPLIT}-{SHARD_INDEX}", split="{DATASET}").paths(1) == ["{DATASET}-00000"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{SHARD_X_OF_Y.__class__}", "a brace that does not belong to a variable"),
        ("{}", "a brace that does not belong to a variable"),
        ("{{SHARD_INDEX}", "a brace that does not belong to a variable"),
        ("{SHARD_INDEX!r:>1000000000}", "a brace that does not belong to a variable"),
        ("{SHARDS}", "an unknown variable, SHARDS"),
        ("../{SHARD_INDEX}", "leads out of"),
        ("a/../../{SHARD_INDEX}", "leads out of"),
        ("/etc/{SHARD_INDEX}", "is not a valid path in"),
        ("a\0{SHARD_INDEX}", "is not a valid path in"),
        ("..\\{SHARD_INDEX}", "is not a valid path in"),
        ("{SHARD_INDEX}/", "is not a valid path in"),
        ("%x", "is not a valid path in"),
        ("same", "must contain the number of the shard"),
    ],
)
def test_invalid_templates(text: str, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        template(text).paths(2)


def test_names_that_lead_out() -> None:
    with pytest.raises(tio.SchemaError, match="leads out of"):
        template("{DATASET}-{SHARD_INDEX}", dataset="../../x").paths(1)
    with pytest.raises(tio.SchemaError, match="leads out of"):
        template("{SPLIT}/{SHARD_INDEX}", split="..").paths(1)


@given(text=st.text(alphabet="{}/.%\\A_SPLITx0!:\0", max_size=30))
def test_any_template_stays_inside(text: str) -> None:
    try:
        [path] = template(text).paths(1)
    except tio.SchemaError:
        return
    assert not path.startswith("/")
    assert ".." not in path.split("/")
    assert "\0" not in path


# ---- directories of old ----


def test_shards_whose_records_are_not_counted(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1, 2), numbered(3)]})
    change_info(tmp_path, shardLengths=None, numShards="2", numBytes=None)
    found = tio.tfds.Directory(tmp_path).splits["train"]
    assert (found.shard_lengths, found.num_examples) == (None, None)
    assert list(found.shards().lengths) == [2, 1]
    moved = shard_path(tmp_path, "train", 0, 2).rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"shards are missing \(1 of 2\)"):
        tio.TFRecordDataset.from_tfds(tmp_path, "train")
    moved.rename(shard_path(tmp_path, "train", 0, 2))
    change_info(tmp_path, statistics={"numExamples": "3"})
    assert tio.tfds.Directory(tmp_path).splits["train"].num_examples == 3
    change_info(tmp_path, statistics={"numExamples": "4"})
    with pytest.raises(tio.WrongShardError, match=r"have 3 records, but dataset_info\.json says 4"):
        tio.TFRecordDataset.from_tfds(tmp_path, "train")


def test_shards_whose_number_is_not_known(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1, 2), numbered(3)], "train-b": [numbered(4)]})
    change_info(tmp_path, shardLengths=None, filepathTemplate=None)
    found = tio.tfds.Directory(tmp_path).splits["train"]
    assert [Path(path).name for path in found.paths] == [
        "data-train.tfrecord-00000-of-00002",
        "data-train.tfrecord-00001-of-00002",
    ]
    shard_path(tmp_path, "train", 1, 2).unlink()
    with pytest.raises(FileNotFoundError, match="shards of split 'train' are missing"):
        tio.TFRecordDataset.from_tfds(tmp_path, "train")


def test_a_split_without_facts_is_empty(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"test": [], "train": [numbered(1, 2)]})
    change_info(tmp_path, shardLengths=None, numBytes=None)
    found = tio.tfds.Directory(tmp_path).splits["test"]
    assert (found.shard_lengths, found.paths) == ((), ())
    assert len(tio.TFRecordDataset.from_tfds(tmp_path, "all")) == 2
    with pytest.raises(ValueError, match=r"has no records; the splits are 'test' \(0 records\)"):
        tio.TFRecordDataset.from_tfds(tmp_path, "test")
    # Where nothing is said of any split, its shards are looked for.
    change_info(tmp_path, 1, shardLengths=None)
    with pytest.raises(FileNotFoundError, match="shards of split 'test' are missing"):
        tio.TFRecordDataset.from_tfds(tmp_path, "test")


def test_more_shards_than_files(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1)]})
    change_info(tmp_path, shardLengths=None, numShards=str(10**12))
    with pytest.raises(
        FileNotFoundError,
        match="shards of split 'train' are missing: it has 1,000,000,000,000 shards",
    ):
        tio.TFRecordDataset.from_tfds(tmp_path, "train")


@pytest.mark.parametrize(("name", "version"), [("c4/en", "2.3.0"), ("squad/v1.1", "3.0.0")])
def test_real_directories_of_old(name: str, version: str, wild: Wild) -> None:
    folder = wild.path / "google__trax" / "trax" / "data" / "testdata" / name
    found = tio.tfds.Directory(folder)
    assert found.features is None
    assert (found.version, {*found.splits}) == (version, {"train", "validation"})
    keys = {"c4/en": "content-length", "squad/v1.1": "answers/answer_start"}
    assert keys[name] in found.schema
    dataset = tio.TFRecordDataset.from_tfds(folder, "all")
    assert len(dataset) == 20
    assert sum(1 for _ in dataset) == 20
