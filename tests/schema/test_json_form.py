"""Schemas as JSON and as Python source: exact both ways, and strict in what is read."""

from __future__ import annotations

import json
import math
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.spec_strategies import SPECS, names, schemas
from torchrec_io.schema.specs import Feature

LABEL = {"type": "FixedLenFeature", "shape": [], "dtype": "int64"}


def text_of(**features: Any) -> str:
    return json.dumps({"torchrec_io_schema": 1, "features": features})


def run(source: str) -> tio.Schema:
    """What a program leaves in ``schema``."""
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  # source that this package has made
    schema: tio.Schema = space["schema"]
    return schema


# ---- there and back ----


def nan_bits(spec: Feature) -> list[bytes]:
    """The floats of a default, to the bit."""
    default = getattr(spec, "default_value", None) or ()
    return [struct.pack(">d", item) for item in default if isinstance(item, float)]


def check_exact(again: tio.Schema, schema: tio.Schema) -> None:
    assert again == schema
    assert repr(again) == repr(schema)  # tells -0.0 from 0.0
    assert [nan_bits(spec) for spec in again.values()] == [nan_bits(s) for s in schema.values()]
    assert list(again) == list(schema)
    assert again.is_sequence == schema.is_sequence


@given(schemas, st.none() | st.integers(0, 4))
def test_any_schema_by_json_and_back(schema: tio.Schema, indent: int | None) -> None:
    text = schema.to_json(indent)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    check_exact(tio.Schema.from_json(text), schema)
    check_exact(tio.Schema.from_json(text.encode()), schema)
    assert tio.Schema.from_json(text).to_json(indent) == text


@given(schemas)
def test_any_schema_by_python_and_back(schema: tio.Schema) -> None:
    source = schema.to_python()
    assert source.replace("\n", "").isprintable()
    check_exact(run(source), schema)
    # As a terminal shows it that lacks the characters.
    check_exact(run(source.encode("ascii", "backslashreplace").decode()), schema)


@pytest.mark.parametrize("kind", SPECS)
@given(data=st.data())
def test_any_spec_by_json_and_back(kind: str, data: st.DataObject) -> None:
    spec = data.draw(SPECS[kind])
    schema = tio.Schema({"some": spec})
    assert json.loads(schema.to_json())["features"]["some"]["type"] == kind
    check_exact(tio.Schema.from_json(schema.to_json()), schema)


def test_what_it_looks_like() -> None:
    schema = tio.Schema(
        {
            "image": tio.ImageFeature(size=(224, 224)),
            "label": tio.FixedLenFeature([], "int64", -1),
            "box": tio.FixedLenFeature([2, 2], "float32", [0.5, math.nan, math.inf, -0.0]),
            "name": tio.FixedLenFeature([2], "string", ["é", b"\xff\x00"]),
            "words": tio.RaggedFeature(
                "string", "letters", [tio.RaggedFeature.RowSplits("ends")], validate=True
            ),
            "raw": tio.RawFeature("int16", fixed_length=4),
        }
    )
    assert json.loads(schema.to_json()) == {
        "torchrec_io_schema": 1,
        "features": {
            "image": {"type": "ImageFeature", "size": [224, 224]},
            "label": {**LABEL, "default_value": -1},
            "box": {
                "type": "FixedLenFeature",
                "shape": [2, 2],
                "dtype": "float32",
                "default_value": [0.5, "nan", "inf", -0.0],
            },
            "name": {
                "type": "FixedLenFeature",
                "shape": [2],
                "dtype": "string",
                "default_value": ["é", {"hex": "ff00"}],
            },
            "words": {
                "type": "RaggedFeature",
                "dtype": "string",
                "value_key": "letters",
                "partitions": [{"type": "RowSplits", "key": "ends"}],
                "validate": True,
            },
            "raw": {"type": "RawFeature", "dtype": "int16", "fixed_length": 4},
        },
    }
    assert schema.to_python() == (
        "import torchrec_io as tio\n"
        "\n"
        "schema = tio.Schema(\n"
        "    {\n"
        '        "image": tio.ImageFeature(size=[224, 224]),\n'
        '        "label": tio.FixedLenFeature([], "int64", default_value=-1),\n'
        '        "box": tio.FixedLenFeature([2, 2], "float32", '
        'default_value=[0.5, float("nan"), float("inf"), -0.0]),\n'
        '        "name": tio.FixedLenFeature([2], "string", '
        'default_value=[b"\\xc3\\xa9", b"\\xff\\x00"]),\n'
        '        "words": tio.RaggedFeature("string", value_key="letters", '
        'partitions=[tio.RaggedFeature.RowSplits("ends")], validate=True),\n'
        '        "raw": tio.RawFeature("int16", fixed_length=4),\n'
        "    }\n"
        ")\n"
    )


