"""Tests of all kinds of columns in a Batch, and of collating their samples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import torchrec_io as tio
from tests.support.every_kind import tensors_of
from tests.support.examples import example_of, sequence_example_of
from tests.support.written_tensors import WRITTEN

Feature = tio.RaggedFeature
SCHEMA: dict[str, Any] = {
    "label": tio.FixedLenFeature([], "int16"),
    "name": tio.FixedLenFeature([], "string"),
    "pair": tio.FixedLenFeature([2], "string", [b"x", b""]),
    "ids": tio.VarLenFeature("int32"),
    "words": tio.VarLenFeature("string"),
    "padded": tio.FixedLenSequenceFeature([], "float16", True, -1.5),
    "blocks": tio.FixedLenSequenceFeature([2], "uint8", True),
    "texts": tio.FixedLenSequenceFeature([], "string", True, b"<pad>"),
    "narrow": Feature("int64", "v"),
    "nested": Feature("int64", "v", [Feature.RowLengths("n")]),
    "wide": Feature("float32", "f", [Feature.RowLimits("m"), Feature.UniformRowLength(1)], "int64"),
    "uniform": Feature("string", "s", [Feature.UniformRowLength(2)]),
    "sparse": tio.SparseFeature("i", "sv", "float32", 5),
    "places": tio.SparseFeature(["i", "j"], "st", "string", [5, 3]),
    "raw": tio.RawFeature("complex64", [2], little_endian=False),
    "tensor": tio.SerializedTensorFeature("bool", [1, 2, 2]),
}
OPTIONAL = (
    "ids",
    "words",
    "padded",
    "blocks",
    "texts",
    "v",
    "n",
    "m",
    "f",
    "s",
    "i",
    "j",
    "sv",
    "st",
)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """An Example for the schema; what may be missing often is."""

    def some(value: Any, most: int = 4) -> list[Any]:
        drawn: list[Any] = draw(st.lists(value, max_size=most))
        return drawn

    small, text = st.integers(0, 100), st.binary(max_size=4)
    floats = st.integers(-8, 8).map(lambda value: value / 2)
    lengths = some(st.integers(0, 3), 3)
    total = sum(lengths)
    entries = some(st.tuples(st.integers(0, 4), st.integers(0, 2), floats, text))
    features: dict[str, list[Any]] = {
        "label": [draw(small)],
        "name": [draw(text)],
        "ids": some(small),
        "words": some(text),
        "padded": some(floats),
        "blocks": some(small) * 2,
        "texts": some(text),
        "v": list(range(total)),
        "n": lengths,
        "m": list(itertools.accumulate(lengths)),
        "f": [value / 2 for value in range(total)],
        "s": some(text) * 2,
        "i": [entry[0] for entry in entries],
        "j": [entry[1] for entry in entries],
        "sv": [entry[2] for entry in entries],
        "st": [entry[3] for entry in entries],
        "raw": [np.array([draw(floats), 1j], ">c8").tobytes()],
        "tensor": [bytes.fromhex(WRITTEN["bool"][1])],
    }
    if draw(st.booleans()):
        features["pair"] = [draw(text), draw(text)]
    return example_of(**{k: v for k, v in features.items() if v or k not in OPTIONAL})


def plain(value: Any) -> Any:
    """A column or value as Python's own, with all that tells it from others."""
    if isinstance(value, tio.Sparse):
        return value.dense_shape, value.indices.tolist(), plain(value.values)
    if isinstance(value, tio.Ragged):
        return str(value.offsets.dtype), value.tolist(), plain(value.flat_values)
    if isinstance(value, tio.BytesArray):
        return tuple(value.shape), value.tolist()
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.tolist()
    return value


def contents(batch: tio.Batch) -> dict[str, Any]:
    return {
        **{name: plain(value) for name, value in batch.items()},
        **{f"{name} lengths": plain(value) for name, value in batch.lengths.items()},
    }


some_records = st.lists(records(), min_size=1, max_size=5)


# ---- samples and back ----


