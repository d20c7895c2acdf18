"""SparseFeature: stable order of any number of entries, every kind of dtype, and misfits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io.errors import DecodeError

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


@pytest.mark.parametrize(
    ("dtype", "as_value"),
    [
        ("int64", int),
        ("int8", int),
        ("float64", float),
        ("bfloat16", float),
        ("string", b"%d".__mod__),
    ],
)
def test_the_sort_is_stable_for_any_number(dtype: Any, as_value: Callable[[int], Any]) -> None:
    # TensorFlow's is not, over 16 entries.
    stored: list[Entry] = [((i % 3, i % 2), as_value(i % 100)) for i in range(1000)]
    schema = {"x": sparse_feature(dtype, (3, 2))}
    column = tio.parse_examples([b"", record_of(stored, 2)], schema)["x"]
    assert column.dense_shape == (2, 3, 2)
    if dtype != "string":
        assert column.values.dtype == getattr(torch, dtype)
    ordered = sorted(stored, key=lambda pair: pair[0])
    assert entries_of(column) == [((1, *at), value) for at, value in ordered]


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