def test_what_a_sequence_looks_like() -> None:
    schema = tio.Schema(context={}, sequence={"steps": tio.VarLenFeature("int64")})
    assert json.loads(schema.to_json()) == {
        "torchrec_io_schema": 1,
        "context": {},
        "sequence": {"steps": {"type": "VarLenFeature", "dtype": "int64"}},
    }
    assert schema.to_python() == (
        "import torchrec_io as tio\n"
        "\n"
        "schema = tio.Schema(\n"
        "    context={\n"
        "    },\n"
        "    sequence={\n"
        '        "steps": tio.VarLenFeature("int64"),\n'
        "    },\n"
        ")\n"
    )


def test_a_spec_of_another_s_making_has_no_text() -> None:
    class Mine(tio.VarLenFeature):
        pass

    schema = tio.Schema({"x": Mine("int64")})
    for write in (schema.to_json, schema.to_python):
        with pytest.raises(tio.SchemaError, match="a Mine cannot be written") as caught:
            write()
        assert caught.value.feature == "x"


def test_what_an_augment_looks_like() -> None:
    schema = tio.Schema(
        {
            "a": tio.ImageFeature(augment=tio.RandomCrop((4, 5))),
            "b": tio.ImageFeature(augment=tio.RandomResizedCrop(flip=1), size=(4, 5)),
            "c": tio.ImageFeature(decoder=None),
        }
    )
    assert json.loads(schema.to_json())["features"] == {
        "a": {"type": "ImageFeature", "augment": {"type": "RandomCrop", "size": [4, 5]}},
        "b": {
            "type": "ImageFeature",
            "size": [4, 5],
            "augment": {"type": "RandomResizedCrop", "flip": 1.0},
        },
        "c": {"type": "ImageFeature", "decoder": None},
    }
    assert "augment=tio.RandomCrop(size=[4, 5])" in schema.to_python()
    assert "augment=tio.RandomResizedCrop(flip=1.0)" in schema.to_python()
    check_exact(run(schema.to_python()), schema)


@pytest.mark.parametrize("augment", [lambda *_: tio.Crop(0, 0, 1, 1), math.hypot, len])
def test_an_augment_of_one_s_own_has_no_text(augment: Any) -> None:
    schema = tio.Schema({"x": tio.ImageFeature(augment=augment)})
    for write in (schema.to_json, schema.to_python):
        with pytest.raises(tio.SchemaError, match="unless it is a RandomResizedCrop or") as caught:
            write()
        assert caught.value.feature == "x"


@pytest.mark.parametrize("name", ["\x7f", "\x1b[31m", "\u202e", "\n", "'\"", "\x9b", "", "日"])
def test_hostile_names_are_escaped(name: str) -> None:
    schema = tio.Schema({name: tio.RaggedFeature("int64", (name or "x") + "!")})
    for text in (schema.to_json(), schema.to_python().replace("\n", "")):
        assert text.isprintable()
    check_exact(tio.Schema.from_json(schema.to_json()), schema)
    check_exact(run(schema.to_python()), schema)


def test_defaults_that_a_person_might_write() -> None:
    text = text_of(
        a={**LABEL, "dtype": "float32", "default_value": 1},
        b={**LABEL, "dtype": "bool", "default_value": True},
        c={**LABEL, "default_value": [5]},
        d={**LABEL, "dtype": "double"},
        e={**LABEL, "dtype": "string", "default_value": "nan"},
    )
    assert tio.Schema.from_json(text) == tio.Schema(
        {
            "a": tio.FixedLenFeature([], "float32", 1.0),
            "b": tio.FixedLenFeature([], "bool", 1),
            "c": tio.FixedLenFeature([], "int64", 5),
            "d": tio.FixedLenFeature([], "float64"),
            "e": tio.FixedLenFeature([], "string", b"nan"),
        }
    )


