"""Real files from public repositories are read as TensorFlow reads them.

The README of the files describes the manifest and how it was created.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.conftest import WILD, Wild
from tests.support.messages import Example
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.sequential import iter_records
from torchrec_io.errors import TorchRecIOError

_FILE = WILD / "MANIFEST.json"
MANIFEST: dict[str, Any] = json.loads(_FILE.read_text("utf-8")) if _FILE.is_file() else {}


def entries(section: str) -> pytest.MarkDecorator:
    """Return a test parameter for each entry of the manifest, or none without a manifest."""
    found = MANIFEST.get(section, [])
    return pytest.mark.parametrize("entry", found, ids=[entry["path"] for entry in found])


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_of(wild: Wild, entry: dict[str, Any]) -> Path:
    path: Path = wild.path / str(entry["path"])
    assert sha256(path.read_bytes()) == entry["file_sha256"], "the file itself is damaged"
    return path


def test_files_exist(wild: Wild) -> None:
    assert wild.manifest["format"] == 1
    assert len(wild.manifest["files"]) == len(MANIFEST["files"]) > 70
    assert wild.manifest["not_tfrecord"]


# ---- records ----


def check_payloads(records: list[bytes], entry: dict[str, Any]) -> None:
    assert len(records) == entry["records"]
    assert sum(map(len, records)) == entry["payload_bytes"]
    assert sha256(b"".join(records)) == entry["payload_sha256"]
    for check in entry["check"]:
        assert sha256(records[check["index"]]) == check["payload_sha256"]


@entries("files")
def test_records(wild: Wild, entry: dict[str, Any], tmp_path: Path) -> None:
    path = path_of(wild, entry)
    before = sorted(path.parent.iterdir())
    for shuffle in (False, True):
        dataset = tio.TFRecordDataset(
            path, shuffle=shuffle, batch_size=997, num_threads=1, on_error="skip", with_key=True
        )
        found: list[tuple[int, bytes]] = []
        for keys, batch in dataset:
            offsets = (int(key.removeprefix(f"{path}:")) for key in keys)
            found += zip(offsets, batch, strict=True)
        check_payloads([record for _, record in (sorted(found) if shuffle else found)], entry)
        assert dataset.skipped == ("tf_error" in entry)
        assert dataset.num_records == entry["records"]
    assert sorted(path.parent.iterdir()) == before  # reading creates no files next to the data
    check_reading_without_an_index(path, entry, tmp_path)


def check_reading_without_an_index(path: Path, entry: dict[str, Any], tmp_path: Path) -> None:
    offsets: list[int] = []
    records: list[bytes] = []
    try:
        for offset, record in iter_records(path):
            offsets.append(offset)
            records.append(record)
    except TorchRecIOError:
        assert "tf_error" in entry
    else:
        assert "tf_error" not in entry
    check_payloads(records, entry)
    index = tio.RecordIndex.build(path, allow_damage=True)
    error = index.damage
    assert (error is not None) == ("tf_error" in entry)
    assert index.compression == {"NONE": None, "GZIP": "gzip"}[entry["compression"]]
    assert index.offsets.tolist() == offsets
    assert index.lengths.tolist() == [len(record) for record in records]
    if records:
        assert int(index.lengths.min()) == entry["record_bytes_min"]
        assert int(index.lengths.max()) == entry["record_bytes_max"]
    if error is None:
        again = tio.RecordIndex.load(index.save(tmp_path / "saved.tfidx"), path)
        assert np.array_equal(again.offsets, index.offsets)
        assert np.array_equal(again.lengths, index.lengths)


# ---- Examples ----

DTYPES: dict[str, Any] = {"int64": "int64", "float": "float32", "bytes": "string"}
LISTS = {"int64": "int64_list", "float": "float_list", "bytes": "bytes_list"}


def is_example(entry: dict[str, Any]) -> bool:
    return bool(entry["payload_kind"] == "Example" and entry["records"])


EXAMPLES = [entry for entry in MANIFEST.get("files", []) if is_example(entry)]
examples = pytest.mark.parametrize("entry", EXAMPLES, ids=[entry["path"] for entry in EXAMPLES])


def kind_of(feature: dict[str, Any]) -> str:
    """Return the kind of a feature in a file, or any kind if no list is ever set."""
    kinds = [kind for kind in feature["kinds"] if kind != "none"]
    assert len(kinds) <= 1
    return kinds[0] if kinds else "int64"


def value_list(values: torch.Tensor | tio.BytesArray) -> list[Any]:
    """Convert values to the form of the manifest."""
    if isinstance(values, tio.BytesArray):
        return [value.hex() for value in values.flat()]
    if values.dtype == torch.float32:
        return [struct.pack(">I", bits).hex() for bits in values.view(torch.uint32).tolist()]
    return values.tolist()


def values_sha256(record: dict[str, Any]) -> str:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("ascii"))


@examples
def test_values_of_examples(wild: Wild, entry: dict[str, Any]) -> None:
    path = path_of(wild, entry)
    kinds = {name: kind_of(feature) for name, feature in entry["features"].items()}
    schema = tio.Schema({name: tio.VarLenFeature(DTYPES[kind]) for name, kind in kinds.items()})
    batches = list(tio.TFRecordDataset(path, schema, batch_size=1000, num_threads=1))
    records = [record for _, record in iter_records(path)]
    for check in entry["check"]:
        number, row = divmod(check["index"], 1000)
        # A parsed batch does not distinguish missing and empty features, but protobuf does.
        message = Example.FromString(records[check["index"]]).features.feature
        found: dict[str, Any] = {}
        for name, kind in kinds.items():
            values = value_list(batches[number][name][row])
            if name in message:
                is_set = message[name].WhichOneof("kind") == LISTS[kind]
                found[name] = {"kind": kind if is_set else "none", "values": values}
            assert not values or found[name]["kind"] == kind
        assert values_sha256(found) == check["values_sha256"]
    [whole] = tio.TFRecordDataset(path, schema, batch_size=len(records), num_threads=1)
    check_counts_and_ranges(whole, entry["features"])


def check_counts_and_ranges(batch: tio.Batch, features: dict[str, Any]) -> None:
    """Compare the batch of all records of a file with the facts of its features."""
    for name, feature in features.items():
        lengths = batch[name].lengths
        assert int(lengths.max()) == feature["max_count"]
        if feature["records"] == len(lengths):
            assert int(lengths.min()) == feature["min_count"]
        values = batch[name].values
        if isinstance(values, tio.BytesArray) and len(values):
            sizes = values.offsets.diff()
            assert int(sizes.min()) == feature["min_bytes"]
            assert int(sizes.max()) == feature["max_bytes"]
        elif "min_value" in feature:
            assert int(values.min()) == feature["min_value"]
            assert int(values.max()) == feature["max_value"]
        elif "non_finite" in feature:
            assert int((~values.isfinite()).sum()) == feature["non_finite"]


# ---- SequenceExamples ----

SEQUENCES = [
    entry for entry in MANIFEST.get("files", []) if entry["payload_kind"] == "SequenceExample"
]
sequences = pytest.mark.parametrize("entry", SEQUENCES, ids=[e["path"] for e in SEQUENCES])


def kinds_under(entry: dict[str, Any], part: str) -> dict[str, str]:
    """Return the kind of each context feature or feature list."""
    names = [name for name in entry["features"] if name.startswith(part)]
    return {name.removeprefix(part): kind_of(entry["features"][name]) for name in names}


@sequences
def test_values_of_sequence_examples(wild: Wild, entry: dict[str, Any]) -> None:
    context, lists = kinds_under(entry, "context/"), kinds_under(entry, "feature_lists/")
    schema = tio.Schema(
        context={name: tio.VarLenFeature(DTYPES[kind]) for name, kind in context.items()},
        # A context feature and a feature list with the same name need two names in a batch.
        sequence={
            f"{name} by step": tio.RaggedFeature(DTYPES[kind], value_key=name)
            for name, kind in lists.items()
        },
    )
    records = [record for _, record in iter_records(path_of(wild, entry))]
    batch = tio.parse_sequence_examples(records, schema)
    for check in entry["check"]:
        row = check["index"]
        found = {
            "context": {
                name: {"kind": kind, "values": value_list(batch[name][row])}
                for name, kind in context.items()
            },
            "feature_lists": {
                name: [
                    {"kind": kind, "values": value_list(step)}
                    for step in batch[f"{name} by step"][row]
                ]
                for name, kind in lists.items()
            },
        }
        assert values_sha256(found) == check["values_sha256"]


# ---- other files and text indexes ----


@entries("not_tfrecord")
def test_other_files_are_rejected(wild: Wild, entry: dict[str, Any]) -> None:
    path = path_of(wild, entry)
    with pytest.raises(TorchRecIOError) as caught:
        tio.RecordIndex.build(path)
    assert caught.value.path == str(path)
    with pytest.raises(TorchRecIOError):
        tio.TFRecordDataset(path)
    with pytest.raises(TorchRecIOError):
        next(iter_records(path))
    index = tio.RecordIndex.build(path, allow_damage=True)
    error = index.damage
    assert error is not None
    assert len(index) == 0
    dataset = tio.TFRecordDataset(path, on_error="skip")
    assert list(dataset) == []
    assert dataset.skipped == 1


INDEXES = [entry for entry in MANIFEST.get("companions", []) if entry["path"].endswith(".idx")]


@pytest.mark.parametrize("entry", INDEXES, ids=[entry["path"] for entry in INDEXES])
def test_text_indexes(wild: Wild, entry: dict[str, Any], tmp_path: Path) -> None:
    path = path_of(wild, entry)
    lines = [tuple(map(int, line.split())) for line in path.read_text("ascii").splitlines()]
    assert len(lines) > 10
    # The data files were too large to collect, so use records of the same sizes.
    data = write_tfrecord(tmp_path / "data", (bytes(size - 16) for _, size in lines))
    index = tio.RecordIndex.from_text(path, data)
    assert index.offsets.tolist() == [offset for offset, _ in lines]
    assert index.lengths.tolist() == [size - 16 for _, size in lines]
    assert index.offsets.tolist() == tio.RecordIndex.build(data).offsets.tolist()
    assert index.to_text(tmp_path / "again.idx").read_text("ascii") == path.read_text("ascii")
    assert tio.TFRecordDataset(data, index=path).num_records == len(lines)
