"""Invalid specs: with few exceptions, TensorFlow and this library reject the same ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop.compare import batch_question, sequence_question, single_question
from tests.interop.generate import Spec
from tests.support.forms import schema_of, sequence_schema_of
from tests.support.wire import entry, example, int_feature
from torchrec_io.errors import DecodeError, SchemaError


def feature(kind: str, **more: Any) -> Spec:
    return {"type": kind, "dtype": "int64", **more}


def sparse(**more: Any) -> Spec:
    return feature("Sparse", **{"index_key": "i", "value_key": "v", "size": 4, **more})


def ragged(*partitions: tuple[str, Any], **more: Any) -> Spec:
    return feature("Ragged", partitions=[list(partition) for partition in partitions], **more)


VARLEN = feature("VarLen")
FIXED = feature("FixedLen", shape=[])
STEPS = feature("FixedLenSequence", shape=[], allow_missing=True)
IN_SPLITS = ragged(("RowSplits", "p"))

# name: spec, whether both libraries accept it.
SPECS: dict[str, tuple[Spec, bool]] = {
    "nothing": ({}, False),
    "negative shape": ({"x": FIXED | {"shape": [-1]}}, False),
    "open shape": ({"x": FIXED | {"shape": [None]}}, False),
    "negative shape of a step": ({"x": STEPS | {"shape": [-1]}}, False),
    "steps that may not miss": ({"x": STEPS | {"allow_missing": False}}, False),
    "two defaults of a step": ({"x": STEPS | {"default": [1, 2]}}, False),
    "a default of a step": ({"x": STEPS | {"default": [1]}}, True),
    "more index keys than sizes": ({"x": sparse(index_key=["i", "j"])}, False),
    "more sizes than index keys": ({"x": sparse(size=[4, 4])}, False),
    "no name of an index key": ({"x": sparse(index_key="")}, False),
    "no index key": ({"x": sparse(index_key=[], size=[])}, False),
    "no value key": ({"x": sparse(value_key="")}, False),
    "size 0": ({"x": sparse(size=0)}, True),
    "float splits": ({"x": ragged(row_splits_dtype="float32")}, False),
    "rows of length 0": ({"x": ragged(("UniformRowLength", 0))}, False),
    "rows of length -1": ({"x": ragged(("UniformRowLength", -1))}, False),
    "no value key of a ragged": ({"x": ragged(value_key="")}, False),
    # Keys that two features read.
    "dense and sparse": ({"v": FIXED, "x": sparse()}, False),
    "dense and index": ({"i": FIXED, "x": sparse()}, False),
    "sequence and sparse": ({"v": STEPS, "x": sparse()}, False),
    "values twice": ({"v": VARLEN, "x": sparse()}, True),
    "values of two dtypes": ({"v": VARLEN | {"dtype": "string"}, "x": sparse()}, False),
    "index twice": ({"i": VARLEN, "x": sparse()}, True),
    "index as strings": ({"i": VARLEN | {"dtype": "string"}, "x": sparse()}, False),
    "two sparse": ({"x": sparse(), "y": sparse(size=9)}, True),
    "two sparse of two dtypes": ({"x": sparse(), "y": sparse() | {"dtype": "string"}}, False),
    "index is value": ({"x": sparse(index_key="v")}, True),
    "index is value, of strings": ({"x": sparse(index_key="v") | {"dtype": "string"}}, False),
    "one index for two axes": ({"x": sparse(index_key=["i", "i"], size=[4, 4])}, True),
    "ragged and sparse": ({"v": ragged(), "x": sparse()}, False),
    "ragged and rows": ({"x": ragged(value_key="v"), "v": VARLEN}, False),
    "ragged and dense": ({"x": ragged(value_key="v"), "v": FIXED}, False),
    "partition and dense": ({"x": IN_SPLITS, "p": FIXED}, False),
    "partition and rows": ({"x": IN_SPLITS, "p": VARLEN}, False),
    "partition and ragged": ({"x": IN_SPLITS, "p": ragged()}, True),
    "partition of two splits dtypes": (
        {"x": IN_SPLITS, "p": ragged(row_splits_dtype="int64")},
        False,
    ),
    "partition of strings": ({"x": IN_SPLITS, "p": ragged() | {"dtype": "string"}}, False),
    "ragged of two dtypes": (
        {"x": ragged(value_key="v"), "y": ragged(value_key="v") | {"dtype": "float32"}},
        False,
    ),
    "ragged twice": ({"x": ragged(value_key="v"), "y": IN_SPLITS | {"value_key": "v"}}, True),
    "partition is value": ({"x": ragged(("RowSplits", "v"), value_key="v")}, True),
}

# Differences: name: spec, whether TensorFlow accepts it, whether this library accepts it.
DIFFERENT: dict[str, tuple[Spec, bool, bool]] = {
    "a dtype to cast to": ({"x": VARLEN | {"dtype": "int32"}}, False, True),
    "one size in a list": ({"x": sparse(size=[4])}, False, True),
    "one index key in a list": ({"x": sparse(index_key=["i"])}, False, True),
    "negative size": ({"x": sparse(size=-1)}, True, False),
    "an index key without a name in a list": ({"x": sparse(index_key=[""], size=[4])}, True, False),
    "a partition key without a name": ({"x": ragged(("RowSplits", ""))}, True, False),
}

SEQUENCE_SPECS: dict[str, tuple[Spec, Spec, bool]] = {
    "nothing": ({}, {}, False),
    "steps in the context": ({"x": STEPS}, {}, False),
    "sparse in the context": ({"x": sparse()}, {}, False),
    "fixed in lists": ({}, {"x": FIXED}, False),
    "sparse in lists": ({}, {"x": sparse()}, False),
    "a default of steps": ({}, {"x": STEPS | {"default": 1}}, False),
    "context only": ({"x": VARLEN}, {}, True),
    "partition and dense in the context": ({"x": IN_SPLITS, "p": FIXED}, {}, False),
    "partition and steps": ({}, {"x": IN_SPLITS, "p": STEPS}, False),
    "partition and rows": ({}, {"x": IN_SPLITS, "p": VARLEN}, False),
    "partition and ragged": ({}, {"x": IN_SPLITS, "p": ragged()}, True),
    "partition of that name in both": ({"x": IN_SPLITS}, {"y": IN_SPLITS}, True),
    "partition in one, feature in the other": ({"x": IN_SPLITS}, {"p": ragged()}, True),
}


def taken(spec: Spec) -> bool:
    """Return whether this library accepts a spec."""
    try:
        tio.parse_examples([], schema_of(spec))
    except SchemaError:
        return False
    return True


def test_specs(tf_oracle: TfOracle) -> None:
    alike = {name: (spec, expected, expected) for name, (spec, expected) in SPECS.items()}
    for name, (spec, tensorflow, torchrec_io) in {**alike, **DIFFERENT}.items():
        answer = tf_oracle.ask(**batch_question([], spec))
        assert ("features" in answer) == tensorflow, name
        assert taken(spec) == torchrec_io, name


def test_sequence_specs(tf_oracle: TfOracle) -> None:
    for name, (context, sequence, expected) in SEQUENCE_SPECS.items():
        answer = tf_oracle.ask(**sequence_question([b""], context, sequence))
        assert ("features" in answer) == expected, name
        try:
            tio.parse_sequence_examples([b""], sequence_schema_of(context, sequence))
        except SchemaError:
            assert not expected, name
        else:
            assert expected, name


@pytest.mark.parametrize("default", [None, []])
@pytest.mark.parametrize("shape", [[0], [2, 0]])
def test_features_of_no_values_are_required(
    tf_oracle: TfOracle, shape: list[int], default: Any
) -> None:
    """An empty default is none: both libraries refuse a record without the feature."""
    spec = {"x": FIXED | {"shape": shape, "default": default}}
    empty = example(entry("x", int_feature()))
    for record, is_accepted in ((b"", False), (empty, True)):
        assert ("features" in tf_oracle.ask(**batch_question([record], spec))) == is_accepted
        assert ("features" in tf_oracle.ask(**single_question(record, spec))) == is_accepted
        if not is_accepted:
            with pytest.raises(DecodeError, match="required"):
                tio.parse_examples([record], schema_of(spec))
            continue
        found = tio.parse_examples([record], schema_of(spec))["x"]
        assert (found.shape, found.dtype) == ((1, *shape), torch.int64)


@pytest.mark.parametrize("shape", [[0], [2, 0], [0, 3]])
def test_steps_of_no_values_are_rejected(shape: list[int]) -> None:
    # TensorFlow crashes with a division by zero, except for a single Example without the feature,
    # so it is not asked.
    with pytest.raises(SchemaError, match="must hold at least one value"):
        tio.FixedLenSequenceFeature(shape, "int64", allow_missing=True)


def test_name_in_both_parts_of_a_sequence_example_is_rejected() -> None:
    # TensorFlow returns a dict for each part, this library one dict for both.
    spec = {"x": tio.VarLenFeature("int64")}
    with pytest.raises(SchemaError, match="x"):
        tio.Schema(context=spec, sequence=spec)
