"""Rows of batches, joined, selected and padded in all ways, against a model in plain Python."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.data import default_collate

import torchrec_io as tio
from tests.support.every_kind import all_tensors
from tests.support.examples import example_of

Ragged = tio.RaggedFeature
SCHEMA: dict[str, Any] = {
    "id": tio.FixedLenFeature([], "int64"),
    "other": tio.FixedLenFeature([], "int64"),
    "pair": tio.FixedLenFeature([2], "bfloat16"),
    "name": tio.FixedLenFeature([], "string"),
    "names": tio.FixedLenFeature([2], "string"),
    "ids": tio.VarLenFeature("int32"),
    "words": tio.VarLenFeature("string"),
    "narrow": Ragged("float32", "f", row_splits_dtype="int32"),
    "nested": Ragged("int64", "v", [Ragged.RowLengths("n")]),
    "padded": tio.FixedLenSequenceFeature([], "int64", True, -1),
    "blocks": tio.FixedLenSequenceFeature([2], "uint8", True),
    "texts": tio.FixedLenSequenceFeature([], "string", True, b"<pad>"),
    "sparse": tio.SparseFeature("i", "sv", "float64", 9),
    "free": tio.RawFeature("uint8", shape_key="shape"),
}
FILLS: dict[str, Any] = {"padded": -1, "blocks": [0, 0], "texts": b"<pad>"}
# dtypes of the numbers, and of the offsets of their rows.
DTYPES: dict[str, list[torch.dtype]] = {
    "id": [torch.int64],
    "other": [torch.int64],
    "pair": [torch.bfloat16],
    "ids": [torch.int32, torch.int64],
    "narrow": [torch.float32, torch.int32],
    "nested": [torch.int64, torch.int32, torch.int32],
    "padded": [torch.int64],
    "blocks": [torch.uint8],
    "sparse": [torch.float64, torch.int64],
    "free": [torch.uint8],
}
Record = dict[str, Any]

small, text = st.integers(0, 99), st.binary(max_size=4)
floats = st.integers(-8, 8).map(lambda value: value / 2)


def few(values: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=most)


def two(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=2, max_size=2)


records: st.SearchStrategy[Record] = st.fixed_dictionaries(
    {
        "id": small,
        "other": small,
        "pair": two(floats),
        "name": text,
        "names": two(text),
        "ids": few(small),
        "words": few(text),
        "narrow": few(floats),
        "nested": few(few(small, 3)),
        "padded": few(small),
        "blocks": few(two(small)),
        "texts": few(text),
        "sparse": st.dictionaries(st.integers(0, 8), floats, max_size=4).map(
            lambda entries: sorted(entries.items())
        ),
        "free": few(small, 2),
    }
)


def stored(record: Record) -> bytes:
    values = {name: record[name] for name in ("pair", "names", "ids", "words", "padded", "texts")}
    values |= {name: [record[name]] for name in ("id", "other", "name")}
    values |= {
        "f": record["narrow"],
        "v": [*itertools.chain(*record["nested"])],
        "n": [*map(len, record["nested"])],
        "blocks": [*itertools.chain(*record["blocks"])],
        "i": [at for at, _ in record["sparse"]],
        "sv": [value for _, value in record["sparse"]],
        "free": [bytes(record["free"])],
        "shape": [len(record["free"])],
    }
    return example_of(**{name: value for name, value in values.items() if value})


def parsed(chosen: list[Record], schema: dict[str, Any] = SCHEMA) -> tio.Batch:
    return tio.parse_examples([stored(record) for record in chosen], schema)


# ---- what is expected ----


def padded(rows: list[Any], length: int, fill: Any) -> list[Any]:
    return [row[:length] + [fill] * (length - len(row)) for row in rows]


def expected(chosen: list[Record], widths: dict[str, int] | None = None) -> dict[str, Any]:
    """The columns of some records; ``widths`` are lengths of padded rows."""
    columns = {name: [record[name] for record in chosen] for name in SCHEMA}
    for name, fill in FILLS.items():
        longest = max(map(len, columns[name]), default=0)
        columns[name] = padded(columns[name], (widths or {}).get(name, longest), fill)
    return columns


def expected_padded(
    chosen: list[Record], fill: int, length: Callable[[int], tuple[int, int]]
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The columns whose rows are cut and padded, and the lengths."""
    columns = {name: [record[name] for record in chosen] for name in SCHEMA}
    inner = max((len(row) for rows in columns["nested"] for row in rows), default=0)
    fills = {**FILLS, "ids": fill, "words": b"", "narrow": float(fill), "nested": [fill] * inner}
    lengths = {}
    for name, value in fills.items():
        rows = columns[name]
        if name == "nested":
            rows = [padded(row, inner, fill) for row in rows]
        kept, size = length(max(map(len, rows), default=0))
        lengths[name] = [min(len(row), kept) for row in rows]
        columns[name] = padded([row[:kept] for row in rows], size, value)
    return columns, lengths


