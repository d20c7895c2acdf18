"""Tests of schemas of lists: arguments, text forms and serialization."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.example_lists import ExampleListWithContext
from tests.support.spec_strategies import SPECS, names
from torchrec_io.errors import SchemaError

NUMBER = tio.FixedLenFeature([], "int64")
IN_LISTS = st.one_of(SPECS["FixedLenFeature"], SPECS["VarLenFeature"])
SCHEMAS = st.builds(
    tio.ranking.Schema,
    st.dictionaries(names.map("c".__add__), IN_LISTS, max_size=2),
    st.dictionaries(names.map("e".__add__), IN_LISTS, min_size=1, max_size=2),
)


def run(source: str) -> Any:
    """What a program leaves in ``schema``."""
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  # source that this package has made
    return space["schema"]


@given(SCHEMAS)
def test_as_text_and_back(schema: tio.ranking.Schema) -> None:
    for again in (tio.ranking.Schema.from_json(schema.to_json()), run(schema.to_python())):
        assert again == schema
        assert repr(again) == repr(schema)
    assert repr(pickle.loads(pickle.dumps(schema))) == repr(schema)


def test_text_forms() -> None:
    schema = tio.ranking.Schema(
        {"query": tio.VarLenFeature("int64")}, {"score": tio.FixedLenFeature([], "float32")}
    )
    assert schema.to_python() == (
        "import torchrec_io as tio\n\n"
        "schema = tio.ranking.Schema(\n"
        "    context={\n"
        '        "query": tio.VarLenFeature("int64"),\n'
        "    },\n"
        "    examples={\n"
        '        "score": tio.FixedLenFeature([], "float32"),\n'
        "    },\n"
        ")\n"
    )
    assert schema.to_json() == (
        '{"torchrec_io_schema": 1, "context": {"query": {"type": "VarLenFeature", '
        '"dtype": "int64"}}, "examples": {"score": {"type": "FixedLenFeature", "shape": [], '
        '"dtype": "float32"}}}'
    )


def test_a_mapping_of_both_parts() -> None:
    schema = tio.ranking.Schema({"b": NUMBER}, {"a": tio.VarLenFeature("string")})
    assert list(schema) == ["b", "a"]
    assert len(schema) == 2
    assert schema["a"] == tio.VarLenFeature("string")
    assert "c" not in schema
    assert dict(schema.context) == {"b": NUMBER}
    assert list(schema.examples) == ["a"]
    assert schema != tio.ranking.Schema({}, dict(schema))
    assert schema != tio.Schema(dict(schema))


@pytest.mark.parametrize(
    ("context", "examples", "reason"),
    [
        ({"a": NUMBER}, {}, "examples must be a dict of at least one feature"),
        ({"a": NUMBER}, None, "examples must be a dict of at least one feature"),
        ({"a": NUMBER}, {"a": NUMBER}, "the context and the examples both have"),
        ({}, {"a": tio.SparseFeature("i", "v", "int64", 3)}, "of the examples in lists"),
        ({}, {"a": tio.ImageFeature()}, "of the examples in lists"),
        ({}, {"a": tio.RawFeature("uint8", shape_key="s")}, "of the examples in lists"),
        (
            {},
            {"a": tio.FixedLenSequenceFeature([], "int64", allow_missing=True)},
            "of the examples in lists",
        ),
        ({}, {"a": 5}, "5"),
        (
            {"a": NUMBER},
            tio.Schema(context={}, sequence={"b": tio.VarLenFeature("int64")}),
            "got a schema with a sequence",
        ),
    ],
)
def test_invalid_schemas(context: Any, examples: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        tio.ranking.Schema(context, examples)


def test_json_of_the_other_kind_of_schema_is_rejected() -> None:
    lists = tio.ranking.Schema({}, {"a": NUMBER})
    with pytest.raises(SchemaError, match='must have "features" or "context" and "sequence"'):
        tio.Schema.from_json(lists.to_json())
    with pytest.raises(SchemaError, match='must have "context" and "examples", got'):
        tio.ranking.Schema.from_json(tio.Schema({"a": NUMBER}).to_json())


def test_lists_are_written_as_protobuf_reads_them() -> None:
    data = tio.ranking.encode({"q": 1}, [{"a": b"x"}, {"a": b"y"}, {}])
    message = ExampleListWithContext.FromString(data)
    assert message.context.SerializeToString() == tio.encode_example({"q": 1})
    examples = [example.SerializeToString() for example in message.examples]
    assert examples == tio.encode_examples([{"a": b"x"}, {"a": b"y"}, {}])
    assert not ExampleListWithContext.FromString(tio.ranking.encode(None, [])).HasField("context")
    assert tio.ranking.encode(None, []) == b""


def test_kinds_of_both_parts() -> None:
    schema = tio.ranking.Schema(
        {"q": tio.VarLenFeature("float32")}, {"a": tio.VarLenFeature("int64")}
    )
    expected = tio.ranking.encode({"q": [1.0]}, [{"a": [2]}])
    assert tio.ranking.encode({"q": [1]}, [{"a": [2]}], schema) == expected
    [empty] = ExampleListWithContext.FromString(
        tio.ranking.encode({}, [{"a": []}], {"a": "int64"})
    ).examples
    assert empty.features.feature["a"].WhichOneof("kind") == "int64_list"
    with pytest.raises(ValueError, match="example 1"):
        tio.ranking.encode({}, [{"a": [1]}, {"a": []}])
