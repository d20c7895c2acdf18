"""Rows of batches that are copied into a new arena: arguments out of bounds, changed offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io import _core


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


class TestWhatTheCoreRefuses:
    """Arrays and rows outside of the arenas."""

    sources = (np.arange(64, dtype=np.uint8),)
    items = _core.ArrayKind.items.value
    offsets = _core.ArrayKind.offsets.value
    arrays = np.array([[items, 1, 0, 8, 1, 0, 0]])
    places = np.array([[0, 8, 0]])
    rows = (np.array([[0, 2, 3]]),)

    @pytest.mark.parametrize(
        "changed",
        [
            {"places": np.array([[1, 8, 0]])},
            {"places": np.array([[-1, 7, 0]])},
            {"places": np.array([[0, -1, 0]])},
            {"places": np.array([[0, 4, 0]])},  # the rows are not there
            {"places": np.zeros((2, 3), np.int64)},
            {"places": np.zeros((1, 4), np.int64)},
            {"rows": [np.array([[0, -1, 2]])]},
            {"rows": [np.array([[0, 7, 2]])]},
            {"rows": [np.array([[0, 7, -2]])]},
            {"rows": [np.array([[1, 0, 1]])]},
            {"rows": [np.array([[-2, 0, 1]])]},
            {"rows": [np.array([[-1, 0, -1]])]},
            {"rows": []},
            {"arrays": np.array([[items, 0, 0, 8, 1, 0, 0]])},
            {"arrays": np.array([[items, 17, 0, 8, 1, 0, 0]])},
            {"arrays": np.array([[items, 1, 0, 8, 2, 0, 0]]), "places": np.array([[0, 8, 1]])},
            {"arrays": np.array([[offsets, 8, 0, 1, 1, 0, 0]]), "places": np.array([[0, 7, 0]])},
            {"arrays": np.array([[offsets, 2, 0, 1, 1, 0, 0]])},
            {"arrays": np.array([[9, 1, 0, 8, 1, 0, 0]])},
            {  # a value of padding that is not there
                "arrays": np.array([[offsets, 8, 0, 1, 1, 4, 9], [items, 1, 0, 1, 1, 0, 0]]),
                "places": np.array([[0, 7, 0], [0, 8, 0]]),
            },
        ],
    )
    def test_plans(self, changed: dict[str, Any]) -> None:
        given_: dict[str, Any] = {"arrays": self.arrays, "places": self.places, "rows": self.rows}
        given_ |= changed
        with pytest.raises(ValueError, match=r"must|needs|number of columns"):
            _core.RowGather(self.sources, given_["arrays"], given_["places"], given_["rows"])

    @pytest.mark.parametrize("target", [[-1, 0], [41, 0], [1 << 62, 0]])
    def test_targets(self, target: list[int]) -> None:
        gather = _core.RowGather(self.sources, self.arrays, self.places, self.rows)
        out = np.zeros(64, np.uint8)
        with pytest.raises(ValueError, match="inside of its arena"):
            gather.write(self.sources, np.array([target]), out)
        with pytest.raises(ValueError, match="those of the plan"):
            gather.write([np.zeros(63, np.uint8)], np.array([[0, 0]]), out)
        assert not out.any()
        gather.write(self.sources, np.array([[40, 0]]), out)
        assert out[40:].tolist() == [*range(16, 40)]


def test_too_many_values_for_int32_offsets() -> None:
    feature = tio.RaggedFeature("int64", "x")
    [sample] = tio.parse_examples([example_of(x=[1] * (1 << 15))], {"x": feature}).samples()
    with pytest.raises(OverflowError, match="row_splits_dtype='int64'"):
        tio.collate([sample] * (1 << 16))