def plain_value(value: Any) -> Any:
    """A value of a record as in the model."""
    if isinstance(value, tio.Sparse):
        return list(zip(value.indices.flatten().tolist(), value.values.tolist(), strict=True))
    return value if isinstance(value, bytes) else value.tolist()


def plain(column: Any) -> list[Any]:
    if isinstance(column, (tio.Sparse, list)):
        rows = column if isinstance(column, list) else column.rows()
        return list(map(plain_value, rows))
    found: list[Any] = column.tolist()
    return found


def check(batch: tio.Batch, columns: dict[str, Any], *, is_padded: bool = False) -> None:
    assert list(batch) == list(SCHEMA)
    assert {name: plain(value) for name, value in batch.items()} == columns
    for tensor in all_tensors(batch):  # aligned views of one arena
        assert tensor.untyped_storage().data_ptr() == batch.arena.data_ptr()
        assert tensor.data_ptr() % 64 == 0 or not tensor.numel()
    for name, (numbers, *offsets) in DTYPES.items():
        value = batch[name]
        found = []
        while isinstance(value, tio.Ragged):
            found.append(value.offsets.dtype)
            value = value.values
        if isinstance(value, tio.Sparse):
            found.append(value.indices.dtype)
            value = value.values
        values = value if isinstance(value, list) else [value]
        assert {each.dtype for each in values} <= {numbers}
        if not is_padded or name == "sparse":
            assert found == offsets
        else:
            assert found == []


# ---- samples that come in many ways ----


def left(sample: tio.Sample) -> tio.Sample:
    sample.leave()
    return sample


WAYS: list[Callable[[tio.Sample], tio.Sample]] = [
    lambda sample: sample,
    lambda sample: sample,
    left,
    lambda sample: pickle.loads(pickle.dumps(sample)),
    lambda sample: tio.Sample(dict(sample), *sample.hints),  # is joined value by value
]
batches_of_records = st.lists(st.lists(records, min_size=1, max_size=4), min_size=1, max_size=3)
picks = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=5
)
ways = st.lists(st.sampled_from(range(len(WAYS))), min_size=1, max_size=4)
lengths_of_rows = st.one_of(st.none(), st.integers(0, 5))
buckets_of_rows = st.sampled_from([None, (2, 5), (8,)])


def picked(
    parts: list[list[Record]],
    picks: list[tuple[int, int, int]],
    ways: list[int],
    schema: dict[str, Any] = SCHEMA,
) -> tuple[list[tio.Sample], list[Record]]:
    """Runs of the samples of several batches, and their records."""
    samples = [parsed(part, schema).samples() for part in parts]
    taken: list[tio.Sample] = []
    chosen: list[Record] = []
    for part, begin, count in picks:
        records, rows = parts[part % len(parts)], samples[part % len(parts)]
        run = slice(begin % len(rows), begin % len(rows) + count)
        taken += rows[run]
        chosen += records[run]
    turns = itertools.cycle(ways)
    return [WAYS[next(turns)](sample) for sample in taken], chosen


