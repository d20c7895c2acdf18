"""Tests of datasets of TFDS directories: records, and shards that do not match."""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.conftest import Wild
from tests.support.states import through_json
from tests.support.tfds import (
    change_info,
    features_dict,
    numbered,
    sequence,
    shard_path,
    tensor,
    text,
    write_shard,
    write_tfds,
)
from tests.support.tfrecord import frame
from torchrec_io._records.index_cache import IndexSearch

SHARDS = [numbered(*range(5)), numbered(*range(5, 12)), [], numbered(*range(12, 20))]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Twenty records in four shards, and three in another split."""
    return write_tfds(tmp_path / "1.0.0", {"train": SHARDS, "test": [numbered(100, 101, 102)]})


def ids(dataset: Any) -> list[int]:
    return [int(sample["id"]) for sample in dataset]


# ---- which records ----


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", [*range(20)]),
        ("train[:25%]", [*range(5)]),
        ("train[4:13]", [*range(4, 13)]),
        ("train[1shard:]", [*range(5, 20)]),
        ("train[-1shard:]+test", [*range(12, 20), 100, 101, 102]),
        ("train[:2]+train[-2:]+train[:1]", [0, 1, 18, 19, 0]),
        ("train[50%:]+train[:50%]", [*range(10, 20), *range(10)]),
        ("all", [*range(20), 100, 101, 102]),
    ],
)
def test_records_and_their_order(data: Path, split: str, expected: list[int]) -> None:
    assert ids(tio.TFRecordDataset.from_tfds(data, split)) == expected
    dataset = tio.TFRecordMapDataset.from_tfds(data, split)
    assert len(dataset) == len(expected)
    assert ids(dataset) == expected
    shuffled = tio.TFRecordDataset.from_tfds(data, split, shuffle=True)
    assert sorted(ids(shuffled)) == sorted(expected)
    assert ids(shuffled) != expected or len(expected) < 3


def test_no_records(data: Path) -> None:
    with pytest.raises(
        ValueError, match=r"'train\[:0\]' has no records; the splits are 'train' \(20"
    ):
        tio.TFRecordDataset.from_tfds(data, "train[:0]")
    with pytest.raises(
        ValueError, match=r"'dev' does not exist; the splits are 'train' \(20 records\), 'test' \(3"
    ):
        tio.TFRecordDataset.from_tfds(data, "dev")


def test_a_real_directory_is_read_like_tfds_does(wild: Wild) -> None:
    [told] = [entry for entry in wild.manifest["tfds"] if entry["has_features_json"]]
    dataset = tio.TFRecordDataset.from_tfds(wild.path / told["dir"], "train")
    assert len(dataset) == 10
    for sample, expected in zip(dataset, told["decoded"]["train"], strict=False):
        assert sorted(sample) == sorted(expected)
        for name, leaf in expected.items():
            content = json.dumps([sample[name].hex()], separators=(",", ":")).encode()
            assert hashlib.sha256(content).hexdigest() == leaf["sha256"]


# ---- like any other dataset ----


def test_batches_and_options(data: Path) -> None:
    dataset = tio.TFRecordDataset.from_tfds(
        data, "train", batch_size=8, drop_last=True, shuffle=4, seed=3, with_key=True
    )
    (keys, batch), _ = dataset
    assert len(keys) == 8
    assert keys[0].startswith(str(data / "data-train.tfrecord-0"))
    assert batch["id"].shape == (8,)
    assert isinstance(dataset, tio.TFRecordDataset)
    assert dataset.paths == [str(shard_path(data, "train", n, 4)) for n in (0, 1, 3)]
    assert ids(
        dataset.replace(batch_size=None, drop_last=False, shuffle=False, with_key=False)
    ) == [*range(20)]
    with pytest.raises(ValueError, match="batch_size"):
        tio.TFRecordDataset.from_tfds(data, "train", batch_size=0)
    with pytest.raises(ValueError, match="shuffle"):
        tio.TFRecordDataset.from_tfds(data, "train", shuffle="yes")  # type: ignore[call-overload]


def test_states_fit_whether_shards_were_read_or_not(data: Path) -> None:
    dataset = tio.TFRecordDataset.from_tfds(data, "train", shuffle=True)
    iterator = iter(dataset)
    first = [int(next(iterator)["id"]) for _ in range(9)]
    state = through_json(dataset.state_dict())
    fresh = tio.TFRecordDataset.from_tfds(data, "train", shuffle=True)
    fresh.load_state_dict(state)
    assert sorted(first + ids(fresh)) == [*range(20)]
    with pytest.raises(tio.StateMismatchError):
        other = tio.TFRecordDataset.from_tfds(data, "train[:19]", shuffle=True)
        other.load_state_dict(state)
        next(iter(other))


def test_states_distinguish_datasets_of_the_same_size(tmp_path: Path) -> None:
    shards = {"train": [numbered(10, 11)], "test": [numbered(12, 13)]}
    data = write_tfds(tmp_path / "1", shards)
    state = tio.TFRecordDataset.from_tfds(data, "train").state_dict()
    with pytest.raises(
        tio.StateMismatchError, match=r"files is 'data:1.0.0 test \w+' here and 'data:1.0.0 train "
    ):
        tio.TFRecordDataset.from_tfds(data, "test").load_state_dict(state)
    newer = write_tfds(tmp_path / "2", shards, version="1.0.1", config_name="all")
    with pytest.raises(tio.StateMismatchError, match=r"files is 'data/all:1.0.1 train \w+' here"):
        tio.TFRecordDataset.from_tfds(newer, "train").load_state_dict(state)


def test_a_worker_that_gets_a_pickled_dataset(data: Path) -> None:
    dataset = tio.TFRecordDataset.from_tfds(data, "train", batch_size=4)
    next(iter(dataset))  # one shard is indexed by now
    loader = DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context="forkserver"
    )
    assert torch.cat([batch["id"] for batch in loader]).tolist() == [*range(20)]


def test_a_pickled_one_looks_at_no_shard(data: Path) -> None:
    # A worker that fails as it starts could not say why.
    dataset = tio.TFRecordDataset.from_tfds(data, "train")
    list(dataset)
    pickled = pickle.dumps(dataset)
    path = shard_path(data, "train", 1, 4)
    path.unlink()
    unpickled = pickle.loads(pickled)
    with pytest.raises(FileNotFoundError, match=path.name):
        list(unpickled)


# ---- shards that are not what is said ----


def test_nothing_is_indexed_before_it_is_needed(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []
    find_or_build = IndexSearch.find_or_build

    def noted(search: IndexSearch) -> Any:
        used.append(search.file.basename)
        return find_or_build(search)

    monkeypatch.setattr(IndexSearch, "find_or_build", noted)
    dataset = tio.TFRecordMapDataset.from_tfds(data, "train")
    assert used == []
    assert dataset[5]["id"] == 5
    assert used == ["data-train.tfrecord-00001-of-00004"]
    # The size may also be said of the files.
    size = sum(path.stat().st_size for path in data.glob("data-train*"))
    change_info(data, numBytes=str(size))
    used.clear()
    tio.TFRecordDataset.from_tfds(data, "train")
    assert used == []


@pytest.mark.parametrize(("has_lengths", "is_cached"), [(True, False), (False, True)])
def test_shards_without_right_checksums(
    data: Path, monkeypatch: pytest.MonkeyPatch, *, has_lengths: bool, is_cached: bool
) -> None:
    for path in data.glob("*-of-*"):
        frames = [frame(record) for record in tio.TFRecordDataset(path)]
        path.write_bytes(b"".join(each[:8] + bytes(4) + each[12:-4] + bytes(4) for each in frames))
    if not has_lengths:
        change_info(data, shardLengths=None)
    if not is_cached:
        monkeypatch.setenv("TORCHREC_IO_CACHE", str(data / "features.json"))
    for open_tfds in (tio.TFRecordDataset.from_tfds, tio.TFRecordMapDataset.from_tfds):
        assert ids(open_tfds(data, "train", verify_crc=False)) == [*range(20)]
        with pytest.raises(tio.CorruptRecordError, match="length does not match its checksum"):
            ids(open_tfds(data, "train"))


def test_without_stored_indexes_all_are_built_at_once(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not by each worker, in each epoch.
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(data / "features.json"))
    dataset = tio.TFRecordDataset.from_tfds(data, "train")
    monkeypatch.setattr(IndexSearch, "find_or_build", None)
    assert ids(dataset) == [*range(20)]
    assert ids(pickle.loads(pickle.dumps(dataset))) == [*range(20)]


def test_missing_shards_are_named_at_once(data: Path) -> None:
    for number in (0, 3):
        shard_path(data, "train", number, 4).unlink()
    with pytest.raises(FileNotFoundError, match=r"shards are missing \(2 of 3\)") as caught:
        tio.TFRecordDataset.from_tfds(data, "train")
    assert "data-train.tfrecord-00000-of-00004, " in str(caught.value)
    # Those that are not needed may be missing. Then nobody knows whether the others are whole.
    assert ids(tio.TFRecordDataset.from_tfds(data, "train[5:10]")) == [*range(5, 10)]
    assert ids(tio.TFRecordDataset.from_tfds(data, "test")) == [100, 101, 102]


def test_an_empty_shard_may_be_missing(data: Path) -> None:
    shard_path(data, "train", 2, 4).unlink()
    assert ids(tio.TFRecordDataset.from_tfds(data, "train")) == [*range(20)]


def test_a_shard_without_records_must_be_empty(data: Path) -> None:
    path = shard_path(data, "train", 2, 4)
    size = write_shard(path, numbered(1, 2)) + 2 * 16
    with pytest.raises(tio.WrongShardError, match=f"has {size} bytes, .*no records") as caught:
        tio.TFRecordDataset.from_tfds(data, "train")
    assert caught.value.path == str(path)


def test_a_short_shard_is_found_at_once(data: Path) -> None:
    path = shard_path(data, "train", 1, 4)
    write_shard(path, SHARDS[1][:-1])
    with pytest.raises(
        tio.WrongShardError, match=r"has 6 records, but dataset_info\.json says 7"
    ) as caught:
        tio.TFRecordDataset.from_tfds(data, "train")
    assert caught.value.path == str(path)
    with pytest.raises(tio.WrongShardError):
        tio.TFRecordMapDataset.from_tfds(data, "train")
    # Only what is needed is looked at.
    assert ids(tio.TFRecordDataset.from_tfds(data, "train[:5]")) == [*range(5)]


def test_a_cut_shard_is_found_at_once(data: Path) -> None:
    path = shard_path(data, "train", 3, 4)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(tio.TruncatedFileError) as caught:
        tio.TFRecordDataset.from_tfds(data, "train")
    assert caught.value.path == str(path)


@pytest.mark.parametrize("size", ["0", None])
def test_without_a_size_everything_is_counted(data: Path, size: str | None) -> None:
    change_info(data, numBytes=size)
    assert ids(tio.TFRecordDataset.from_tfds(data, "train")) == [*range(20)]
    write_shard(shard_path(data, "train", 0, 4), SHARDS[0] * 2)
    with pytest.raises(tio.WrongShardError, match="has 10 records"):
        tio.TFRecordDataset.from_tfds(data, "train")


def test_swapped_shards_are_found_when_read(data: Path) -> None:
    first, second = (shard_path(data, "train", number, 4) for number in (0, 1))
    content = first.read_bytes(), second.read_bytes()
    first.write_bytes(content[1])
    second.write_bytes(content[0])
    dataset = tio.TFRecordDataset.from_tfds(data, "train")  # of the right size all together
    with pytest.raises(tio.WrongShardError, match="has 7 records") as caught:
        list(dataset)
    assert caught.value.path == str(first)


def test_a_shard_of_another_dataset_is_found_when_read(data: Path) -> None:
    path = shard_path(data, "test", 0, 1)
    write_shard(path, [tio.encode_example({"x": number, "y": "z"}) for number in range(3)])
    change_info(data, 1, numBytes=str(path.stat().st_size))  # so that nothing seems wrong
    dataset = tio.TFRecordDataset.from_tfds(data, "test")
    with pytest.raises(tio.WrongShardError, match="a shard of another dataset") as caught:
        list(dataset)
    error = caught.value
    assert (error.path, error.record, error.feature) == (str(path), 0, "id")
    assert "have 'id', 'text', but the first record of this file has 'x'" in error.reason


def test_records_of_lists_alone_have_one_of_them_at_least(tmp_path: Path) -> None:
    """A list that is missing is an empty one; all of them are if the data is another dataset's."""
    structure = features_dict(a=sequence(tensor([], "int64")), b=sequence(text()))
    some, other = tio.encode_example({"b": ["x"]}), tio.encode_example({"x": [1]})
    data = write_tfds(tmp_path / "data", {"train": [[some]], "test": [[other]]}, structure)
    only = tio.TFRecordDataset.from_tfds(data, "train", features=["a"])
    assert [sample["a"].tolist() for sample in only] == [[]]
    with pytest.raises(
        tio.WrongShardError, match="records of the dataset have 'a', 'b', but the first"
    ):
        list(tio.TFRecordDataset.from_tfds(data, "test", features=["a"]))


