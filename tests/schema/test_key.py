"""Specs that read a stored feature under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.support.images import encoded, noise
from tests.support.inferring import example_of, sequence_of
from tests.support.tfrecord import write_tfrecord

ROWS = tio.RaggedFeature.RowLengths
TENSOR = b"\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04\x00\x00\x80\x3f"
PNG = encoded(noise(5, 4), "PNG")

# Specs without a key, and the value that is stored.
SPECS: dict[str, tuple[type[Any], dict[str, Any], Any]] = {
    "fixed": (tio.FixedLenFeature, {"shape": [2], "dtype": "int32"}, [3, 4]),
    "default": (tio.FixedLenFeature, {"shape": [], "dtype": "string", "default_value": "-"}, b"a"),
    "bits": (tio.FixedLenFeature, {"shape": [], "dtype": "uint64", "bitcast": True}, [-1]),
    "any number": (tio.VarLenFeature, {"dtype": "float32"}, [0.5, 1.5]),
    "padded": (
        tio.FixedLenSequenceFeature,
        {"shape": [2], "dtype": "int64", "allow_missing": True},
        [1, 2, 3, 4],
    ),
    "raw": (tio.RawFeature, {"dtype": "uint8", "shape": [None]}, b"ab"),
    "tensor": (tio.SerializedTensorFeature, {"dtype": "float32"}, TENSOR),
    "image": (tio.ImageFeature, {"size": (2, 3)}, PNG),
    "padded image": (tio.ImageFeature, {"mixed": "pad"}, PNG),
    "bytes of an image": (tio.ImageFeature, {"decoder": None}, PNG),
    "images": (tio.SequenceFeature, {"element": tio.ImageFeature(size=(2, 3))}, [PNG, PNG]),
}


@pytest.mark.parametrize("case", SPECS)
def test_another_name(tmp_path: Path, case: str) -> None:
    kind, arguments, value = SPECS[case]
    plain, renamed = kind(**arguments), kind(**arguments, key="a/b")
    records = [tio.encode_example({"a/b": value, "x": 7.5})] * 3  # its own name is another feature
    path = write_tfrecord(tmp_path / "in", records)
    [expected] = tio.TFRecordDataset(path, {"a/b": plain}, batch_size=3)
    [batch] = tio.TFRecordDataset(path, {"x": renamed}, batch_size=3)
    assert list(batch) == ["x"]
    assert repr(batch["x"]) == repr(expected["a/b"])
    assert [*map(torch.Tensor.tolist, batch.lengths.values())] == [
        *map(torch.Tensor.tolist, expected.lengths.values())
    ]
    # Both names at once, in the dataset and one by one.
    [both] = tio.TFRecordDataset(path, {"a/b": plain, "x": renamed}, batch_size=3)
    sample = tio.parse_example(records[0], {"a/b": plain, "x": renamed})
    assert repr(both["a/b"]) == repr(both["x"])
    assert repr(sample["a/b"]) == repr(sample["x"])
    # The stored bytes, and writing by the schema.
    stored = {"x": renamed.as_stored("x")}
    [sample, *_] = tio.TFRecordDataset(path, stored)
    written = tio.encode_example({"a/b": value})
    assert tio.encode_example(sample) == written
    assert tio.encode_example(dict(sample), tio.Schema(stored)) == written
    assert tio.encode_example({"x": value}, tio.Schema({"x": renamed})) == written


def test_missing_features_are_named_as_they_are_stored() -> None:
    record = tio.encode_example({"image/encoded": PNG})
    match = (
        r"in the stored feature 'image/encodd'; did you mean 'image/encoded'\? "
        r"The record has: 'image/encoded' \(record 0, .*feature 'pixels'\)"
    )
    with pytest.raises(tio.DecodeError, match=match):
        tio.parse_examples([record], {"pixels": tio.ImageFeature(key="image/encodd")})


def test_absent_features_are_named_as_they_are_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_tfrecord(tmp_path / "in", [sequence_of({"id": [1]}, {"words": [[2]]})])
    lists = {"steps": tio.VarLenFeature("int64", key="wrds")}
    list(tio.TFRecordDataset(path, tio.Schema(context={"id": "int64"}, sequence=lists)))
    assert "has the feature 'wrds' of the schema; did you mean 'words'?" in caplog.text


def test_two_views_of_an_image() -> None:
    crop = tio.RandomResizedCrop(group="view")
    features = {
        "large": tio.ImageFeature(key="image/encoded", size=(8, 6), augment=crop),
        "small": tio.ImageFeature(key="image/encoded", size=(4, 3), augment=crop),
        "stored": tio.FixedLenFeature([], "string", key="image/encoded"),
    }
    batch = tio.parse_examples([tio.encode_example({"image/encoded": PNG})] * 2, features)
    assert batch["large"].shape == (2, 3, 8, 6)
    assert batch["small"].shape == (2, 3, 4, 3)
    assert batch["stored"].tolist() == [PNG, PNG]
    assert tio.Schema(features).narrow(["small"]) == tio.Schema({"small": features["small"]})
    with pytest.raises(tio.SchemaError, match="'image/encoded' must be read in one way"):
        tio.Schema({**features, "wrong": tio.VarLenFeature("string", key="image/encoded")})


def test_one_name_in_the_context_and_the_lists() -> None:
    record = sequence_of({"x": [1]}, {"x": [[0.5, 1.0], []]})
    schema = tio.Schema(
        context={"x": "int64"}, sequence={"steps": tio.VarLenFeature("float32", key="x")}
    )
    batch = tio.parse_sequence_examples([record], schema)
    assert (batch["x"].tolist(), batch["steps"].tolist()) == ([1], [[[0.5, 1.0], []]])
    # Whole numbers are stored as the list has them.
    values = {"x": 1}, {"steps": [[1, 2], []]}
    [written] = tio.encode_sequence_examples([values], schema)
    assert written == sequence_of({"x": [1]}, {"x": [[1.0, 2.0], ("float", [])]})
    with pytest.raises(tio.SchemaError, match=r"rename one, with key='x' in its spec"):
        tio.Schema(context={"x": "int64"}, sequence={"x": tio.VarLenFeature("float32")})


def test_one_name_in_both_parts_of_lists_of_examples() -> None:
    record = tio.ranking.encode({"id": 1}, [{"id": 2}, {"id": 3}])
    schema = tio.ranking.Schema(
        context={"query": tio.FixedLenFeature([], "int64", key="id")}, examples={"id": "int64"}
    )
    batch = tio.ranking.parse([record], schema)
    assert (batch["query"].tolist(), batch["id"].tolist()) == ([1], [[2, 3]])


def test_steps_of_renamed_features(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(ids=[1, 2, 3], xs=[0.5] * 6)])
    schema = {
        "steps/id": tio.VarLenFeature("int64", key="ids"),
        "steps/x": tio.FixedLenSequenceFeature([2], "float32", allow_missing=True, key="xs"),
    }
    steps = list(tio.TFRecordDataset(path, schema).steps(group="steps"))
    assert [int(step["steps/id"]) for step in steps] == [1, 2, 3]


@pytest.mark.parametrize("key", ["", 5, "\udfff"])
@pytest.mark.parametrize("case", SPECS)
def test_a_key_is_a_name(case: str, key: Any) -> None:
    kind, arguments, _ = SPECS[case]
    with pytest.raises(tio.SchemaError, match="key must be the name of a feature, got"):
        kind(**arguments, key=key)


def test_places_without_keys(tmp_path: Path) -> None:
    image = tio.ImageFeature(key="x")
    (tmp_path / "x").write_bytes(b"ab")
    with pytest.raises(tio.SchemaError, match="a SequenceFeature excludes key: the sequence has"):
        tio.SequenceFeature(image)
    with pytest.raises(tio.SchemaError, match=r"FixedLenFeature\(\[\], 'string'\), without key"):
        tio.WholeFileDataset(tmp_path / "x", {"image": image})
    with pytest.raises(tio.SchemaError, match="without compression, key, size and augment"):
        raw = tio.RawFeature("uint8", [2], key="x")
        tio.FixedLengthRecordDataset(tmp_path / "x", 2, {"raw": raw})
    with pytest.raises(tio.SchemaError, match="CSV fields have no names"):
        tio.csv.Schema({"a": tio.FixedLenFeature([], "int64", key="x")})


# ---- dtypes in place of specs ----


@pytest.mark.parametrize("dtype", ["int64", "float", "string", torch.float32, torch.bool])
def test_a_dtype_is_the_spec_of_one_value(dtype: Any) -> None:
    expected = tio.Schema({"x": tio.FixedLenFeature([], dtype)})
    assert tio.Schema({"x": dtype}) == expected
    assert tio.Schema(context={"x": dtype})["x"] == expected["x"]
    nested = tio.Schema({"a": {"x": dtype}, "b": tio.VarLenFeature("int64")})
    assert nested["a/x"] == expected["x"]


def test_a_dtype_is_no_feature_list() -> None:
    with pytest.raises(tio.SchemaError, match="a feature list must be one of VarLenFeature"):
        tio.Schema(sequence={"x": "int64"})