@given(some_records, st.data())
def test_collating_samples_restores_the_batch(stored: list[bytes], data: st.DataObject) -> None:
    batch = tio.parse_examples(stored, SCHEMA)
    again = tio.collate(batch.samples())
    assert list(again) == list(SCHEMA)
    assert contents(again) == contents(batch)
    chosen = data.draw(st.lists(st.integers(0, len(stored) - 1), min_size=1, max_size=6))
    samples = batch.samples()
    picked = tio.collate([samples[i] for i in chosen])
    assert contents(picked) == contents(tio.parse_examples([stored[i] for i in chosen], SCHEMA))
    singles = tio.collate([tio.parse_example(record, SCHEMA) for record in stored])
    assert contents(singles) == contents(batch)


@given(some_records)
def test_samples_are_the_records(stored: list[bytes]) -> None:
    samples = tio.parse_examples(stored, SCHEMA).samples()
    for sample, record in zip(samples, stored, strict=True):
        single = tio.parse_example(record, SCHEMA)
        assert list(sample) == list(SCHEMA)
        for name, value in single.items():
            found = sample[name]
            assert type(found) is type(value)
            assert plain(found) == plain(value)


@given(
    st.lists(
        st.tuples(
            st.lists(st.lists(st.binary(max_size=3), max_size=3), max_size=3),
            st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_collating_sequences_restores_the_batch(parts: list[tuple[Any, Any]]) -> None:
    schema = tio.Schema(
        context={"ids": tio.VarLenFeature("int64")},
        sequence={
            "words": tio.VarLenFeature("string"),
            "steps": tio.FixedLenSequenceFeature([2], "float32"),
            "rows": tio.RaggedFeature("int8", "ints"),
        },
    )
    stored = [
        sequence_example_of(
            {"ids": list(range(len(words)))},
            {"words": words, "steps": [[float(v) for v in step] for step in steps], "ints": steps},
        )
        for words, steps in parts
    ]
    batch = tio.parse_sequence_examples(stored, schema)
    assert contents(tio.collate(batch.samples())) == contents(batch)
    singles = [tio.parse_sequence_example(record, schema) for record in stored]
    assert contents(tio.collate(singles)) == contents(batch)


# ---- elsewhere ----


def make_batch() -> tio.Batch:
    shared: dict[str, Any] = {
        "name": [b"n"],
        "raw": [np.array([1.5, 2j], ">c8").tobytes()],
        "tensor": [bytes.fromhex(WRITTEN["bool"][1])],
    }
    rich = example_of(
        **shared,
        label=[1],
        ids=[1, 2],
        words=[b"w"],
        padded=[0.5],
        blocks=[1, 2, 3, 4],
        texts=[b"t", b"u"],
        v=[1, 2, 3],
        n=[1, 2],
        m=[1, 3],
        f=[0.5, 1.0, 1.5],
        s=[b"a", b"b"],
        i=[4, 0],
        j=[0, 2],
        sv=[1.0, 2.0],
        st=[b"later", b"first"],
    )
    return tio.parse_examples([rich, example_of(**shared, label=[2])], SCHEMA)


def test_all_columns_are_aligned_views_of_the_arena() -> None:
    batch = make_batch()
    for made in (batch, tio.collate(batch.samples()), tio.pad_collate(batch.samples()[:1] * 2)):
        for value in [*made.values(), *made.lengths.values()]:
            for tensor in tensors_of(value):
                assert tensor.untyped_storage().data_ptr() == made.arena.data_ptr()
                assert tensor.data_ptr() % 64 == 0 or not tensor.numel()


def test_sparse_arrays_of_different_shapes_are_rejected() -> None:
    one = tio.Sparse(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0), (3,))
    other = tio.Sparse(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0), (4,))
    with pytest.raises(ValueError, match="have different shapes"):
        tio.collate([{"x": one}, {"x": other}])
    with pytest.raises(TypeError, match="Sparse and Tensor"):
        tio.collate([{"x": one}, {"x": torch.zeros(3)}])
