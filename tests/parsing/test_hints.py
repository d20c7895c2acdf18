"""Errors of records that a schema does not read say what the records look like."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._schema.feature import Feature

INT = tio.FixedLenFeature([], "int64")
FLOAT = tio.FixedLenFeature([], "float32")
STEPS = tio.FixedLenSequenceFeature([], "float32")
MISSING = "the feature is required but the record does not have it"

VALUES: dict[str, Sequence[Any]] = {"image/class/label": [3], "price": [1.5], "zip": [b"8000"]}
RECORD = example_of(**VALUES)
SEQUENCE = sequence_example_of({"id": [1]}, {"frames": [[1.0], [2.0]]})


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, kind)
    return file.getvalue()


# A TensorProto of dtype float32 and shape [2], as tf.io.serialize_tensor writes it.
TENSOR = bytes([8, 1, 18, 4, 18, 2, 8, 2, 34, 8]) + np.array([1, 2], np.float32).tobytes()
FLOATS = np.array([1, 2], np.float32).tobytes()
# An event of TensorBoard: its wall time, and the version of the file.
EVENT = b"\x09" + struct.pack("<d", 1.7e9) + b"\x1a\x0dbrain.Event:2"
LISTS = b"\x0a" + bytes([len(RECORD)]) + RECORD


def reason_of(record: bytes, schema: Any) -> str:
    is_sequence = isinstance(schema, tio.Schema) and schema.is_sequence
    with pytest.raises(tio.DecodeError) as raised:
        if is_sequence:
            tio.parse_sequence_example(record, schema)
        else:
            tio.parse_example(record, schema)
    return raised.value.reason


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("image/class/lable", "did you mean 'image/class/label'? The record has:"),
        ("Price", "did you mean 'price'? The record has:"),
        ("nothing", "the record has:"),
    ],
)
def test_a_misspelt_feature(name: str, hint: str) -> None:
    names = "'image/class/label', 'price', 'zip'"
    assert reason_of(RECORD, {name: INT}) == f"{MISSING}; {hint} {names}"


def test_only_some_of_many_names_are_shown() -> None:
    record = example_of(**{f"f{number:05}": [number] for number in range(20_000)}, **{"x" * 99: []})
    reason = reason_of(record, {"f0000": INT})
    assert reason.startswith(f"{MISSING}; did you mean 'f00")
    assert reason.endswith(" and 19,991 more")
    assert len(reason) < 300
    assert f"'{'x' * 60}…'" in reason_of(example_of(**{"x" * 99: [1]}), {"y": INT})


@pytest.mark.parametrize(
    ("record", "schema", "hint"),
    [
        (SEQUENCE, {"frames": FLOAT}, "looks like a tf.train.SequenceExample: use Schema(context"),
        (
            RECORD,
            tio.Schema(context={"price": FLOAT}, sequence={"frames": STEPS}),
            "the record looks like a tf.train.Example: use a dict of features as the schema",
        ),
        (
            SEQUENCE,
            tio.Schema(context={"frames": FLOAT}, sequence={"other": STEPS}),
            "the record has it as a feature list",
        ),
        (
            SEQUENCE,
            tio.Schema(context={"other": tio.VarLenFeature("int64")}, sequence={"id": STEPS}),
            "the record has it as a context feature",
        ),
        (
            SEQUENCE,
            tio.Schema(context={"id": INT}, sequence={"frame": STEPS}),
            "did you mean 'frames'? The record has: 'frames'",
        ),
        (LISTS, {"price": FLOAT}, "an ExampleListWithContext (ELWC): pass a tio.ranking.Schema"),
        (EVENT, {"x": INT}, "a TensorBoard event (tensorflow.Event): pass schema=None, or"),
        (b"\x2a\x10" + b"\x08\x01" * 8, {"x": INT}, "a protobuf message of unknown type: pass"),
        (TENSOR, {"x": INT}, "the record looks like a serialized tensor (TensorProto): pass"),
        (json.dumps({"a": 1}).encode(), {"a": INT}, "looks like JSON: pass schema=json.loads"),
        ("grüezi mitenand\n".encode(), {"a": INT}, "looks like text: pass schema=bytes.decode"),
        (pickle.dumps({"a": [1, 2]}, 4), {"a": INT}, "the record looks like a pickle file: pass"),
        (picture("PNG"), {"a": INT}, "the record looks like a PNG image: pass schema=None"),
        (b"", {"a": INT}, f"{MISSING}; the record is empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # records are not always the same
)
def test_a_record_of_another_kind(record: bytes, schema: Any, hint: str) -> None:
    assert hint in reason_of(record, schema)


@pytest.mark.parametrize(
    ("value", "spec", "hint"),
    [
        (picture("PNG"), FLOAT, "looks like a PNG image: tio.ImageFeature() reads it"),
        (
            picture("JPEG"),
            tio.RawFeature("uint8", [8]),
            "a JPEG image: tio.ImageFeature() reads",
        ),
        (picture("PNG"), tio.SerializedTensorFeature("float32"), "PNG image: tio.ImageFeature() r"),
        (
            picture("PNG"),
            tio.SequenceFeature(tio.RawFeature("uint8", [9])),
            "a PNG image: tio.SequenceFeature(tio.ImageFeature()) reads it",
        ),
        (TENSOR, FLOAT, "a serialized tensor (TensorProto): tio.SerializedTensorFeature reads it"),
        (
            TENSOR,
            tio.RawFeature("float32", [2]),
            "(TensorProto): tio.SerializedTensorFeature reads",
        ),
        (TENSOR, tio.ImageFeature(), "(TensorProto): tio.SerializedTensorFeature reads"),
        (FLOATS, tio.FixedLenFeature([2], "float32"), 'tio.RawFeature("float32", [2]) reads it'),
        (FLOATS, tio.SerializedTensorFeature("float32"), 'tio.RawFeature("float32", [2]) reads it'),
        (b"3.5", FLOAT, 'the value looks like text: tio.FixedLenFeature([], "string") reads it'),
        (1.5, INT, 'the schema wants int64; tio.FixedLenFeature([], "float32") reads it'),
        (
            7,
            tio.ImageFeature(),
            'schema wants bytes; tio.FixedLenFeature([], "int64") reads it',
        ),
    ],
)
def test_a_value_of_another_kind(value: Any, spec: Feature, hint: str) -> None:
    assert hint in reason_of(example_of(x=[value]), {"x": spec})


def test_several_values_of_another_kind() -> None:
    images = example_of(x=[picture("PNG")] * 2)
    assert "tio.SequenceFeature(tio.ImageFeature()) reads it" in reason_of(images, {"x": FLOAT})
    assert "tio.SequenceFeature(tio.ImageFeature()) reads it" in reason_of(
        images, {"x": tio.ImageFeature()}
    )
    steps = sequence_example_of({}, {"x": [[b"a"], [b"b"]]})
    schema = tio.Schema(context={}, sequence={"x": STEPS})
    assert reason_of(steps, schema).endswith(
        'text: tio.FixedLenSequenceFeature([], "string") reads it'
    )


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (picture("PNG")[:40], tio.ImageFeature()),
        (b"\0" * 12, tio.RawFeature("float32", [2])),
        (b"hello", tio.RawFeature("uint8", [2])),
        (b"a", tio.FixedLenFeature([2], "string")),
        (1, tio.FixedLenFeature([2], "int64")),
    ],
)
def test_the_right_spec_is_not_told_what_it_reads(value: Any, spec: Feature) -> None:
    reason = reason_of(example_of(x=[value]), {"x": spec})
    assert "looks like" not in reason
    assert "reads it" not in reason


def test_errors_of_datasets_have_the_hint(tmp_path: Path, caplog: Any) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", [RECORD, RECORD, b'{"price": 1}'])
    found: list[tio.TorchRecIOError] = []
    hint = "; did you mean 'price'? The record has: 'image/class/label', 'price', 'zip'"
    with pytest.raises(tio.DecodeError, match="did you mean 'price'") as raised:
        list(tio.TFRecordDataset(path, {"prise": FLOAT}, batch_size=2))
    assert (raised.value.path, raised.value.record) == (str(path), 0)
    assert raised.value.feature == "prise"
    assert raised.value.reason == f"{MISSING}{hint}"
    mapped = tio.TFRecordMapDataset(path, {"price": FLOAT})
    with pytest.raises(tio.DecodeError, match=r"byte \d+ of the record; .* looks like JSON"):
        mapped[2]
    ds = tio.TFRecordDataset(path, {"price": FLOAT}, batch_size=1, on_error=found.append)
    assert len(list(ds)) == 2
    assert found[0].reason.endswith("; the record looks like JSON: pass schema=json.loads")
    list(tio.TFRecordDataset(path, {"price": FLOAT}, batch_size=1, on_error="skip"))
    assert "looks like JSON" in caplog.text


def test_columns_that_a_batch_does_not_have() -> None:
    schema = {"price": FLOAT, "zip": tio.FixedLenFeature([], "string")}
    batch = tio.parse_examples([RECORD], schema)
    for values, kind in ((batch, "batch"), (batch.samples()[0], "sample")):
        message = f"'prise': did you mean 'price'? The {kind} has: 'price', 'zip'"
        with pytest.raises(KeyError) as raised:
            values["prise"]
        assert str(raised.value) == message
        assert raised.value.args[0] == "prise"
        assert str(pickle.loads(pickle.dumps(raised.value))) == message
    with pytest.raises(KeyError, match=r"did you mean 'a'\? The sample has: 'a'"):
        tio.Sample({"a": 1})["A"]
