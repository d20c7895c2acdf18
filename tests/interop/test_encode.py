"""TensorFlow reads the records that this package writes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle

# Each example is a request to another process.

NAMES = ["a", "ab", "b", "é", "long name " * 20, ""]
INT64 = st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "int64": INT64,
    "float32": st.floats(width=32),
    "string": st.binary(max_size=300),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, list[list[Any] | None]]:
    """Draw a dtype and its values in three records. None is a missing feature."""
    dtype = draw(st.sampled_from(list(LEAVES)))
    row = st.none() | st.lists(LEAVES[dtype], max_size=8)
    return dtype, draw(st.lists(row, min_size=3, max_size=3))


def bits(value: float) -> str:
    return struct.pack(">f", value).hex()


def to_json(values: list[Any], dtype: str) -> list[Any]:
    if dtype == "int64":
        return values
    return [bits(value) if dtype == "float32" else value.hex() for value in values]


def in_form(values: list[Any], dtype: str, form: str) -> Any:
    """Convert values to another type."""
    if form == "scalar" and len(values) == 1:
        return values[0]
    if form == "tensor" and dtype != "string":
        return torch.tensor(values, dtype=getattr(torch, dtype))
    if form == "array":
        return np.array(values, object if dtype == "string" else dtype)
    return tio.BytesArray.from_list(values) if form == "tensor" else values


@given(
    st.dictionaries(st.sampled_from(NAMES), columns(), min_size=1),
    st.sampled_from(["list", "scalar", "array", "tensor"]),
)
def test_tensorflow_reads_the_same_values(
    tf_oracle: TfOracle, given_columns: dict[str, tuple[str, list[list[Any] | None]]], form: str
) -> None:
    examples = [
        {
            name: in_form(row, dtype, form)
            for name, (dtype, rows) in given_columns.items()
            if (row := rows[i]) is not None
        }
        for i in range(3)
    ]
    kinds = {name: dtype for name, (dtype, _) in given_columns.items()}
    spec = {name: {"type": "VarLen", "dtype": dtype} for name, dtype in kinds.items()}
    answer = tf_oracle.parse_example(tio.encode_examples(examples, kinds), spec)
    assert answer["features"] == {
        name: {
            "dtype": dtype,
            "row_lengths": [len(row or []) for row in rows],
            "values": to_json([value for row in rows for value in row or []], dtype),
        }
        for name, (dtype, rows) in given_columns.items()
    }


def test_feature_without_a_kind_is_missing_for_tensorflow(tf_oracle: TfOracle) -> None:
    spec = {"x": {"type": "FixedLen", "dtype": "int64", "shape": [], "default": 7}}
    answer = tf_oracle.parse_example(tio.encode_examples([{"x": None}, {"x": 3}, {}]), spec)
    assert answer["features"]["x"]["values"] == [7, 3, 7]
