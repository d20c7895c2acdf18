"""Rows of batches that are joined without parsing them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io._tensors.join import join_dense

SCHEMA = tio.Schema(
    {
        "a": tio.FixedLenFeature([], "int64"),
        "b": tio.FixedLenFeature([], "int64"),
        "flag": tio.FixedLenFeature([], "bool"),
        "pair": tio.FixedLenFeature([2], "float32"),
        "deep": {"image": tio.RawFeature("uint8", [3, 3])},
    }
)


def examples(begin: int, count: int) -> list[bytes]:
    found = []
    for number in range(begin, begin + count):
        values: dict[str, Any] = {
            "a": [number],
            "b": [-number],
            "flag": [number % 2],
            "pair": [number / 2, number / 4],
            "deep/image": [bytes([number % 256] * 9)],
        }
        found.append(example_of(**values))
    return found


def columns_of(batch: tio.Batch) -> dict[str, Any]:
    return {name: value.tolist() for name, value in batch.flat_columns().items()}


@given(st.data())
def test_joined_rows_are_those_of_the_parsed_records(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    parts = [examples(100 * number, size) for number, size in enumerate(sizes)]
    rows = [
        data.draw(st.lists(st.integers(0, size - 1), unique=True).map(sorted)) if size else []
        for size in sizes
    ]
    taken = [part[row] for part, of_part in zip(parts, rows, strict=True) for row in of_part]
    order = None
    if data.draw(st.booleans()) and taken:
        order = np.array(data.draw(st.lists(st.integers(0, len(taken) - 1))), np.int64)
        taken = [taken[row] for row in order.tolist()]
    joined = join_dense(
        [tio.parse_examples(part, SCHEMA) for part in parts],
        [np.array(of_part, np.int64) for of_part in rows],
        order,
    )
    expected = tio.parse_examples(taken, SCHEMA)
    assert joined is not None
    assert columns_of(joined) == columns_of(expected)
    assert joined["deep"]["image"].shape == expected["deep"]["image"].shape
    assert [joined[name].dtype for name in ("a", "flag", "pair")] == [
        expected[name].dtype for name in ("a", "flag", "pair")
    ]


@pytest.mark.parametrize(
    "spec",
    [
        tio.VarLenFeature("int64"),
        tio.FixedLenFeature([], "string", default_value=""),
        tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
    ],
)
def test_other_columns_must_be_parsed_again(spec: Any) -> None:
    schema = {"a": tio.FixedLenFeature([], "int64"), "x": spec}
    batch = tio.parse_examples([example_of(a=[1])], schema)
    assert join_dense([batch], [np.zeros(1, np.int64)]) is None
