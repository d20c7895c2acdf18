"""Rows of batches that are copied into a new arena: arguments out of bounds, changed offsets."""

from __future__ import annotations

import pytest
import torch

import torchrec_io as tio
from tests.support.examples import example_of


def test_changed_offsets_never_lead_outside_of_the_values() -> None:
    """Offsets are Tensors that a user may change, also between two calls."""
    schema = {
        "words": tio.VarLenFeature("string"),
        "name": tio.FixedLenFeature([], "string"),
        "narrow": tio.RaggedFeature("int64", "x"),
        "sparse": tio.SparseFeature("si", "sv", "float32", 40),
    }
    stored = [
        example_of(words=[b"w" * i] * i, name=[b"n"], x=[i] * i, si=[i, 39], sv=[0.5, 1.0])
        for i in range(1, 6)
    ]
    batch = tio.parse_examples(stored, schema)
    samples = batch.samples()
    assert tio.collate(samples[1:4])["narrow"].tolist() == [[2] * 2, [3] * 3, [4] * 4]
    for value in (batch["words"], batch["words"].values, batch["name"], batch["narrow"]):
        value.offsets[:] = torch.tensor([-5, 1 << 30] * len(value.offsets))[: len(value.offsets)]
    batch["sparse"].indices[:] = torch.randint(-9, 1 << 40, batch["sparse"].indices.shape)
    joined = tio.collate(samples[1:4])
    for value in (joined["words"], joined["words"].values, joined["narrow"]):
        assert value.offsets[0] == 0
        assert bool((value.offsets.diff() >= 0).all())


def test_too_many_values_for_int32_offsets() -> None:
    feature = tio.RaggedFeature("int64", "x")
    [sample] = tio.parse_examples([example_of(x=[1] * (1 << 15))], {"x": feature}).samples()
    with pytest.raises(OverflowError, match="row_splits_dtype='int64'"):
        tio.collate([sample] * (1 << 16))