@pytest.mark.parametrize("bits", ["7ff8000000000000", "fff8000000000000", "7ff8123456789abc"])
def test_every_nan_is_kept_and_equals_itself(bits: str) -> None:
    nan = struct.unpack(">d", bytes.fromhex(bits))[0]
    schema = tio.Schema({"x": tio.FixedLenFeature([2], "float64", [1, nan])})
    assert nan_bits(schema["x"])[1].hex() == bits
    assert schema == tio.Schema({"x": tio.FixedLenFeature([2], "float64", [1, nan])})
    for again in (tio.Schema.from_json(schema.to_json()), run(schema.to_python())):
        check_exact(again, schema)
    text = schema.to_json()
    assert ('"nan"]' in text) == (bits == "7ff8000000000000")


# ---- what is refused ----


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("{} {}", "no JSON"),
        (b"\xff\xff\xff", "no JSON"),
        ("1" * 5000 if sys.version_info >= (3, 11) else "nil", "no JSON|JSON object"),
        ("[" * 200_000, "nested too deep"),
        ('{"a":' * 200_000, "nested too deep"),
        ("[" * 500 + "]" * 500, "a schema is a JSON object"),
        ("null", "a schema is a JSON object"),
        ("[]", "a schema is a JSON object"),
        ('"x"', "a schema is a JSON object"),
        ("{}", '"torchrec_io_schema" is None'),
        ('{"torchrec_io_schema": 2, "features": {}}', "of format 1"),
        ('{"torchrec_io_schema": true, "features": {}}', "of format 1"),
        ('{"torchrec_io_schema": 1.0, "features": {}}', "of format 1"),
        ('{"torchrec_io_schema": "1", "features": {}}', "of format 1"),
        ('{"torchrec_io_schema": 1}', "not neither|neither"),
        ('{"torchrec_io_schema": 1, "context": {}}', '"context" and "sequence"'),
        ('{"torchrec_io_schema": 1, "sequence": {}}', '"context" and "sequence"'),
        ('{"torchrec_io_schema": 1, "features": {}, "more": {}}', "'features', 'more'"),
        ('{"torchrec_io_schema": 1, "features": []}', '"features" is a JSON object'),
        ('{"torchrec_io_schema": 1, "features": {}}', "at least one feature"),
        ('{"torchrec_io_schema": 1, "torchrec_io_schema": 1}', "used twice"),
        (text_of(x=LABEL)[:-2] + ', "x": {}}}', "'x' is used twice"),
        ('{"torchrec_io_schema": 1, "features": {"\\ud800": {}}}', "a feature spec"),
        (text_of(**{"\ud800": LABEL}), "has surrogates"),
        ('{"torchrec_io_schema": NaN}', "NaN is no JSON"),
        ('{"torchrec_io_schema": -Infinity}', "-Infinity is no JSON"),
        ('{"torchrec_io_schema": 1e999}', "no float64 holds the number 1e999"),
    ],
)
def test_other_texts_are_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        tio.Schema.from_json(text)


