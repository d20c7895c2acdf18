"""Schemas with dicts of features: names, paths, text forms and errors."""

from __future__ import annotations

import copy
import json
import pickle
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given

import torchrec_io as tio
from tests.support.nestings import Tree, flat_schema, leaves_of, specs_of, trees
from tests.support.spec_strategies import schemas

LABEL = tio.VarLenFeature("int64")
BOX = tio.FixedLenFeature([4], "float32")
NESTED = tio.Schema({"id": LABEL, "objects": {"box": BOX, "deep": {"label": LABEL}}, "a/b": BOX})


def test_it_is_a_mapping_of_flat_names() -> None:
    assert list(NESTED) == ["id", "objects/box", "objects/deep/label", "a/b"]
    assert len(NESTED) == 4
    assert NESTED["objects/deep/label"] is LABEL
    assert "objects/box" in NESTED
    assert "objects" not in NESTED
    assert dict(NESTED.context) == dict(NESTED)
    assert NESTED.paths == {
        "objects/box": ("objects", "box"),
        "objects/deep/label": ("objects", "deep", "label"),
    }
    with pytest.raises(TypeError):
        NESTED.paths["a/b"] = ("a", "b")  # type: ignore[index]  # read-only
    assert tio.Schema({"id": LABEL, "a/b": BOX}).paths == {}


@given(trees)
def test_names_and_paths(tree: Tree) -> None:
    schema, flat = tio.Schema(specs_of(tree)), flat_schema(tree)
    assert list(schema.items()) == list(flat.items())
    assert list(schema) == [name for name, _ in leaves_of(tree)]
    assert (schema == flat) == all(isinstance(leaf, str) for leaf in tree.values())
    for name, path in schema.paths.items():
        assert "/".join(path) == name
        inner: Any = tree
        for key in path:
            inner = inner[key]
        assert isinstance(inner, str)


@given(schemas)
def test_copies_keep_their_dicts(schema: tio.Schema) -> None:
    again = [
        pickle.loads(pickle.dumps(schema)),
        copy.deepcopy(schema),
        tio.Schema.from_json(schema.to_json()),
    ]
    if not schema.is_sequence:
        again.append(tio.Schema(schema))
        assert tio.Schema({"within": schema}).paths == {
            f"within/{name}": ("within", *schema.paths.get(name, (name,))) for name in schema
        }
    for one in again:
        assert one.to_json() == schema.to_json()  # a nan that was pickled equals none
        assert dict(one.paths) == dict(schema.paths)
        assert repr(one) == repr(schema)


def test_dicts_count_for_equality() -> None:
    assert tio.Schema(dict(NESTED)) != NESTED
    assert tio.Schema({"a": {"b/c": BOX}}) != tio.Schema({"a": {"b": {"c": BOX}}})
    assert tio.Schema({"a": MappingProxyType({"b": BOX})}) == tio.Schema({"a": {"b": BOX}})


def test_as_text() -> None:
    text = json.loads(NESTED.to_json())
    assert text["features"]["objects"]["type"] == "dict"
    assert list(text["features"]["objects"]["features"]) == ["box", "deep"]
    assert NESTED.to_python() == (
        "import torchrec_io as tio\n"
        "\n"
        "schema = tio.Schema(\n"
        "    {\n"
        '        "id": tio.VarLenFeature("int64"),\n'
        '        "objects": {\n'
        '            "box": tio.FixedLenFeature([4], "float32"),\n'
        '            "deep": {\n'
        '                "label": tio.VarLenFeature("int64"),\n'
        "            },\n"
        "        },\n"
        '        "a/b": tio.FixedLenFeature([4], "float32"),\n'
        "    }\n"
        ")\n"
    )
    assert repr(tio.Schema({"a": {"b": LABEL}})) == (
        f"Schema({{\n    'a': {{\n        'b': {LABEL!r},\n    }},\n}})"
    )


def test_both_parts_of_a_sequence_may_fill_one_dict() -> None:
    schema = tio.Schema(context={"a": {"x": LABEL}}, sequence={"a": {"y": LABEL}, "z": LABEL})
    assert dict(schema.paths) == {"a/x": ("a", "x"), "a/y": ("a", "y")}
    example = tio.encode_sequence_example({"a/x": [1]}, {"a/y": [[2], [3]], "z": [[4]]})
    sample = tio.parse_sequence_example(example, schema)
    assert list(sample) == ["a", "z"]
    assert sample["a"]["x"].tolist() == [1]
    assert sample["a"]["y"].tolist() == [[2], [3]]
    again = tio.Schema.from_json(schema.to_json())
    assert again == schema
    assert "'a': {\n        'y'" in repr(again)


