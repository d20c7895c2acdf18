"""Rows of batches that are copied into a new one, without parsing them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.every_kind import all_tensors
from tests.support.examples import example_of
from torchrec_io import _core
from torchrec_io._tensors.gather import gather, spans_of

ROWS = tio.RaggedFeature.RowLengths
SCHEMA = tio.Schema(
    {
        "a": tio.FixedLenFeature([], "int64"),
        "b": tio.FixedLenFeature([], "int64"),
        "flag": tio.FixedLenFeature([], "bool"),
        "pair": tio.FixedLenFeature([2], "float32"),
        "image": tio.RawFeature("uint8", [3, 3]),
        "name": tio.FixedLenFeature([2], "string"),
        "tokens": tio.VarLenFeature("bfloat16"),
        "words": tio.VarLenFeature("string"),
        "rows": tio.RaggedFeature("string", "r", [ROWS("l")]),
        "narrow": tio.RaggedFeature("int8", row_splits_dtype="int32"),
        "padded": tio.FixedLenSequenceFeature([2], "int16", True, default_value=-3),
        "padded_words": tio.FixedLenSequenceFeature([], "string", True),
        "sparse": tio.SparseFeature("si", "sv", "float32", 40),
        "sparse_words": tio.SparseFeature("si", "sw", "string", 40),
    }
)


def example(i: int) -> bytes:
    values: dict[str, Any] = {
        "a": [i],
        "b": [-i],
        "flag": [i % 2],
        "pair": [i / 2, i / 4],
        "image": [bytes([i % 256] * 9)],
        "name": [b"n%d" % i, b""],
        "tokens": [0.5 * i] * (i % 4),
        "words": [b"w" * i] * (i % 3),
        "r": [b"r%d" % each for each in range(i % 5)],
        "l": [i % 5, 0],
        "narrow": [i % 100] * (i % 3),
        "padded": [i, i] * (i % 5),
        "padded_words": [b"p%d" % i] * (i % 4),
        "si": [i % 40] * (i % 3 > 0) + [39],
        "sv": [0.5 * i] * (i % 3 > 0) + [1.0],
        "sw": [b"s"] * (i % 3 > 0) + [b"t" * i],
    }
    return example_of(**values)


def parts_of(batch: tio.Batch | None) -> list[Any]:
    """Return the names and the Tensors of a batch."""
    assert batch is not None
    return [*batch, *((tensor.dtype, tensor.tolist()) for tensor in all_tensors(batch))]


@given(st.data())
def test_rows_in_any_order_are_those_of_the_parsed_records(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    parts = [[example(7 * part + row) for row in range(size)] for part, size in enumerate(sizes)]
    places = [(part, row) for part, size in enumerate(sizes) for row in range(size)]
    taken = data.draw(st.lists(st.sampled_from(places), max_size=9)) if places else []
    batches = [tio.parse_examples(part, SCHEMA) for part in parts]
    gathered = gather(batches, np.array([(part, row, 1) for part, row in taken], np.int64))
    expected = tio.parse_examples([parts[part][row] for part, row in taken], SCHEMA)
    assert parts_of(gathered) == parts_of(expected)
    assert gathered is not None
    assert gathered.layout == expected.layout
    assert gathered.arena.numel() == expected.arena.numel()


def test_spans() -> None:
    batch = tio.parse_examples([example(row) for row in range(6)], SCHEMA)
    gathered = gather([batch], [(0, 4, 2), (0, 0, 0), (0, 1, 3)])
    single = gather([batch], spans_of(np.array([4, 5, 1, 2, 3])))
    assert parts_of(gathered) == parts_of(single)
    assert gathered is not None
    assert gathered["a"].tolist() == [4, 5, 1, 2, 3]


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        (tio.RawFeature("uint8", [None]), tio.RawFeature("uint8", [None])),  # lists
        (tio.VarLenFeature("int64"), tio.VarLenFeature("int32")),
        (tio.FixedLenFeature([1], "int64"), tio.FixedLenFeature([], "int64")),
    ],
)
def test_rows_that_must_be_joined_by_value(spec: Any, other: Any) -> None:
    record = example_of(x=[b"ab"] if isinstance(spec, tio.RawFeature) else [1])
    second = example_of(x=[b"abc"] if isinstance(spec, tio.RawFeature) else [1])
    batches = [
        tio.parse_examples([record, second], {"x": spec}),
        tio.parse_examples([second, record], {"x": other}),
    ]
    assert gather(batches, [(0, 0, 1), (1, 0, 1)]) is None


def test_changed_offsets_never_lead_outside_of_the_values() -> None:
    """Offsets are Tensors that a user may change."""
    batch = tio.parse_examples([example(row) for row in range(1, 6)], SCHEMA)
    for value in (batch["words"], batch["words"].values, batch["name"], batch["narrow"]):
        value.offsets[:] = torch.tensor([-5, 1 << 30] * len(value.offsets))[: len(value.offsets)]
    batch["sparse"].indices[:] = torch.randint(-9, 1 << 40, batch["sparse"].indices.shape)
    gathered = gather([batch], [(0, 1, 3)])
    assert gathered is not None
    for value in (gathered["words"], gathered["words"].values, gathered["narrow"]):
        assert value.offsets[0] == 0
        assert bool((value.offsets.diff() >= 0).all())


class TestWhatTheCoreRefuses:
    """Arrays and rows outside of the arenas."""

    sources = (np.arange(64, dtype=np.uint8),)
    items = _core.ArrayKind.items.value
    offsets = _core.ArrayKind.offsets.value
    arrays = np.array([[items, 1, 0, 8, 1, 0]])
    places = np.array([[0, 8, 8, 0]])
    rows = (np.array([[0, 2, 3]]),)

    @pytest.mark.parametrize(
        "changed",
        [
            {"places": np.array([[1, 8, 8, 0]])},
            {"places": np.array([[-1, 7, 8, 0]])},
            {"places": np.array([[0, -1, 8, 0]])},
            {"places": np.array([[0, 4, 8, 0]])},  # the rows are not there
            {"places": np.zeros((2, 4), np.int64)},
            {"places": np.zeros((1, 3), np.int64)},
            {"rows": [np.array([[0, -1, 2]])]},
            {"rows": [np.array([[0, 7, 2]])]},
            {"rows": [np.array([[0, 7, -2]])]},
            {"rows": [np.array([[1, 0, 1]])]},
            {"rows": [np.array([[-1, 0, 1]])]},
            {"rows": []},
            {"arrays": np.array([[items, 0, 0, 8, 1, 0]])},
            {"arrays": np.array([[items, 17, 0, 8, 1, 0]])},
            {"arrays": np.array([[items, 1, 0, 8, 2, 0]]), "places": np.array([[0, 8, 8, 1]])},
            {"arrays": np.array([[offsets, 8, 0, 1, 1, 0]]), "places": np.array([[0, 7, 1, 0]])},
            {"arrays": np.array([[offsets, 2, 0, 1, 1, 0]])},
            {"arrays": np.array([[9, 1, 0, 8, 1, 0]])},
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

    def test_offsets_that_are_too_large(self) -> None:
        values = np.zeros(1 << 16, np.uint8)
        values[:8].view(np.int32)[:] = (0, 1 << 15)
        arrays = np.array([[self.offsets, 4, 0, 1, 1, 0], [self.items, 1, 0, 1, 1, 0]])
        places = np.array([[0, 1, 1, 0], [0, 1 << 16, 1, 0]])
        row = np.array([[0, 0, 1]])
        assert _core.RowGather([values], arrays, places, [row]).sizes.tolist() == [1, 1 << 15]
        with pytest.raises(OverflowError, match="offsets of 32 bits"):
            _core.RowGather([values], arrays, places, [np.repeat(row, 1 << 16, axis=0)])