SPARSE = {"type": "SparseFeature", "index_key": ["i"], "value_key": "v", "dtype": "int64"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (None, "a feature spec is a JSON object"),
        ("int64", "a feature spec is a JSON object"),
        ({}, '"type" of a feature spec is one of'),
        ({"type": "Feature"}, "not 'Feature'"),
        ({"type": "RowSplits", "key": "x"}, "not 'RowSplits'"),
        ({"type": ["FixedLenFeature"]}, "is one of"),
        ({"type": "VarLenFeature"}, "needs 'dtype'"),
        ({"type": "FixedLenFeature"}, "needs 'shape', 'dtype'"),
        ({**LABEL, "extra": 1}, "has no 'extra'"),
        ({**LABEL, "self": 1}, "has no 'self'"),
        ({**LABEL, "Shape": []}, "has no 'Shape'"),
        ({**LABEL, "dtype": 5}, "5 stands where text belongs"),
        ({**LABEL, "dtype": None}, "None stands where text"),
        ({**LABEL, "dtype": "int65"}, "dtype must be one of"),
        ({**LABEL, "shape": 3}, "where a list belongs"),
        ({**LABEL, "shape": None}, "where a list belongs"),
        ({**LABEL, "shape": [1.0]}, "1.0 stands where a whole number"),
        ({**LABEL, "shape": [True]}, "True stands where a whole number"),
        ({**LABEL, "shape": ["1"]}, "'1' stands where a whole number"),
        ({**LABEL, "shape": [-1]}, "size of a shape"),
        ({**LABEL, "shape": [10**30]}, "no memory"),
        ({**LABEL, "default_value": None}, "not None"),
        ({**LABEL, "default_value": "5"}, "not '5'"),
        ({**LABEL, "default_value": 5.0}, "no cast loses digits"),
        ({**LABEL, "default_value": True}, "must be numbers"),
        ({**LABEL, "default_value": 2**63}, "does not fit"),
        ({**LABEL, "default_value": [[5]]}, r"not \[5\]"),
        ({**LABEL, "default_value": [1, 2]}, "has 2 values"),
        ({**LABEL, "default_value": {"hex": "00"}}, "must be numbers"),
        ({**LABEL, "default_value": "nan"}, "no cast loses digits"),
        ({**LABEL, "dtype": "float32", "default_value": "NaN"}, "not 'NaN'"),
        ({**LABEL, "dtype": "float32", "default_value": {"nan": "7ff80000"}}, "16 digits"),
        ({**LABEL, "dtype": "float32", "default_value": {"nan": "7ff" + 13 * "0"}}, "16 digits"),
        ({**LABEL, "dtype": "float32", "default_value": {"nan": 5}}, "two digits each"),
        ({**LABEL, "default_value": {"nan": "fff8" + 12 * "0"}}, "no cast loses digits"),
        ({**LABEL, "dtype": "float32", "default_value": 1e39}, "does not fit"),
        ({**LABEL, "dtype": "string", "default_value": 5}, "must be str or bytes"),
        ({**LABEL, "dtype": "string", "default_value": "\ud800"}, "must be str or bytes"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "0"}}, "two digits each"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "FF"}}, "two digits each"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "f f0"}}, "two digits each"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": [0]}}, "two digits each"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": 5}}, "two digits each"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "", "x": 1}}, "not {'hex'"),
        ({**SPARSE, "size": [-1]}, "size of a shape"),
        ({**SPARSE, "size": [1, 2]}, "index_key names 1 features"),
        ({**SPARSE, "size": 1}, "where a list belongs"),
        ({**SPARSE, "size": [1], "index_key": "i"}, "where a list belongs"),
        ({**SPARSE, "size": [1], "index_key": [1]}, "where text belongs"),
        ({**SPARSE, "size": [1], "value_key": ""}, "must be a feature's name"),
        ({**SPARSE, "size": [1], "value_key": "\udfff"}, "must be a feature's name"),
        ({**SPARSE, "size": [1], "already_sorted": 1}, "1 stands where true or false"),
        ({**LABEL, "valid_range": None}, "where a list belongs"),
        ({**LABEL, "valid_range": [1]}, r"must be \(low, high\)"),
        ({**LABEL, "valid_range": [2, 1]}, "no number lies"),
        ({**LABEL, "valid_range": [True, 1]}, "null, not True"),
        ({**LABEL, "valid_range": ["nan", 1]}, "null, not 'nan'"),
        ({**LABEL, "dtype": "string", "valid_range": [0, 1]}, "have no order"),
        ({"type": "ImageFeature", "max_pixels": 0}, "whole number from 1"),
        ({"type": "ImageFeature", "max_pixels": 1e6}, "where a whole number"),
        ({"type": "ImageFeature", "fill": 0.5}, "where a whole number"),
        ({"type": "ImageFeature", "decoder": 3}, "3 stands where text"),
        ({"type": "ImageFeature", "decoder": "none"}, "decoder must be"),
        ({"type": "ImageFeature", "apply_exif_orientation": 1}, "where true or false"),
        ({"type": "ImageFeature", "crop": [0, 0, 1]}, "crop must be"),
        ({"type": "ImageFeature", "augment": "flip"}, "an augment function is a JSON object"),
        ({"type": "ImageFeature", "augment": {"type": "Flip"}}, '"type" of an augment function'),
        ({"type": "ImageFeature", "augment": {"type": "RandomCrop"}}, "needs 'size'"),
        (
            {"type": "ImageFeature", "augment": {"type": "RandomResizedCrop", "flip": True}},
            "True stands where a number",
        ),
        (
            {"type": "ImageFeature", "augment": {"type": "RandomResizedCrop", "scale": [1, 2]}},
            "no part is larger",
        ),
        ({"type": "ImageFeature", "channels": True}, "where a whole number"),
        ({"type": "ImageFeature", "channels": 5}, "channels must be"),
        ({"type": "RaggedFeature", "dtype": "int64", "partitions": {}}, "where a list belongs"),
        ({"type": "RaggedFeature", "dtype": "int64", "partitions": ["x"]}, "a partition is a JSON"),
        ({"type": "RaggedFeature", "dtype": "int64", "partitions": [LABEL]}, "of a partition is"),
        (
            {
                "type": "RaggedFeature",
                "dtype": "int64",
                "partitions": [{"type": "UniformRowLength", "length": 0}],
            },
            "at least 1",
        ),
        (
            {
                "type": "RaggedFeature",
                "dtype": "int64",
                "partitions": [{"type": "RowSplits", "length": 1}],
            },
            "RowSplits has no 'length'",
        ),
        ({"type": "RawFeature", "dtype": "uint8"}, "either shape or shape_key"),
    ],
)
def test_other_specs_are_refused_by_name(spec: Any, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason) as caught:
        tio.Schema.from_json(text_of(x=spec))
    assert caught.value.feature == "x"