def test_lists_of_examples() -> None:
    number = tio.FixedLenFeature([], "int64")
    schema = tio.ranking.Schema({"a": {"q": number}}, {"a": {"d": number}, "e": {"f": LABEL}})
    assert list(schema) == ["a/q", "a/d", "e/f"]
    assert schema.paths == {"a/q": ("a", "q"), "a/d": ("a", "d"), "e/f": ("e", "f")}
    flat = tio.ranking.Schema(dict(schema.context), dict(schema.examples))
    assert flat != schema
    for again in (
        pickle.loads(pickle.dumps(schema)),
        tio.ranking.Schema.from_json(schema.to_json()),
    ):
        assert again == schema
        assert repr(again) == repr(schema)
    record = tio.ranking.encode({"a/q": 5}, [{"a/d": 6, "e/f": [7]}, {"a/d": 8, "e/f": [9]}])
    batch = tio.ranking.parse([record], schema)
    assert list(batch) == ["a", "e"]
    assert batch["a"]["q"].tolist() == [5]
    assert batch["a"]["d"].tolist() == [[6, 8]]
    assert batch["e"]["f"].tolist() == [[[7], [9]]]
    with pytest.raises(tio.SchemaError, match="a feature or of a dict in both parts"):
        tio.ranking.Schema({"a": number}, {"a": {"d": number}})


# ---- what is refused ----


@pytest.mark.parametrize(
    ("features", "reason", "name"),
    [
        ({"a/b": BOX, "a": {"b": BOX}}, "two features have this flat name", "a/b"),
        ({"a": {"b": {"c": BOX}, "b/c": BOX}}, "two features have this flat name", "a/b/c"),
        ({"a": {}}, "must be a spec or a dict of specs, got an empty dict", "a"),
        ({"a": {"b": {"c": {}}}}, "must be a spec or a dict of specs, got an empty dict", "a/b/c"),
        ({"a": {"b": 64}}, "or the dtype of one value, such as 'int64', got 64", "a/b"),
        ({"a": {"b": "int65"}}, "dtype must be one of int64, .* got 'int65'", "a/b"),
        ({"a": {1: BOX}}, "the name of a feature must be a str, got 1", None),
        ({1: {"a": BOX}}, "the name of a feature must be a str, got 1", None),
        ({"a": {"\ud800": BOX}}, "must not have surrogates", None),
        ({"a": {"b": tio.FixedLenSequenceFeature([], "int64")}}, "allow_missing", "a/b"),
    ],
)
def test_invalid_arguments_are_refused(features: Any, reason: str, name: str | None) -> None:
    with pytest.raises(tio.SchemaError, match=reason) as caught:
        tio.Schema(features)
    assert caught.value.feature == name


def test_a_feature_is_not_where_a_dict_is() -> None:
    sequence: dict[str, Any]
    for context, sequence, name in (
        ({"a": LABEL}, {"a": {"b": LABEL}}, "a"),
        ({"a": {"b": {"c": LABEL}}}, {"a": {"b": LABEL}}, "a/b"),
    ):
        with pytest.raises(tio.SchemaError, match="of a dict in both parts") as caught:
            tio.Schema(context=context, sequence=sequence)
        assert caught.value.feature == name
    # They are no keys of one dict.
    assert len(tio.Schema(context={"a/b": LABEL}, sequence={"a": {"b/c": LABEL}})) == 2


def test_a_sequence_is_no_part() -> None:
    with pytest.raises(
        tio.SchemaError, match="must be a dict or a schema of Examples, got Schema with context"
    ):
        tio.Schema({"a": tio.Schema(context={"x": LABEL}, sequence={})})


def _levels(count: int, leaf: Any) -> dict[str, Any]:
    made = {"x": leaf}
    for _ in range(count - 1):
        made = {"x": made}
    return made


def test_levels() -> None:
    schema = tio.Schema(_levels(100, BOX))
    assert list(schema) == ["/".join("x" * 100)]
    assert tio.Schema.from_json(schema.to_json()) == schema
    made: dict[str, Any] = {}
    exec(schema.to_python(), made)  # noqa: S102  # what it wrote itself
    assert made["schema"] == schema
    with pytest.raises(tio.SchemaError, match="nested at most 100 levels deep"):
        tio.Schema(_levels(101, BOX))
    cycle: dict[str, Any] = {"a": BOX}
    cycle["x"] = cycle
    with pytest.raises(tio.SchemaError, match="nested at most 100 levels deep"):
        tio.Schema(cycle)


@pytest.mark.parametrize(
    ("feature", "reason", "name"),
    [
        ({"type": "dict"}, r'must have "type" and "features", got \[.type.\]', "a"),
        ({"type": "dict", "features": {}, "more": 1}, "'features', 'more'", "a"),
        ({"type": "dict", "features": []}, '"features" of a dict must be a JSON object', "a"),
        ({"type": "dict", "features": {}}, "an empty dict", "a"),
        ({"type": "dict", "features": {"b": {}}}, "must be one of .*, dict, got None", "a/b"),
        (
            {"type": "dict", "features": {"b": {"type": "VarLenFeature"}}},
            "needs the argument 'dtype'",
            "a/b",
        ),
    ],
)
def test_json_that_is_refused(feature: Any, reason: str, name: str) -> None:
    text = json.dumps({"torchrec_io_schema": 1, "features": {"a": feature}})
    with pytest.raises(tio.SchemaError, match=reason) as caught:
        tio.Schema.from_json(text)
    assert caught.value.feature == name


@pytest.mark.parametrize("levels", [101, 5000])
def test_json_that_is_too_deep(levels: int) -> None:
    text = '{"type": "dict", "features": {"x": ' * levels + "{}" + "}}" * levels
    with pytest.raises(tio.SchemaError, match=r"at most 100 levels deep|nested too deep"):
        tio.Schema.from_json(f'{{"torchrec_io_schema": 1, "features": {{"x": {text}}}}}')