@given(batches_of_records, picks, ways)
def test_joined_samples_are_the_batch_of_their_records(
    parts: list[list[Record]], picks: list[tuple[int, int, int]], ways: list[int]
) -> None:
    samples, chosen = picked(parts, picks, ways)
    for join in (tio.collate, default_collate, tio.pin_collate):
        batch = join(samples)
        check(batch, expected(chosen))
        assert {name: value.tolist() for name, value in batch.lengths.items()} == {
            name: [len(record[name]) for record in chosen] for name in FILLS
        }
        if len({len(record["free"]) for record in chosen}) > 1:
            assert isinstance(batch["free"], list)


@given(
    batches_of_records,
    picks,
    ways,
    st.integers(-3, 3),
    lengths_of_rows,
    buckets_of_rows,
    st.booleans(),
)
def test_padded_rows(  # noqa: PLR0917
    parts: list[list[Record]],
    picks: list[tuple[int, int, int]],
    ways: list[int],
    fill: int,
    max_len: int | None,
    buckets: tuple[int, ...] | None,
    is_again: bool,
) -> None:
    samples, chosen = picked(parts, picks, ways)
    pad: Any = tio.pad_collate(fill=fill, max_len=max_len, buckets=buckets)

    def length(longest: int) -> tuple[int, int]:
        kept = longest if max_len is None else min(longest, max_len)
        return kept, next(each for each in (buckets or (kept,)) if each >= kept)

    columns, lengths = expected_padded(chosen, fill, length)
    whole = tio.collate(samples)
    if is_again:  # other lengths of rows that are padded already
        whole = tio.pad_collate(whole, fill=fill, buckets=(6,))
    for batch in (pad(samples), pad(whole), pad(pytree.tree_map(torch.clone, whole))):
        check(batch, columns, is_padded=True)
        assert {name: value.tolist() for name, value in batch.lengths.items()} == lengths


@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_selected_records(chosen: list[Record], data: st.DataObject) -> None:
    batch, count = parsed(chosen), len(chosen)
    numbers = data.draw(
        st.one_of(
            st.lists(st.integers(-count, count - 1), max_size=6),
            st.slices(count),
            st.lists(st.booleans(), min_size=count, max_size=count),
        )
    )
    if isinstance(numbers, list):
        is_mask = bool(numbers) and isinstance(numbers[0], bool)
        taken = np.arange(count)[np.array(numbers, bool if is_mask else np.int64)]
    else:
        taken = np.arange(count)[numbers]
    widths = {name: max(len(record[name]) for record in chosen) for name in FILLS}
    columns = expected([chosen[number] for number in taken], widths)
    selected = batch.select(numbers)
    check(selected, columns)
    assert selected.num_records == len(taken)
    for name, lengths in selected.lengths.items():
        assert lengths.tolist() == [len(chosen[number][name]) for number in taken]
    own = pytree.tree_map(torch.clone, batch).select(numbers)
    assert own.arena is None
    assert {name: plain(value) for name, value in own.items()} == columns


@given(st.lists(records, min_size=1, max_size=4), ways)
def test_samples_are_the_records(chosen: list[Record], ways: list[int]) -> None:
    turns = itertools.cycle(ways)
    for sample, record in zip(parsed(chosen).samples(), chosen, strict=True):
        values = WAYS[next(turns)](sample)
        assert values == tio.parse_example(stored(record), SCHEMA)
        assert [plain_value(value) for value in values.values()] == [
            record[name] for name in SCHEMA
        ]


@pytest.mark.parametrize("fill", [-0.0, float("nan"), 2.5])
def test_the_padding_is_exact(fill: float) -> None:
    rows = [tio.Sample({"x": torch.ones(count)}, {"x": "int64"}) for count in (0, 2)]
    for value in (0.0, fill):
        found = tio.pad_collate(rows, fill=value)["x"]
        assert isinstance(found, Tensor)
        assert found.numpy().tobytes() == torch.tensor([value, value, 1, 1]).numpy().tobytes()
