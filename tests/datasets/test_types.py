"""What type checkers know about the items of datasets and loaders, compared with what they are.

``make types`` checks this file with mypy and pyright: ``assert_type`` holds for the types, and each
``type: ignore`` is needed.
"""

from pathlib import Path
from typing import Any, assert_type

import pytest
import torch
from torch.utils.data import Subset

import torchrec_io as tio
from torchrec_io.errors import SchemaError

SCHEMA = {"a": tio.FixedLenFeature([], "int64"), "r": tio.VarLenFeature(torch.float32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "x.tfrecord"
    with tio.TFRecordWriter(file) as writer:
        for number in range(1, 9):
            writer.write({"a": number, "r": [0.5] * number})
    return file


def test_items_of_datasets(path: Path) -> None:
    for batch in tio.TFRecordDataset(path, SCHEMA, batch_size=4, shuffle=True):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)
    for batch in tio.TFRecordDataset(path, SCHEMA, batch_tokens=16, length_key="r"):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)
    for batch in tio.TFRecordStream(path, tio.Schema(SCHEMA), batch_size=4):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)
    for sample in tio.TFRecordDataset(path, SCHEMA, num_threads=1):
        assert isinstance(assert_type(sample, tio.Sample), tio.Sample)
    for anything in tio.TFRecordDataset(path, SCHEMA, batch_size=4, with_key=True):
        assert isinstance(assert_type(anything, Any)[1], tio.Batch)


def test_items_of_datasets_made_from_others(path: Path) -> None:
    samples = tio.TFRecordDataset(path, SCHEMA)
    for half in samples.split(0.5, 0.5):
        assert isinstance(assert_type(next(iter(half)), tio.Sample), tio.Sample)
    kept = samples.where(lambda batch: batch["a"] > 4).replace(shuffle=True)
    assert isinstance(assert_type(next(iter(kept)), tio.Sample), tio.Sample)
    anything = next(iter(samples.replace(batch_size=4)))
    assert isinstance(assert_type(anything, Any), tio.Batch)
    mixed = tio.mix([samples, samples], weights=[1, 1], batch_size=4)
    assert isinstance(assert_type(next(iter(mixed)), tio.Batch), tio.Batch)


def test_items_of_loaders(path: Path) -> None:
    samples = tio.TFRecordDataset(path, SCHEMA)
    for batch in tio.make_loader(samples, batch_size=4):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)
    for batch in tio.make_loader(tio.TFRecordDataset(path, SCHEMA, batch_size=4)):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)
    for sample in tio.make_loader(samples):
        assert isinstance(assert_type(sample, tio.Sample), tio.Sample)
    records = tio.TFRecordMapDataset(path, SCHEMA)
    assert isinstance(assert_type(records[0], tio.Sample), tio.Sample)
    for batch in tio.make_loader(Subset(records, [1, 2]), batch_size=2):
        assert isinstance(assert_type(batch, tio.Batch), tio.Batch)

    def labels(batch: tio.Batch) -> torch.Tensor:
        return batch.tensor("a")

    for collated in tio.make_loader(samples, batch_size=4, collate_fn=labels):
        assert assert_type(collated, torch.Tensor).dtype == torch.int64


def test_columns(path: Path) -> None:
    batch = next(iter(tio.TFRecordDataset(path, SCHEMA, batch_size=4)))
    assert assert_type(batch.tensor("a"), torch.Tensor).tolist() == [1, 2, 3, 4]
    assert assert_type(batch.ragged("r"), tio.Ragged) is batch["r"]
    with pytest.raises(TypeError, match="the column 'r' must be a Tensor, got a Ragged"):
        batch.tensor("r")
    with pytest.raises(KeyError, match="'b'"):
        batch.ragged("b")


def test_nested_columns_have_flat_names() -> None:
    record = tio.encode_example({"o/a": 1})
    batch = tio.parse_examples([record], {"o": {"a": tio.FixedLenFeature([], "int64")}})
    assert batch.tensor("o/a") is batch["o"]["a"]


def test_misspelled_dtypes() -> None:
    with pytest.raises(SchemaError, match="int46"):
        tio.FixedLenFeature([], "int46")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="int46"):
        tio.VarLenFeature("int46")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="string"):
        tio.RawFeature("string", [1])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="int8"):
        tio.RaggedFeature("int64", row_splits_dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="int64"):
        tio.ImageFeature(dtype="int64")  # type: ignore[arg-type]


def test_internal_names_are_hidden(path: Path) -> None:
    """Completion shows the names on the API page."""
    shown = {
        *("paths", "schema", "batch_size", "num_records", "skipped", "repeated", "stats"),
        *("set_epoch", "state_dict", "load_state_dict", "resume"),
        *("split", "where", "select", "take", "steps", "replace", "from_tfds"),
    }
    from_torch = set(dir(torch.utils.data.IterableDataset)) | {"functions"}
    for completed in (tio.TFRecordDataset(path), tio.TFRecordDataset):
        names = {name for name in dir(completed) if not name.startswith("_")}
        assert names - from_torch == shown