def test_a_damaged_first_record_is_reported_like_any_other(data: Path) -> None:
    path = shard_path(data, "test", 0, 1)
    path.write_bytes(path.read_bytes().replace(b"text", b"next", 1))  # a name it should have
    dataset = tio.TFRecordDataset.from_tfds(data, "test")
    with pytest.raises(tio.CorruptRecordError, match="checksum"):
        list(dataset)
    assert ids(dataset.replace(on_error="skip")) == [101, 102]


def test_a_shard_that_changed_after_it_was_opened(data: Path) -> None:
    dataset = tio.TFRecordDataset.from_tfds(data, "test")
    write_shard(shard_path(data, "test", 0, 1), numbered(*range(3)) + numbered(1000))
    with pytest.raises(tio.StaleIndexError, match="when the dataset was opened, but has"):
        list(dataset)


@pytest.mark.parametrize(("suffix", "counted"), [("", False), (".gz", True)])
def test_compressed_shards(data: Path, suffix: str, counted: bool) -> None:
    """TFDS does not write them. Files are read as they are, with the suffix of gzip or without."""
    plain = tio.TFRecordDataset.from_tfds(data, "train[3:15]", shuffle=True, seed=1)
    expected = ids(plain)
    if not counted:
        change_info(data, shardLengths=None)
    for path in data.glob("*.tfrecord*"):
        content = path.read_bytes()
        path.unlink()
        path.with_name(path.name + suffix).write_bytes(gzip.compress(content))
    dataset = tio.TFRecordDataset.from_tfds(data, "train[3:15]", shuffle=True, seed=1)
    assert ids(pickle.loads(pickle.dumps(dataset))) == expected
    assert ids(dataset) == expected
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(ids(loader)) == [*range(3, 15)]
    whole = tio.TFRecordMapDataset.from_tfds(data, "train")
    assert [int(whole[number]["id"]) for number in (19, 0, 7)] == [19, 0, 7]


@pytest.mark.parametrize("counted", [True, False])
def test_shards_that_are_there_twice(data: Path, counted: bool) -> None:
    if not counted:
        change_info(data, shardLengths=None)
    for path in [*data.glob("*.tfrecord*")]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert ids(tio.TFRecordDataset.from_tfds(data, "train")) == [*range(20)]


def test_compressed_shards_of_another_dataset(data: Path) -> None:
    path = shard_path(data, "test", 0, 1)
    write_shard(path, [tio.encode_example({"x": number, "y": "z"}) for number in range(3)])
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(tio.WrongShardError, match="a shard of another dataset"):
        tio.TFRecordDataset.from_tfds(data, "test")


def test_a_copied_directory_is_read_as_the_first(data: Path, tmp_path: Path) -> None:
    dataset = tio.TFRecordDataset.from_tfds(data, "train", shuffle=True)
    copied = shutil.copytree(data, tmp_path / "copy" / "1.0.0")
    other = tio.TFRecordDataset.from_tfds(copied, "train", shuffle=True)
    next(iter(dataset))
    other.load_state_dict(through_json(dataset.state_dict()))
    assert ids(other) == ids(dataset)[1:]
