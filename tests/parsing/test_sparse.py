"""SparseFeature against a model in plain Python: entries record by record, then sorted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io.errors import DecodeError

DTYPES: dict[str, Callable[[int], Any]] = {
    "int64": int,
    "int8": int,
    "bool": lambda value: value % 2,
    "float32": lambda value: value / 2,
    "float64": lambda value: value / 2,
    "bfloat16": float,
    "string": lambda value: b"x" * (value % 4) + b"%d" % value,
}
Entry = tuple[tuple[int, ...], Any]


def sparse_feature(dtype: Any, size: tuple[int, ...], **options: Any) -> tio.SparseFeature:
    keys = [f"i{axis}" for axis in range(len(size))]
    return tio.SparseFeature(keys, "values", dtype, size, **options)


def record_of(entries: list[Entry], rank: int) -> bytes:
    """An Example of values and their places; features without values are left out."""
    if not entries:
        return b""
    features: dict[str, Any] = {f"i{axis}": [at[axis] for at, _ in entries] for axis in range(rank)}
    return example_of(values=[value for _, value in entries], **features)


def entries_of(sparse: tio.Sparse) -> list[Entry]:
    places = [tuple(place) for place in sparse.indices.tolist()]
    return list(zip(places, sparse.values.tolist(), strict=True))


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[int, ...], str, list[list[Entry]]]:
    """A size, a dtype, and the entries of each record; many of them in one place."""
    size = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from(list(DTYPES)))
    place = st.tuples(*(st.integers(0, extent - 1) for extent in size))
    values = st.integers(0, 100).map(DTYPES[dtype])
    records = draw(st.lists(st.lists(st.tuples(place, values), max_size=12), max_size=5))
    return size, dtype, records


@given(batches(), st.booleans())
def test_entries_are_sorted_by_their_places(batch: Any, already_sorted: bool) -> None:
    size, dtype, records = batch
    schema = tio.Schema({"x": sparse_feature(dtype, size, already_sorted=already_sorted)})
    stored = [record_of(entries, len(size)) for entries in records]
    ordered = [
        # Python's sort is stable: equal places keep the order stored.
        entries if already_sorted else sorted(entries, key=lambda pair: pair[0])
        for entries in records
    ]
    column = tio.parse_examples(stored, schema)["x"]
    assert column.dense_shape == (len(records), *size)
    assert column.indices.dtype == torch.int64
    assert column.indices.shape == (sum(map(len, records)), 1 + len(size))
    if dtype != "string":
        assert column.values.dtype == getattr(torch, dtype)
    assert entries_of(column) == [
        ((number, *at), value) for number, entries in enumerate(ordered) for at, value in entries
    ]
    for record, expected in zip(stored, ordered, strict=True):
        single = tio.parse_example(record, schema)["x"]
        assert isinstance(single, tio.Sparse)
        assert single.dense_shape == size
        assert entries_of(single) == expected


def test_the_sort_is_stable_for_any_number() -> None:
    # TensorFlow's is not, over 16 entries.
    count = 1000
    entries: list[Entry] = [((i % 3, i % 2), i) for i in range(count)]
    strings: list[Entry] = [(at, b"%d" % value) for at, value in entries]
    for dtype, stored in (("int64", entries), ("string", strings)):
        schema = {"x": sparse_feature(dtype, (3, 2))}
        column = tio.parse_example(record_of(stored, 2), schema)["x"]
        assert entries_of(column) == sorted(stored, key=lambda pair: pair[0])


# ---- what is refused ----


GOOD = {"i0": [0, 1], "i1": [1, 0], "values": [1, 2]}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"i0": [0]}, "it has 2 values, but the number of indices in 'i0' is 1"),
        ({"i1": [1, 0, 1]}, "it has 2 values, but the number of indices in 'i1' is 3"),
        ({"i1": []}, "it has 2 values, but the number of indices in 'i1' is 0"),
        ({"values": []}, "it has 0 values, but the number of indices in 'i0' is 2"),
        ({"i0": [0, 3]}, "the index 3 in 'i0' is outside of the size 3"),
        ({"i1": [-1, 0]}, "the index -1 in 'i1' is outside of the size 2"),
        ({"i1": [2**63 - 1, 0]}, f"the index {2**63 - 1} in 'i1' is outside"),
        ({"i0": [-(2**63), 0]}, f"the index {-(2**63)} in 'i0' is outside"),
        ({"i0": [0.5, 1.0]}, "holds float values, the schema wants int64, in .* feature 'i0'"),
        ({"values": [b"a", b"b"]}, "wants int64, in the stored feature 'values'"),
    ],
)
def test_misfits_are_named(changed: dict[str, Any], reason: str) -> None:
    good, bad = example_of(**GOOD), example_of(**{**GOOD, **changed})
    for already_sorted in (False, True):
        feature = sparse_feature("int64", (3, 2), already_sorted=already_sorted)
        with pytest.raises(DecodeError, match=reason) as caught:
            tio.parse_examples([good, bad, good], {"x": feature})
        assert (caught.value.record, caught.value.feature) == (1, "x")
