"""Samples that are read and written again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from torchrec_io.writing.encode import WriterEncoder
from tests.support import spec_strategies, stored_records
from tests.support.examples import example_of

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


@given(st.data())
def test_read_and_written_features_are_read_equal(data: st.DataObject) -> None:
    spec = stored_records.without_checks(data.draw(st.one_of(*_IN_EXAMPLES).filter(_is_readable)))
    stored = data.draw(stored_records.features(spec, "some"))
    record = tio.encode_example(stored, stored_records.kinds_of(spec, "some"))
    has_values = bool(stored.get(spec.stored_keys("some")[0].key))
    _check(record, tio.Schema({"some": spec}), spec, has_values=has_values)


@given(st.data())
def test_read_and_written_features_of_dicts_are_read_equal(data: st.DataObject) -> None:
    spec = stored_records.without_checks(data.draw(st.one_of(*_IN_EXAMPLES).filter(_is_readable)))
    stored = data.draw(stored_records.features(spec, "some/a"))
    record = tio.encode_example(stored, stored_records.kinds_of(spec, "some/a"))
    has_values = bool(stored.get(spec.stored_keys("some/a")[0].key))
    _check(record, tio.Schema({"some": {"a": spec}}), spec, has_values=has_values)


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
