"""Names of classes, and uint64 stored by its bits."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from torchrec_io._schema.feature import Feature

NAMES = ("cat", "dog", "Übergröße")
SPECS = [
    tio.FixedLenFeature([], "int64", names=NAMES),
    tio.FixedLenFeature([2], "uint8", [0, 1], names=NAMES),
    tio.VarLenFeature("int32", names=NAMES),
    tio.FixedLenSequenceFeature([], "int64", allow_missing=True, names=NAMES),
    tio.RaggedFeature("int64", names=NAMES),
    tio.ImageFeature(channels=1, names=NAMES),
]


def _named(spec: Feature, names: Any) -> Any:
    """The same spec with other names."""
    if isinstance(spec, tio.ImageFeature):
        return tio.ImageFeature(channels=1, names=names)
    if isinstance(spec, tio.FixedLenFeature):
        return tio.FixedLenFeature(spec.shape, spec.dtype, spec.default_value, names=names)
    if isinstance(spec, tio.FixedLenSequenceFeature):
        return tio.FixedLenSequenceFeature([], "int64", allow_missing=True, names=names)
    kind: Any = type(spec)
    return kind(spec.dtype, names=names)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{type(spec).__name__}")
def test_names_are_kept(spec: Any) -> None:
    assert _named(spec, list(NAMES)) == _named(spec, np.array(NAMES)) == spec
    assert spec.names == NAMES
    assert all(type(name) is str for name in _named(spec, np.array(NAMES)).names)
    assert _named(spec, None).names is None
    assert spec != _named(spec, None)
    assert spec != _named(spec, NAMES[::-1])
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{type(spec).__name__}")
@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("cat", "must be a list of str, got 'cat'"),
        (b"cat", "must be a list of str"),
        (7, "must be a list of str, got 7"),
        (["cat", 7], "got the name 7"),
        (["cat", b"dog"], "got the name b'dog'"),
        (["cat", "\ud800"], "got the name"),
        (["cat", "dog", "cat"], "must be different, got 'cat' twice"),
    ],
)
def test_names_that_are_none(spec: Any, names: Any, words: str) -> None:
    with pytest.raises(tio.SchemaError, match=words):
        _named(spec, names)


@pytest.mark.parametrize("dtype", ["float32", "string", "bool"])
def test_names_are_of_integers(dtype: Any) -> None:
    for make in (
        lambda: tio.FixedLenFeature([], dtype, names=NAMES),
        lambda: tio.VarLenFeature(dtype, names=NAMES),
        lambda: tio.FixedLenSequenceFeature([], dtype, allow_missing=True, names=NAMES),
        lambda: tio.RaggedFeature(dtype, names=NAMES),
    ):
        with pytest.raises(
            tio.SchemaError, match=f"names need an integer dtype other than bool, got {dtype}"
        ):
            make()
    with pytest.raises(
        tio.SchemaError, match="names need an integer dtype other than bool, got float32"
    ):
        tio.ImageFeature(dtype="float32", names=NAMES)


def test_undecoded_images_have_no_names() -> None:
    with pytest.raises(tio.SchemaError, match="decoder=None excludes names"):
        tio.ImageFeature(decoder=None, names=NAMES)


# ---- bitcast ----

bits = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2)


def _stored(values: list[int]) -> list[int]:
    """uint64 as TFDS stores it: ``array.astype(np.int64)``."""
    made: list[int] = np.array(values, np.uint64).astype(np.int64).tolist()
    return made


@given(rows=st.lists(bits, max_size=4), default=bits)
def test_bits_as_they_are(rows: list[list[int]], default: list[int]) -> None:
    examples = [tio.encode_example({"a": _stored(row), "n": [1, 1]}) for row in rows]
    lengths = tio.RaggedFeature.RowLengths("n")
    ragged = tio.RaggedFeature("uint64", "a", [lengths], bitcast=True)
    batch = tio.parse_examples(
        [*examples, tio.encode_example({"n": [0]})],
        {
            "a": tio.RaggedFeature("uint64", bitcast=True),
            "rows": ragged,
        },
    )
    assert batch["a"].tolist() == [*rows, []]
    assert batch["a"].values.dtype == torch.uint64
    assert batch["rows"].tolist() == [*([[one], [two]] for one, two in rows), [[]]]
    varying = tio.parse_examples(examples, {"a": tio.VarLenFeature("uint64", bitcast=True)})
    assert varying["a"].tolist() == rows
    fixed = tio.FixedLenFeature([2], "uint64", default, bitcast=True)
    batch = tio.parse_examples([*examples, tio.encode_example({})], {"a": fixed})
    assert batch["a"].dtype == torch.uint64
    assert batch["a"].tolist() == [*rows, default]


def test_bits_in_feature_lists() -> None:
    example = tio.encode_sequence_example({}, {"a": [[-1], [], [3, -2]]})
    spec = tio.VarLenFeature("uint64", bitcast=True)
    sample = tio.parse_sequence_example(example, tio.Schema(context={}, sequence={"a": spec}))
    assert sample["a"].tolist() == [[2**64 - 1], [], [3, 2**64 - 2]]


def test_bits_lie_in_a_range_as_uint64() -> None:
    spec = tio.FixedLenFeature([], "uint64", valid_range=(2**63, None), bitcast=True)
    good = tio.encode_example({"a": -5})
    assert tio.parse_example(good, {"a": spec})["a"].item() == 2**64 - 5
    with pytest.raises(tio.DecodeError, match="the value 7 is outside the valid range"):
        tio.parse_examples([good, tio.encode_example({"a": 7})], {"a": spec})
    with pytest.raises(tio.SchemaError, match=r"default_value must be in the valid_range .* got 7"):
        tio.FixedLenFeature([], "uint64", 7, valid_range=(2**63, None), bitcast=True)


def test_without_bitcast_a_negative_number_does_not_fit() -> None:
    with pytest.raises(tio.DecodeError, match="does not fit in the dtype"):
        tio.parse_example(tio.encode_example({"a": -5}), {"a": tio.FixedLenFeature([], "uint64")})


@pytest.mark.parametrize("dtype", ["int64", "uint32", "float64", "string"])
def test_bitcast_is_for_uint64(dtype: Any) -> None:
    for make in (
        lambda: tio.FixedLenFeature([], dtype, bitcast=True),
        lambda: tio.VarLenFeature(dtype, bitcast=True),
        lambda: tio.RaggedFeature(dtype, bitcast=True),
    ):
        with pytest.raises(tio.SchemaError, match=f"needs the dtype 'uint64', got '{dtype}'"):
            make()


def test_csv_has_no_bits() -> None:
    with pytest.raises(tio.SchemaError, match="bitcast is not supported"):
        tio.csv.Schema({"a": tio.FixedLenFeature([], "uint64", bitcast=True)})
