"""Feature kinds that are defined outside of this package."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.toy_features import DigitsFeature, OneHotFeature

FEATURES: dict[str, Any] = {
    "id": tio.FixedLenFeature([], "int64"),
    "pair": DigitsFeature(2),
    "nested": {"any": DigitsFeature(dtype="float64"), "label": OneHotFeature(3, key="class")},
    "rows": tio.SequenceFeature(DigitsFeature(2)),
}
SCHEMA = tio.Schema(FEATURES)


def record_of(number: int) -> bytes:
    return tio.encode_example(
        {
            "id": number,
            "pair": f"{number} {number + 0.5}",
            "nested/any": " ".join(str(value) for value in range(number % 3)),
            "class": number % 3,
            "rows": [f"{row} {number}" for row in range(number % 4)],
        },
        SCHEMA,
    )


def check(batch: tio.Batch) -> None:
    ids = batch["id"].tolist()
    assert batch["pair"].tolist() == [[number, number + 0.5] for number in ids]
    assert batch["pair"].dtype == torch.float32
    assert batch["nested"]["label"].tolist() == [
        [int(number % 3 == label) for label in range(3)] for number in ids
    ]
    values = [value.tolist() for value in batch["nested"]["any"]]
    assert values == [list(range(number % 3)) for number in ids]
    assert batch["nested"]["any"][0].dtype == torch.float64
    rows = [[[row, number] for row in range(number % 4)] for number in ids]
    assert batch["rows"].tolist() == rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.tfrecord"
    with tio.TFRecordWriter(path) as writer:
        for number in range(20):
            writer.write(record_of(number))
    return path


def test_parsing() -> None:
    check(tio.parse_examples([record_of(number) for number in range(9)], SCHEMA))
    check(tio.parse_examples([record_of(1)], SCHEMA))
    sample = tio.parse_example(record_of(5), SCHEMA)
    assert sample["pair"].tolist() == [5, 5.5]
    assert sample["nested"]["any"].tolist() == [0, 1]
    assert len(tio.parse_examples([], SCHEMA)["pair"]) == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_and_data_loader(path: Path, workers: int) -> None:
    batches = tio.TFRecordDataset(path, SCHEMA, batch_size=6, shuffle=True)
    loaded = list(DataLoader(batches, batch_size=None, num_workers=workers))
    assert sorted(id_ for batch in loaded for id_ in batch["id"].tolist()) == list(range(20))
    samples = tio.TFRecordDataset(path, SCHEMA)
    collated = DataLoader(samples, 6, num_workers=workers, collate_fn=tio.collate)
    for batch in [*loaded, *collated]:
        check(batch)


def test_collate_and_map_style(path: Path) -> None:
    dataset = tio.TFRecordMapDataset(path, SCHEMA)
    check(tio.collate([dataset[number] for number in (3, 17, 4)]))
    check(pickle.loads(pickle.dumps(tio.collate([dataset[2]]))))


def test_text_forms() -> None:
    again = tio.Schema.from_json(SCHEMA.to_json())
    assert again == SCHEMA
    assert repr(again) == repr(SCHEMA)
    assert '{"type": "DigitsFeature", "count": 2}' in SCHEMA.to_json()
    source = SCHEMA.to_python()
    assert "from tests.support.toy_features import DigitsFeature\n" in source
    assert 'OneHotFeature(classes=3, key="class")' in source
    made: dict[str, Any] = {}
    exec(source, made)  # noqa: S102  # source that this package has made
    assert made["schema"] == SCHEMA
    check(tio.parse_examples([record_of(1)], again))


def test_json_with_wrong_arguments() -> None:
    text = SCHEMA.to_json()
    with pytest.raises(tio.SchemaError, match="count must be a non-negative integer") as caught:
        tio.Schema.from_json(text.replace('"count": 2', '"count": -2', 1))
    assert caught.value.feature == "pair"
    with pytest.raises(tio.SchemaError, match="an OneHotFeature needs the argument 'classes'"):
        tio.Schema.from_json(text.replace(', "classes": 3', ""))


@pytest.mark.parametrize(
    ("changes", "feature", "reason"),
    [
        ({"pair": "1 x"}, "pair", "the value must be numbers, got b'1 x'"),
        ({"pair": "1"}, "pair", r"has the shape \[1\], the schema wants \[2\]"),
        ({"class": 3}, "nested/label", "must be less than 3, got 3, in the stored feature 'class'"),
        ({"class": [1, 2]}, "nested/label", "must have one class number"),
        ({"rows": ["1 2", "3"]}, "rows", r"has the shape \[1\], the schema wants \[2\]"),
    ],
)
def test_bad_records_are_named(
    tmp_path: Path, changes: dict[str, Any], feature: str, reason: str
) -> None:
    good = {"id": 1, "pair": "1 2", "nested/any": "", "class": 0, "rows": []}
    records = [tio.encode_example(each, SCHEMA) for each in (good, {**good, **changes}, good)]
    with pytest.raises(tio.DecodeError, match=reason) as caught:
        tio.parse_examples(records, SCHEMA)
    assert (caught.value.record, caught.value.feature) == (1, feature)
    path = tmp_path / "bad.tfrecord"
    with tio.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=3, on_error="skip")
    assert [batch["id"].tolist() for batch in dataset] == [[1, 1]]
    assert dataset.skipped == 1


def test_a_valid_range() -> None:
    schema = {"x": DigitsFeature(2, valid_range=(0, 9))}
    good, bad = tio.encode_example({"x": "0 9"}), tio.encode_example({"x": "0 9.5"})
    with pytest.raises(
        tio.DecodeError, match=r"the value 9\.5 is outside the valid range"
    ) as caught:
        tio.parse_examples([good, bad], schema)
    assert caught.value.record == 1


def test_places() -> None:
    with pytest.raises(
        tio.SchemaError, match=r"a feature list must be one of .* got OneHotFeature"
    ):
        tio.Schema(context={}, sequence={"x": OneHotFeature(3, key="y")})
    with pytest.raises(tio.SchemaError, match=r"must be one of .*DigitsFeature.*got OneHotFeature"):
        tio.SequenceFeature(OneHotFeature(3, key="y"))
    schema = tio.Schema(context={"x": DigitsFeature(1)}, sequence={"s": tio.VarLenFeature("int64")})
    record = tio.encode_sequence_example({"x": "7"}, {"s": [[1]]})
    assert tio.parse_sequence_examples([record], schema)["x"].tolist() == [[7]]


def test_stored_features_must_be_read_in_one_way() -> None:
    features = {"x": OneHotFeature(3, key="y"), "y": tio.FixedLenFeature([], "int64")}
    batch = tio.parse_examples([tio.encode_example({"y": 1})], features)
    assert (batch["x"].tolist(), batch["y"].tolist()) == ([[0, 1, 0]], [1])
    with pytest.raises(tio.SchemaError, match="must be read in one way"):
        tio.Schema({**features, "y": tio.VarLenFeature("int64")})


def test_stored_values() -> None:
    assert DigitsFeature(2).as_stored("x") == tio.FixedLenFeature([], "string")
    assert OneHotFeature(3, key="y").as_stored("x") == tio.FixedLenFeature([], "string", key="y")
    assert tio.encode_example({"y": []}, tio.Schema({"x": OneHotFeature(3, key="y")})) == (
        tio.encode_example({"y": []}, {"y": "int64"})
    )


def test_a_schema_loads_only_the_code_of_its_columns() -> None:
    code = (
        "import sys, torchrec_io as tio\n"
        "from torchrec_io._parsing.parser import ExampleParser\n"
        "features = {'a': tio.FixedLenFeature([], 'int64'), 'b': tio.RawFeature('uint8', [2]),\n"
        "    'c': tio.SequenceFeature(tio.RawFeature('uint8', [2])), 'd': tio.ImageFeature()}\n"
        "schema = tio.Schema({name: features[name] for name in 'abc'})\n"
        "ExampleParser.of(schema)\n"
        "tio.Schema(features)\n"
        "print('PIL' in sys.modules)\n"
        "ExampleParser.of(tio.Schema(features))\n"
        "print('PIL' in sys.modules, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue False\n"


def test_the_example_in_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "extending.md").read_text("utf-8")
    spec, decoder = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for name in ("my_package", "my_package.digits_column"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    exec(decoder, vars(sys.modules["my_package.digits_column"]))  # noqa: S102
    names: dict[str, Any] = {"__name__": "my_package"}
    exec(spec, names)  # noqa: S102
    schema = {"pair": names["DigitsFeature"](2)}
    batch = tio.parse_examples([tio.encode_example({"pair": "1.5 2"})], schema)
    assert batch["pair"].tolist() == [[1.5, 2.0]]
    with pytest.raises(tio.DecodeError, match=r"the value must be numbers, got b'x'"):
        tio.parse_examples([tio.encode_example({"pair": "x"})], schema)
    with pytest.raises(tio.SchemaError, match="count must be a positive integer, got 0"):
        names["DigitsFeature"](0)
