"""Samples that are read and written again."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support import spec_strategies, stored_records
from torchrec_io._writing.encode import WriterEncoder

_IN_EXAMPLES = [
    specs
    for name, specs in spec_strategies.SPECS.items()
    if name not in ("ImageFeature", "SerializedTensorFeature")
]
_IN_LISTS = [
    spec_strategies.varying,
    spec_strategies.parts(in_list=True),
    spec_strategies.ragged,
    spec_strategies.sequences(in_list=True),
]


def _is_lossy(spec: Any) -> bool:
    """Return whether the values of a spec do not tell all that is stored."""
    raw = getattr(spec, "element", spec)
    return isinstance(raw, tio.RawFeature) and bool(raw.dequantize or raw.fixed_length)


def _is_readable(spec: Any) -> bool:
    """Return whether records can be drawn. Images are tested below."""
    keys = [each.key for each in spec.stored_keys("some")]
    return len({*keys}) == len(keys) and isinstance(
        getattr(spec, "element", None) or tio.RawFeature("uint8", []), tio.RawFeature
    )


def _check(record: bytes, schema: tio.Schema, spec: Any, *, has_values: bool = True) -> None:
    """Check that a record is written as it was read, or refused if the spec does not keep it."""
    parse = tio.parse_sequence_example if schema.is_sequence else tio.parse_example
    try:
        sample = parse(record, schema)
    except tio.DecodeError:
        assume(False)
        raise
    for given_schema in (None, schema):
        encoder = WriterEncoder(given_schema)
        if has_values and _is_lossy(spec):
            with pytest.raises(TypeError, match=r"cannot be restored.*\(feature 'some"):
                encoder(sample)
        else:
            assert parse(encoder(sample), schema) == sample


@given(st.data(), st.booleans())
def test_read_and_written_features_are_read_equal(data: st.DataObject, is_nested: bool) -> None:
    spec = stored_records.without_checks(data.draw(st.one_of(*_IN_EXAMPLES).filter(_is_readable)))
    name = "some/a" if is_nested else "some"
    stored = data.draw(stored_records.features(spec, name))
    record = tio.encode_example(stored, stored_records.kinds_of(spec, name))
    has_values = bool(stored.get(spec.stored_keys(name)[0].key))
    schema = tio.Schema({"some": {"a": spec} if is_nested else spec})
    _check(record, schema, spec, has_values=has_values)


@given(st.data())
def test_read_and_written_feature_lists_are_read_equal(data: st.DataObject) -> None:
    spec = stored_records.without_checks(data.draw(st.one_of(*_IN_LISTS).filter(_is_readable)))
    try:
        schema = tio.Schema(context={"id": tio.VarLenFeature("int64")}, sequence={"some": spec})
    except tio.SchemaError:  # its keys conflict
        assume(False)
        raise
    stored = data.draw(stored_records.steps(spec, "some"))
    kinds = stored_records.kinds_of(spec, "some")
    record = tio.encode_sequence_example({"id": [7]}, stored, kinds)
    has_values = bool(stored[spec.stored_keys("some")[0].key])
    _check(record, schema, spec, has_values=has_values)


# ---- datasets and writers ----

_png = io.BytesIO()
Image.new("RGB", (3, 2), (9, 8, 7)).save(_png, "PNG")
PNG = _png.getvalue()
RAGGED = tio.RaggedFeature("int64", "values", [tio.RaggedFeature.RowLengths("lengths")])
SCHEMA = tio.Schema(
    {
        "id": tio.FixedLenFeature([], "int64"),
        "objects": {"area": tio.VarLenFeature("int64"), "name": tio.VarLenFeature("string")},
        "rows": RAGGED,
        "sparse": tio.SparseFeature(["row", "column"], "value", "float32", [4, 5]),
        "array": tio.RawFeature("uint16", shape_key="shape"),
        "sized": tio.RawFeature("uint8", shape_key=["height", "width"]),
        "pixels": tio.RawFeature("uint8", [None, None, 3], shape_key=["height", "width"]),
        "encoded": tio.ImageFeature(decoder=None),
    }
)
STORED: dict[str, Any] = {
    "id": 7,
    "objects": {"area": [1, 2], "name": ["a"]},
    "values": [1, 2, 3],
    "lengths": [2, 0, 1],
    "row": [0, 3],
    "column": [4, 1],
    "value": [0.5, 1.5],
    "array": b"\1\0\2\0",
    "shape": [1, 2],
    "sized": b"ab",
    "pixels": b"abcdef",
    "height": 1,
    "width": 2,
    "encoded": PNG,
}
SEQUENCE_SCHEMA = tio.Schema(
    context={"id": tio.FixedLenFeature([], "int64")},
    sequence={
        "tokens": tio.VarLenFeature("int64"),
        "scores": tio.FixedLenSequenceFeature([2], "float32"),
        "frames": tio.SequenceFeature(tio.RawFeature("uint8", shape_key="sizes")),
        "rows": RAGGED,
    },
)
LISTS: dict[str, Any] = {
    "tokens": [[1], [], [2, 3]],
    "scores": [[0.5, 1.5], [2.5, 3.5]],
    "frames": [b"ab", b"cd"],
    "sizes": [[2, 1], [2, 1]],
    "values": [[1, 2], [3]],
    "lengths": [[0, 2], [1]],
}


def _write(path: Path, *records: Any, **options: Any) -> None:
    with tio.TFRecordWriter(path, **options) as writer:
        for record in records:
            writer.write(record)


def _records(path: Path) -> list[bytes]:
    return list(tio.TFRecordDataset(path))


def test_dicts_in_records_are_flat_names() -> None:
    flat = {f"objects/{name}": value for name, value in STORED["objects"].items()}
    nested = {"objects": STORED["objects"], "id": 1}
    assert tio.encode_example(nested) == tio.encode_example({**flat, "id": 1})
    deep = tio.encode_example({"a": {"b": {"c": torch.tensor([1])}}})
    assert deep == tio.encode_example({"a/b/c": [1]})
    lists = tio.encode_sequence_example(None, {"a": {"b": [[1], [2, 3]]}})
    assert lists == tio.encode_sequence_example(None, {"a/b": [[1], [2, 3]]})
    with pytest.raises(ValueError, match=r"occurs twice \(feature 'a/b'\)"):
        tio.encode_example({"a/b": 1, "a": {"b": 2}})
    with pytest.raises(TypeError, match=r"a dict cannot be stored.*\(feature 'a/b'\)"):
        tio.encode_example({"a": {"b": {}}})
    with pytest.raises(TypeError, match=r"are int64.*\(example 1, feature 'a/b'\)"):
        tio.encode_examples([{"a": {"b": 1}}, {"a": {"b": 0.5}}])


def test_samples_of_a_dataset_are_written_as_they_were_stored(tmp_path: Path) -> None:
    _write(tmp_path / "a", *[{**STORED, "id": i} for i in range(40)])
    dataset = tio.TFRecordDataset(tmp_path / "a", SCHEMA)
    _write(tmp_path / "b", *dataset)
    assert _records(tmp_path / "b") == _records(tmp_path / "a")
    _write(tmp_path / "b", *list(dataset))  # samples that are kept
    assert _records(tmp_path / "b") == _records(tmp_path / "a")
    _write(tmp_path / "b", *map(dict, dataset), kinds=SCHEMA)
    assert _records(tmp_path / "b") == _records(tmp_path / "a")
    with tio.ShardedWriter(tmp_path / "s", 1) as writer:
        samples = tio.TFRecordMapDataset(tmp_path / "a", SCHEMA)
        for i in range(len(samples)):
            writer.write(samples[i])
    assert _records(Path(writer.paths[0])) == _records(tmp_path / "a")
    assert tio.encode_examples(dataset) == _records(tmp_path / "a")


def test_samples_of_sequence_examples_are_written_as_such(tmp_path: Path) -> None:
    record = tio.encode_sequence_example({"id": 7}, LISTS)
    _write(tmp_path / "a", record, record)
    dataset = tio.TFRecordDataset(tmp_path / "a", SEQUENCE_SCHEMA)
    _write(tmp_path / "b", *dataset)
    _write(tmp_path / "c", *map(dict, dataset), kinds=SEQUENCE_SCHEMA)
    assert _records(tmp_path / "b") == _records(tmp_path / "c") == [record, record]
    for kinds in (None, SEQUENCE_SCHEMA):
        with pytest.raises(TypeError, match="use encode_sequence_example"):
            tio.encode_example(next(iter(dataset)), kinds)


def test_samples_of_unknown_schemas_need_kinds(tmp_path: Path) -> None:
    _write(tmp_path / "a", STORED)
    [sample] = tio.TFRecordDataset(tmp_path / "a", SCHEMA)
    [batch] = tio.TFRecordDataset(tmp_path / "a", SCHEMA, batch_size=1)
    [of_batch] = batch.samples()
    for unknown in (pickle.loads(pickle.dumps(sample)), of_batch):
        with pytest.raises(TypeError, match=r"not known how .* stored.*pass kinds=schema"):
            tio.encode_example(unknown)
        assert [tio.encode_example(unknown, SCHEMA)] == _records(tmp_path / "a")
    for same in (copy.copy(sample), tio.parse_example(_records(tmp_path / "a")[0], SCHEMA)):
        assert [tio.encode_example(same)] == _records(tmp_path / "a")
    made = tio.Sample({"x": torch.tensor([1, 2])})
    for given_sample in (made, pickle.loads(pickle.dumps(made))):
        assert tio.encode_example(given_sample) == tio.encode_example({"x": [1, 2]})


def test_samples_that_are_no_records_need_kinds(tmp_path: Path) -> None:
    episode = {"steps/id": [1, 2, 3], "steps/x": np.arange(6)}
    _write(tmp_path / "a", episode)
    x = tio.FixedLenSequenceFeature([2], "int64", allow_missing=True)
    schema = {"steps/id": tio.VarLenFeature("int64"), "steps/x": x}
    [step, *_] = tio.TFRecordDataset(tmp_path / "a", schema).steps(group="steps")
    ranked = {"x": tio.FixedLenFeature([], "int64")}
    _write(tmp_path / "b", tio.ranking.encode(None, [{"x": 1}, {"x": 2}]))
    [ranking] = tio.TFRecordDataset(tmp_path / "b", tio.ranking.Schema(examples=ranked))
    for sample in (step, ranking):
        with pytest.raises(TypeError, match=r"not known how .* stored.* or no record"):
            tio.encode_example(sample)
        assert tio.encode_example(dict(sample))


def test_rows_of_csv_are_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2.5,a\n")
    dtypes: dict[str, Any] = {"i": "int64", "x": "float32", "s": "string"}
    schema = tio.csv.Schema({name: tio.FixedLenFeature([], each) for name, each in dtypes.items()})
    [sample] = tio.TextLineDataset(tmp_path / "a.csv", schema)
    expected = dict(zip(sample, [1, 2.5, "a"], strict=True))
    assert tio.encode_example(sample) == tio.encode_example(expected)


@pytest.mark.parametrize(
    ("spec", "stored"),
    [
        (tio.ImageFeature(), PNG),
        (tio.SequenceFeature(tio.ImageFeature()), [PNG, PNG]),
        (tio.RawFeature("uint8", [2], dequantize=(0, 1)), b"ab"),
        (tio.RawFeature("uint8", fixed_length=1), b"ab"),
        (
            tio.SerializedTensorFeature("float32"),
            b"\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04\x00\x00\x80\x3f",
        ),
    ],
)
def test_decoded_values_are_refused(tmp_path: Path, spec: tio.ImageFeature, stored: Any) -> None:
    _write(tmp_path / "a", {"x": stored})
    [sample] = tio.TFRecordDataset(tmp_path / "a", {"x": spec})
    reason = r"cannot be restored, because an? \w+ .*as_stored\(name\).*\(feature 'x'\)"
    for kinds in (None, tio.Schema({"x": spec})):
        with tio.TFRecordWriter(tmp_path / "b", kinds=kinds) as writer:
            with pytest.raises(TypeError, match=reason):
                writer.write(sample)
            writer.write({**sample, "x": stored})
        assert _records(tmp_path / "b") == _records(tmp_path / "a")
    as_stored = tio.Schema({"x": tio.Schema({"x": spec})["x"].as_stored("x")})
    [sample] = tio.TFRecordDataset(tmp_path / "a", as_stored)
    assert [tio.encode_example(sample)] == _records(tmp_path / "a")


def test_nested_lists_are_rows_of_a_ragged_feature() -> None:
    schema = tio.Schema({"rows": RAGGED})
    expected = tio.encode_example({"values": [1, 2, 3], "lengths": [2, 0, 1]})
    ragged = tio.Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]))
    for value in ([[1, 2], [], [3]], ragged, [torch.tensor([1, 2]), (), [3]]):
        assert tio.encode_example({"rows": value}, schema) == expected
    even = tio.encode_example({"rows": [[1, 2], [3, 4]]}, schema)
    assert even == tio.encode_example({"values": [1, 2, 3, 4], "lengths": [2, 2]})
    stored = {"values": [1, 2, 3], "lengths": [2, 0, 1]}
    assert tio.encode_example(stored, schema) == expected
    # The steps of a feature list are rows of rows.
    rows = [[[], [1, 2]], [[3]]]
    lists = {"values": LISTS["values"], "lengths": LISTS["lengths"]}
    written = tio.encode_sequence_example({"id": 7}, {"rows": rows}, SEQUENCE_SCHEMA)
    assert written == tio.encode_sequence_example({"id": 7}, lists)


@pytest.mark.parametrize(
    ("partition", "rows"),
    [
        (tio.RaggedFeature.ValueRowIds("at"), [[1], []]),
        (tio.RaggedFeature.UniformRowLength(2), [[1, 2], [3]]),
        (tio.RaggedFeature.UniformRowCount(3), [[1], [2]]),
        (tio.RaggedFeature.UniformRowCount(2), [[1], [2, 3]]),
    ],
)
def test_rows_that_a_partition_cannot_store(partition: Any, rows: Any) -> None:
    schema = tio.Schema({"x": tio.RaggedFeature("int64", "values", [partition])})
    with pytest.raises(ValueError, match=r"cannot store rows of the lengths.*\(feature 'x'\)"):
        tio.encode_example({"x": rows}, schema)


def test_values_that_do_not_fit_their_spec() -> None:
    raw = tio.Schema({"x": tio.RawFeature("int16", [None, 2])})
    for value in (torch.zeros(3, 2), torch.zeros(2, dtype=torch.int16), torch.zeros(2, 3).short()):
        with pytest.raises(ValueError, match=r"must be int16\[None, 2\], got .*\(feature 'x'\)"):
            tio.encode_example({"x": value}, raw)
    with pytest.raises(TypeError, match=r"must be a Sparse, got list \(feature 'sparse'\)"):
        tio.encode_example({"sparse": [1.5]}, SCHEMA)
    small = tio.Sparse(torch.zeros(0, 2).long(), torch.zeros(0), (1, 1))
    with pytest.raises(ValueError, match=r"shape must be \[4, 5\], got \[1, 1\]"):
        tio.encode_example({"sparse": small}, SCHEMA)
    sized = tio.Schema({"x": tio.RawFeature("uint8", shape_key=["h", "w"])})
    with pytest.raises(ValueError, match=r"must have 2 dimensions, got \[3\] \(feature 'x'\)"):
        tio.encode_example({"x": torch.zeros(3).byte()}, sized)
    shared = tio.RawFeature("uint8", shape_key="shape")
    arrays = {"a": torch.zeros(2).byte(), "b": torch.zeros(3).byte()}
    with pytest.raises(ValueError, match=r"'shape' would have different values \(feature 'b'\)"):
        tio.encode_example(arrays, tio.Schema({"a": shared, "b": shared}))