def test_what_a_schema_refuses_is_refused() -> None:
    part = {"x": LABEL}
    text = json.dumps({"torchrec_io_schema": 1, "context": part, "sequence": part})
    with pytest.raises(tio.SchemaError):
        tio.Schema.from_json(text)


def test_an_error_is_short_whatever_the_file_holds() -> None:
    for spec in (
        {"type": "x" * 10**6},
        {"type": "VarLenFeature", "dtype": ["y" * 10**6]},
        {**LABEL, **{f"extra{i}": 0 for i in range(10**4)}},
        {**LABEL, "shape": "z" * 10**6},
    ):
        with pytest.raises(tio.SchemaError) as caught:
            tio.Schema.from_json(text_of(x=spec))
        assert len(str(caught.value)) < 400


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_nothing_but_a_schema_error_comes_of_wrong_json(data: st.DataObject) -> None:
    spec: Any = json.loads(data.draw(schemas).to_json())
    place = spec
    while isinstance(place, (dict, list)) and place:
        items = list(place) if isinstance(place, dict) else list(range(len(place)))
        at = data.draw(st.sampled_from(items))
        if data.draw(st.booleans()) or not isinstance(place[at], (dict, list)):
            place[at] = data.draw(any_json)
            break
        place = place[at]
    try:
        schema = tio.Schema.from_json(json.dumps(spec))
    except tio.SchemaError:
        return
    assert all(isinstance(feature, Feature) for feature in schema.values())
    check_exact(tio.Schema.from_json(schema.to_json()), schema)


@given(schemas, st.lists(st.tuples(st.integers(0, 400), st.characters()), min_size=1, max_size=3))
def test_nothing_but_a_schema_error_comes_of_damaged_json(
    schema: tio.Schema, changes: list[tuple[int, str]]
) -> None:
    text = list(schema.to_json())
    for at, character in changes:
        text[at % len(text)] = character
    try:
        again = tio.Schema.from_json("".join(text))
    except tio.SchemaError:
        return
    check_exact(tio.Schema.from_json(again.to_json()), again)
