"""Tests of datasets of TFDS directories: choice of features and their specs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support.tfds import (
    features_dict,
    label,
    numbered,
    sequence,
    tensor,
    text,
    write_tfds,
)
from tests.support.tfds_golden import GOLDEN


def nested(tmp_path: Path) -> Path:
    """Nested features, one of them by a connector of somebody else's."""
    own = {"pythonClassName": "my_project.Molecule", "jsonFeature": {"json": "{}"}}
    features = features_dict(
        **{
            "id": tensor([], "int64"),
            "objects": features_dict(label=label(3), box=tensor([4], "float32")),
            "molecule": own,
            "a/b": text(),
        }
    )
    record = tio.encode_example(
        {
            "id": 7,
            "objects/label": 2,
            "objects/box": np.arange(4, dtype=np.float32),
            "molecule/atoms": [1, 2],
            "molecule/name": b"water",
            "a/b": b"x",
        }
    )
    return write_tfds(tmp_path, {"train": [[record] * 2]}, features)


def test_the_error_for_an_unknown_connector(tmp_path: Path) -> None:
    folder = nested(tmp_path)
    for make in (
        lambda: tio.TFRecordDataset.from_tfds(folder, "train"),
        lambda: tio.Schema.from_tfds(folder),
        lambda: tio.tfds.Directory(folder).schema,
    ):
        with pytest.raises(tio.SchemaError) as caught:
            make()
        assert caught.value.feature == "molecule"
        assert "my_project.Molecule is not a connector of TFDS" in caught.value.reason
        assert "records have 'molecule/atoms', 'molecule/name'" in caught.value.reason
        assert "features={'molecule/atoms': ...}" in caught.value.reason
    for path in folder.glob("data-*"):
        path.unlink()
    with pytest.raises(tio.SchemaError, match=r"features=\{'molecule': \.\.\.\}"):
        tio.Schema.from_tfds(folder)


def sample_of(folder: Path, features: Any) -> dict[str, Any]:
    sample: dict[str, Any] = tio.TFRecordMapDataset.from_tfds(folder, "train", features=features)[0]
    return sample


def test_an_unknown_connector_of_the_whole_dataset(tmp_path: Path) -> None:
    own = {"pythonClassName": "mine.Everything", "jsonFeature": {"json": "{}"}}
    write_tfds(tmp_path, {"train": [numbered(1)]}, own)
    with pytest.raises(
        tio.SchemaError, match=r"mine.Everything is not a connector .* a schema"
    ) as e:
        tio.TFRecordDataset.from_tfds(tmp_path, "train")
    assert e.value.path == str(tmp_path)


def test_features_by_name(tmp_path: Path) -> None:
    folder = nested(tmp_path)
    assert list(sample_of(folder, ["id"])) == ["id"]
    found = sample_of(folder, ["objects", "a/b"])
    assert found["objects"]["label"] == 2
    assert found["a/b"] == b"x"
    assert list(sample_of(folder, ["objects/label"])["objects"]) == ["label"]
    for wrong in (["nothing"], ["objects/nothing"], {"i": None}):
        with pytest.raises(
            ValueError, match=r"has no feature .* its features are 'id', 'objects/label'"
        ):
            sample_of(folder, wrong)
    for none in ("id", 5):
        with pytest.raises(ValueError, match=f"a list of names or a dict, got {none!r}"):
            sample_of(folder, none)
    with pytest.raises(ValueError, match="at least one feature to read"):
        sample_of(folder, [])


def test_features_in_place_of_others(tmp_path: Path) -> None:
    folder = nested(tmp_path)
    found = sample_of(folder, {"molecule": None})
    assert sorted(found) == ["a/b", "id", "objects"]
    found = sample_of(
        folder,
        {
            "molecule/atoms": tio.VarLenFeature("int64"),
            "molecule/name": tio.FixedLenFeature([], "string"),
            "objects/label": tio.FixedLenFeature([], "uint8"),
            "id": None,
        },
    )
    assert found["molecule"]["atoms"].tolist() == [1, 2]
    assert found["molecule"]["name"] == b"water"
    assert found["objects"]["label"].dtype == torch.uint8
    assert "id" not in found
    whole = sample_of(
        folder,
        {"molecule": {"atoms": tio.VarLenFeature("int64")}, "objects": None},
    )
    assert whole["molecule"]["atoms"].tolist() == [1, 2]
    assert "objects" not in whole


def test_a_shard_may_lack_features_that_are_not_read(tmp_path: Path) -> None:
    folder = nested(tmp_path)
    own = json.loads((folder / "features.json").read_text())
    own["featuresDict"]["features"]["new"] = tensor([], "int64")
    (folder / "features.json").write_text(json.dumps(own))
    left_out = {"molecule": None, "new": None}
    assert sample_of(folder, left_out)["id"] == 7
    with pytest.raises(tio.WrongShardError, match="'new'"):
        sample_of(folder, {"molecule": None})
    optional = tio.FixedLenFeature([], "int64", 5)
    assert sample_of(folder, {**left_out, "new": optional})["new"] == 5


def test_facts_of_a_directory() -> None:
    found = tio.tfds.Directory(GOLDEN / "text")
    assert (found.name, found.version, found.config) == ("text", "1.0.0", "")
    assert found.supervised_keys == ("text", "title")
    [split] = found.splits.values()
    assert (split.name, split.num_examples, split.shard_lengths) == ("train", 3, (3,))
    assert split.num_bytes > 0
    assert repr(split) == "SplitInfo('train', 3 records)"
    assert str(GOLDEN / "text" / "1.0.0") in repr(found)


def test_a_dataset_of_one_feature_without_a_name(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1)]}, sequence(text()))
    with pytest.raises(tio.SchemaError, match="one feature without a name"):
        tio.Schema.from_tfds(tmp_path)


def test_a_dataset_of_no_features_or_two_of_one_name(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(1)]}, features_dict(a=features_dict()))
    with pytest.raises(tio.SchemaError, match="the dataset has no features") as caught:
        tio.TFRecordDataset.from_tfds(tmp_path, "train")
    assert caught.value.path == str(tmp_path)
    twice = features_dict(**{"a/id": tensor([], "int64"), "a": features_dict(id=text())})
    (tmp_path / "features.json").write_text(json.dumps(twice))
    makers = (tio.Schema.from_tfds, lambda folder: tio.TFRecordDataset.from_tfds(folder, "train"))
    for make in makers:
        with pytest.raises(tio.SchemaError, match="two features have this flat name") as caught:
            make(tmp_path)
        assert (caught.value.path, caught.value.feature) == (str(tmp_path), "a/id")


def test_a_sequence_of_features_at_the_top(tmp_path: Path) -> None:
    features = sequence(features_dict(n=tensor([], "int64"), s=text()))
    record = tio.encode_example({"n": [1, 2], "s": [b"a", b"b"]})
    write_tfds(tmp_path, {"train": [[record]]}, features)
    [sample] = tio.TFRecordDataset.from_tfds(tmp_path, "train")
    assert sample["n"].tolist() == [1, 2]
    assert sample["s"].tolist() == [b"a", b"b"]
