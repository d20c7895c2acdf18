"""SequenceExamples, and FixedLenSequenceFeature in Examples, against plain Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.examples import example_of, sequence_example_of
from torchrec_io.errors import DecodeError, SchemaError

INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*INTEGERS, *FLOATS, "string"]
Sequence = tio.FixedLenSequenceFeature
Steps = list[list[Any]]


def stored(dtype: str, value: int) -> Any:
    """A value that every dtype of its kind can hold."""
    if dtype == "string":
        return b"s" * (value % 3) + b"%d" % value
    return value / 2 if dtype in FLOATS else value % 2 if dtype == "bool" else value


def shaped(flat: list[Any], shape: list[int]) -> Any:
    """Values as nested lists; ``flat`` fills the shape."""
    if not shape:
        return flat[0]
    size = len(flat) // shape[0] if shape[0] else 0
    return [shaped(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]


# ---- FixedLenSequenceFeature ----


@st.composite
def padded_batches(draw: st.DrawFn) -> tuple[str, list[int], list[Steps]]:
    """A dtype, the shape of a step, and the values of the steps of each record."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(1, 3), max_size=2))
    count = torch.Size(shape).numel()
    value = st.integers(0, 100).map(lambda number: stored(dtype, number))
    step = st.lists(value, min_size=count, max_size=count)
    return dtype, shape, draw(st.lists(st.lists(step, max_size=5), max_size=5))


def check_padded(
    batch: tio.Batch, dtype: str, shape: list[int], records: list[Steps], fill: Any
) -> None:
    count = torch.Size(shape).numel()
    longest = max(map(len, records), default=0)
    column = batch["x"]
    assert tuple(column.shape) == (len(records), longest, *shape)
    if dtype != "string":
        assert column.dtype == getattr(torch, dtype)
    assert column.tolist() == [
        [shaped(step, shape) for step in [*steps, *[[fill] * count] * (longest - len(steps))]]
        for steps in records
    ]
    assert batch.lengths["x"].dtype == torch.int64
    assert batch.lengths["x"].tolist() == [len(steps) for steps in records]
    samples = batch.samples()
    assert [list(sample["x"].shape) for sample in samples] == [
        [len(steps), *shape] for steps in records
    ]
    assert [sample["x"].tolist() for sample in samples] == [
        [shaped(step, shape) for step in steps] for steps in records
    ]


@given(padded_batches())
def test_steps_are_padded(batch: Any) -> None:
    dtype, shape, records = batch
    schema = tio.Schema(sequence={"x": Sequence(shape, dtype)})
    written = [sequence_example_of({}, {"x": steps}) for steps in records]
    fill = b"" if dtype == "string" else 0
    check_padded(tio.parse_sequence_examples(written, schema), dtype, shape, records, fill)
    for record, steps in zip(written, records, strict=True):
        sample = tio.parse_sequence_example(record, schema)
        assert sample["x"].tolist() == [shaped(step, shape) for step in steps]


@pytest.mark.parametrize(
    ("dtype", "shape", "number", "change"),
    pairs(["int64", "uint8", "float32", "string"], [[], [1], [2]], [0, 7, 70], [-1, 1]),
)
def test_a_step_of_a_wrong_count_is_named(
    dtype: Any, shape: list[int], number: int, change: int
) -> None:
    count = torch.Size(shape).numel()
    value = stored(dtype, 1)
    steps = [[value] * count for _ in range(number + 3)]
    good = sequence_example_of({}, {"x": steps})
    steps[number] = [value] * (count + change)
    bad = sequence_example_of({}, {"x": steps})
    schema = tio.Schema(sequence={"x": Sequence(shape, dtype)})
    with pytest.raises(DecodeError, match=f"step {number} holds {count + change} ") as caught:
        tio.parse_sequence_examples([good, bad, good], schema)
    assert (caught.value.record, caught.value.feature) == (1, "x")
    assert caught.value.offset is not None


@pytest.mark.parametrize(("value", "kind"), [(0.5, "float"), (b"a", "bytes")])
def test_a_step_of_a_wrong_kind_is_refused(value: Any, kind: str) -> None:
    for number in (0, 7):
        steps = [[1] for _ in range(number + 3)]
        steps[number] = [value]
        record = sequence_example_of({}, {"x": steps})
        for feature in (Sequence([], "int64"), tio.VarLenFeature("int64")):
            reason = f"the record holds {kind} values, the schema wants int64"
            with pytest.raises(DecodeError, match=reason) as caught:
                tio.parse_sequence_example(record, tio.Schema(sequence={"x": feature}))
            assert caught.value.feature == "x"
            assert caught.value.offset is not None


@pytest.mark.parametrize(("dtype", "value"), [("int8", 128), ("bool", 2), ("uint32", -1)])
def test_a_step_that_does_not_fit_is_refused(dtype: Any, value: int) -> None:
    for steps in ([[value], [1]], [[1], [value]], [[1]] * 50 + [[value]]):
        record = sequence_example_of({}, {"x": steps})
        for feature in (Sequence([], dtype), tio.VarLenFeature(dtype)):
            with pytest.raises(DecodeError, match="does not fit") as caught:
                tio.parse_sequence_example(record, tio.Schema(sequence={"x": feature}))
            assert caught.value.feature == "x"


# ---- VarLenFeature and RaggedFeature ----


@st.composite
def ragged_batches(draw: st.DrawFn) -> tuple[str, list[Steps]]:
    dtype = draw(st.sampled_from(DTYPES))
    value = st.integers(0, 100).map(lambda number: stored(dtype, number))
    steps = st.lists(st.lists(value, max_size=4), max_size=5)
    return dtype, draw(st.lists(steps, max_size=5))


@given(ragged_batches())
def test_lists_of_any_length(batch: Any) -> None:
    dtype, records = batch
    schema = tio.Schema(
        sequence={
            "x": tio.VarLenFeature(dtype),
            "narrow": tio.RaggedFeature(dtype, "y"),
            "wide": tio.RaggedFeature(dtype, "z", row_splits_dtype="int64"),
        }
    )
    written = [sequence_example_of({}, dict.fromkeys("xyz", steps)) for steps in records]
    found = tio.parse_sequence_examples(written, schema)
    for name, splits_dtype in [("x", "int64"), ("narrow", "int32"), ("wide", "int64")]:
        column = found[name]
        assert column.tolist() == records
        for level in (column, column.values):
            assert level.offsets.dtype == getattr(torch, splits_dtype)
        if dtype != "string":
            assert column.flat_values.dtype == getattr(torch, dtype)
    for record, steps in zip(written, records, strict=True):
        sample = tio.parse_sequence_example(record, schema)
        assert isinstance(sample["x"], tio.Ragged)
        assert [sample[name].tolist() for name in schema] == [steps] * 3


# ---- context and lists together ----


def test_examples_are_sequence_examples_without_lists_and_the_other_way_round() -> None:
    record = example_of(label=[1, 2], name=[b"a"])
    loose = tio.Schema(
        context={"name": tio.FixedLenFeature([], "string")},
        sequence={"x": tio.VarLenFeature("int64")},
    )
    assert tio.parse_sequence_example(record, loose)["name"] == b"a"
    both = sequence_example_of({"name": [b"b"]}, {"x": [[1]]})
    assert tio.parse_example(both, {"name": tio.FixedLenFeature([], "string")})["name"] == b"b"
    with pytest.raises(SchemaError):
        tio.parse_examples([record], loose)
    with pytest.raises(SchemaError):
        flat: Any = {"x": tio.VarLenFeature("int64")}  # a dict says nothing of feature lists
        tio.parse_sequence_examples([record], flat)
