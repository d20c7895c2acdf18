"""Schemas as JSON and as Python source, written and read back."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.spec_strategies import SPECS, names, schemas
from torchrec_io._schema.feature import Feature

LABEL = {"type": "FixedLenFeature", "shape": [], "dtype": "int64"}
SPARSE = {"type": "SparseFeature", "index_key": ["i"], "value_key": "v", "dtype": "int64"}
RAGGED = {"type": "RaggedFeature", "dtype": "int64"}


def text_of(**features: Any) -> str:
    return json.dumps({"torchrec_io_schema": 1, "features": features})


def run(source: str) -> tio.Schema:
    """What a program leaves in ``schema``."""
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  # source that this package has made
    schema: tio.Schema = space["schema"]
    return schema


# ---- there and back ----


def float_bits(spec: Feature) -> list[bytes]:
    """Return the bits of the floats of a default."""
    default = getattr(spec, "default_value", None) or ()
    return [struct.pack(">d", item) for item in default if isinstance(item, float)]


def check_exact(again: tio.Schema, schema: tio.Schema) -> None:
    assert again == schema
    assert repr(again) == repr(schema)  # tells -0.0 from 0.0
    assert [float_bits(spec) for spec in again.values()] == [float_bits(s) for s in schema.values()]
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


def test_the_json_of_a_schema() -> None:
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
            "raw": {"type": "RawFeature", "dtype": "int16", "shape": [2], "fixed_length": 4},
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
        '        "raw": tio.RawFeature("int16", [2], fixed_length=4),\n'
        "    }\n"
        ")\n"
    )


def test_the_json_of_a_sequence_schema() -> None:
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


def test_a_spec_class_that_cannot_be_imported_has_no_python_source() -> None:
    class LocalFeature(tio.VarLenFeature):
        pass

    schema = tio.Schema({"x": LocalFeature("int64")})
    assert tio.Schema.from_json(schema.to_json()) == schema
    assert type(tio.Schema.from_json(schema.to_json())["x"]) is LocalFeature
    with pytest.raises(tio.SchemaError, match="must be at the top of a module") as caught:
        schema.to_python()
    assert caught.value.feature == "x"


def test_a_spec_class_with_the_name_of_another_has_no_text() -> None:
    impostor = type("VarLenFeature", (tio.VarLenFeature,), {"__module__": "elsewhere"})
    schema = tio.Schema({"x": impostor("int64")})
    for write in (schema.to_json, schema.to_python):
        with pytest.raises(tio.SchemaError, match="another spec class has this name") as caught:
            write()
        assert caught.value.feature == "x"
    text = text_of(x={"type": "VarLenFeature", "dtype": "int64"})
    assert type(tio.Schema.from_json(text)["x"]) is tio.VarLenFeature


def test_the_json_of_an_augment_function() -> None:
    schema = tio.Schema(
        {
            "a": tio.ImageFeature(augment=tio.RandomCrop((4, 5), group="a")),
            "b": tio.ImageFeature(augment=tio.RandomResizedCrop(flip=1, group="b"), size=(4, 5)),
            "c": tio.ImageFeature(decoder=None),
            "d": tio.ImageFeature(augment=tio.RandomFlip(0.25, "d")),
        }
    )
    assert json.loads(schema.to_json())["features"] == {
        "a": {
            "type": "ImageFeature",
            "augment": {"type": "RandomCrop", "size": [4, 5], "group": "a"},
        },
        "b": {
            "type": "ImageFeature",
            "size": [4, 5],
            "augment": {"type": "RandomResizedCrop", "flip": 1.0, "group": "b"},
        },
        "c": {"type": "ImageFeature", "decoder": None},
        "d": {
            "type": "ImageFeature",
            "augment": {"type": "RandomFlip", "flip": 0.25, "group": "d"},
        },
    }
    assert 'augment=tio.RandomCrop(size=[4, 5], group="a")' in schema.to_python()
    assert 'augment=tio.RandomResizedCrop(flip=1.0, group="b")' in schema.to_python()
    check_exact(run(schema.to_python()), schema)


def test_the_json_of_a_jitter() -> None:
    jitter = tio.ColorJitter(0.4, [0.5, 2], hue=(-0.1, 0), p=0.8)
    schema = tio.Schema({"a": tio.ImageFeature(jitter=jitter)})
    assert json.loads(schema.to_json())["features"]["a"]["jitter"] == {
        "type": "ColorJitter",
        "brightness": 0.4,
        "contrast": [0.5, 2.0],
        "hue": [-0.1, 0.0],
        "p": 0.8,
    }
    source = "jitter=tio.ColorJitter(brightness=0.4, contrast=[0.5, 2.0], hue=[-0.1, 0.0], p=0.8)"
    assert source in schema.to_python()
    check_exact(run(schema.to_python()), schema)
    check_exact(tio.Schema.from_json(schema.to_json()), schema)


@pytest.mark.parametrize("augment", [lambda *_: tio.Crop(0, 0, 1, 1), math.hypot, len])
def test_an_augment_of_one_s_own_has_no_text(augment: Any) -> None:
    schema = tio.Schema({"x": tio.ImageFeature(augment=augment)})
    for write in (schema.to_json, schema.to_python):
        with pytest.raises(tio.SchemaError, match="must be a RandomResizedCrop, ") as caught:
            write()
        assert caught.value.feature == "x"


@pytest.mark.parametrize("name", ["\x7f", "\x1b[31m", "\u202e", "\n", "'\"", "\x9b", "", "日"])
def test_hostile_names_are_escaped(name: str) -> None:
    schema = tio.Schema({name: tio.RaggedFeature("int64", (name or "x") + "!")})
    for text in (schema.to_json(), schema.to_python().replace("\n", "")):
        assert text.isprintable()
    check_exact(tio.Schema.from_json(schema.to_json()), schema)
    check_exact(run(schema.to_python()), schema)


def test_arguments_take_every_form_of_the_constructor() -> None:
    text = text_of(
        a={**LABEL, "shape": 3, "valid_range": None, "default_value": None},
        b={**LABEL, "default_value": [[5]]},
        c={**LABEL, "dtype": "string", "default_value": {"hex": "FF"}},
        d={**SPARSE, "index_key": "i", "size": 1},
    )
    assert tio.Schema.from_json(text) == tio.Schema(
        {
            "a": tio.FixedLenFeature([3], "int64"),
            "b": tio.FixedLenFeature([], "int64", 5),
            "c": tio.FixedLenFeature([], "string", b"\xff"),
            "d": tio.SparseFeature(["i"], "v", "int64", [1]),
        }
    )


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
def test_every_nan_is_written_as_nan(bits: str) -> None:
    nan = struct.unpack(">d", bytes.fromhex(bits))[0]
    schema = tio.Schema({"x": tio.FixedLenFeature([2], "float64", [1, nan])})
    assert float_bits(schema["x"])[1].hex() == bits
    assert schema == tio.Schema({"x": tio.FixedLenFeature([2], "float64", [1, nan])})
    plain = tio.Schema({"x": tio.FixedLenFeature([2], "float64", [1, math.nan])})
    assert schema.to_json() == plain.to_json()
    assert schema.to_python() == plain.to_python()
    for again in (tio.Schema.from_json(schema.to_json()), run(schema.to_python())):
        check_exact(again, plain)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("{} {}", "not valid JSON"),
        (b"\xff\xff\xff", "not valid JSON"),
        ("1" * 5000, "5000 characters, more than 40"),
        ("[" * 200_000, "nested too deep"),
        ('{"a":' * 200_000, "nested too deep"),
        ("[" * 500 + "]" * 500, "a schema must be a JSON object"),
        ("null", "a schema must be a JSON object"),
        ("[]", "a schema must be a JSON object"),
        ('"x"', "a schema must be a JSON object"),
        ("{}", '"torchrec_io_schema" must be 1, .*, got None'),
        ('{"torchrec_io_schema": 2, "features": {}}', "must be 1, the format of this release, got"),
        (
            '{"torchrec_io_schema": true, "features": {}}',
            "must be 1, the format of this release, got",
        ),
        (
            '{"torchrec_io_schema": 1.0, "features": {}}',
            "must be 1, the format of this release, got",
        ),
        ('{"torchrec_io_schema": 1}', '"features" or "context" and "sequence", got'),
        ('{"torchrec_io_schema": 1, "context": {}}', '"context" and "sequence"'),
        ('{"torchrec_io_schema": 1, "sequence": {}}', '"context" and "sequence"'),
        ('{"torchrec_io_schema": 1, "features": {}, "more": {}}', "'features', 'more'"),
        ('{"torchrec_io_schema": 1, "features": []}', '"features" must be a JSON object'),
        ('{"torchrec_io_schema": 1, "features": {}}', "at least one feature"),
        ('{"torchrec_io_schema": 1, "torchrec_io_schema": 1}', "used twice"),
        (text_of(x=LABEL)[:-2] + ', "x": {}}}', "'x' is used twice"),
        ('{"torchrec_io_schema": 1, "features": {"\\ud800": {}}}', '"type" must be one of'),
        (text_of(**{"\ud800": LABEL}), "must not have surrogates"),
        ('{"torchrec_io_schema": NaN}', "NaN is not a JSON number"),
        ('{"torchrec_io_schema": -Infinity}', "-Infinity is not a JSON number"),
        ('{"torchrec_io_schema": 1e999}', "number 1e999 does not fit in float64"),
    ],
)
def test_other_texts_are_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason):
        tio.Schema.from_json(text)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (None, "a spec must be a JSON object"),
        ("int64", "a spec must be a JSON object"),
        ({}, '"type" must be one of'),
        ({"type": "Feature"}, "got 'Feature'"),
        ({"type": "RowSplits", "key": "x"}, "got 'RowSplits'"),
        ({"type": ["FixedLenFeature"]}, "must be one of"),
        ({"type": "VarLenFeature"}, "needs the argument 'dtype'"),
        ({**LABEL, "extra": 1}, "takes no argument 'extra'"),
        ({**LABEL, "self": 1}, "takes no argument 'self'"),
        ({**LABEL, "Shape": []}, "takes no argument 'Shape'"),
        ({**LABEL, "shape": None}, "shape must be a list of integers, got None"),
        ({**LABEL, "default_value": "nan"}, "must be integers for int64"),
        ({**LABEL, "default_value": {"nan": "fff8" + 12 * "0"}}, "bytes in a default_value"),
        ({**LABEL, "dtype": "string", "default_value": "\ud800"}, "must be str or bytes"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "0"}}, "got {'hex': '0'}"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "f f0"}}, "bytes in a default_v"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": [0]}}, "bytes in a default_value"),
        ({**LABEL, "dtype": "string", "default_value": {"hex": "", "x": 1}}, "got {'hex'"),
        ({**SPARSE, "size": [1], "already_sorted": 1}, "must be true or false, got 1"),
        ({**LABEL, "valid_range": ["nan", 1]}, "must be a number or None, got nan"),
        ({"type": "ImageFeature", "augment": {"type": "Flip"}}, "must be the name of a spec class"),
        ({"type": "ImageFeature", "augment": {"type": "RandomCrop"}}, "needs the argument 'size'"),
        ({"type": "ImageFeature", "jitter": {"type": "RandomFlip"}}, "must be a ColorJitter"),
        ({**RAGGED, "partitions": {}}, '"type" must be'),
        ({**RAGGED, "partitions": ["x"]}, "must be partitions of RaggedFeature"),
        ({**RAGGED, "partitions": [LABEL]}, "must be partitions of RaggedFeature"),
        (
            {**RAGGED, "partitions": [{"type": "RowSplits", "length": 1}]},
            "RowSplits takes no argument 'length'",
        ),
    ],
)
def test_other_specs_are_refused_by_name(spec: Any, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason) as caught:
        tio.Schema.from_json(text_of(x=spec))
    assert caught.value.feature == "x"


def test_invalid_schemas_are_refused() -> None:
    part = {"x": LABEL}
    text = json.dumps({"torchrec_io_schema": 1, "context": part, "sequence": part})
    with pytest.raises(tio.SchemaError):
        tio.Schema.from_json(text)


def test_errors_shorten_long_values() -> None:
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
