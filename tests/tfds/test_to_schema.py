"""Tests of converting connectors to specs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from torchrec_io.tfds import connectors as c
from torchrec_io.tfds.feature_choice import ChosenFeatures, choose
from torchrec_io.tfds.to_schema import Unreadable, to_specs

Ragged = tio.RaggedFeature


def spec_of(feature: c.Connector) -> Any:
    """The spec of a feature that is called "x"."""
    return to_specs(c.FeaturesDict(features={"x": feature}), "somewhere")["x"]


def chosen(**features: c.Connector) -> ChosenFeatures:
    return choose(to_specs(c.FeaturesDict(features=features), "somewhere"))


def several(feature: c.Connector, *lengths: int | None) -> c.Connector:
    for length in reversed(lengths):
        feature = c.Sequence(feature=feature, length=length)
    return feature


def tensor(*shape: int | None, dtype: str = "int32", **more: Any) -> c.Tensor:
    return c.Tensor(shape=shape, dtype=dtype, **more)


def ragged(*partitions: Any, key: str | None = None, **more: Any) -> tio.RaggedFeature:
    return Ragged("int32", key, partitions, "int64", **more)


INNER, OUTER = (
    Ragged.RowLengths("x/ragged_row_lengths_1"),
    Ragged.RowLengths("x/ragged_row_lengths_0"),
)
FLAT = "x/ragged_flat_values"
# What the golden directories do not have. Those have all other features, with their values.
SPECS: dict[str, tuple[c.Connector, Any]] = {
    "cubes": (
        tensor(2, 3, None, 4),
        ragged(Ragged.UniformRowLength(3), Ragged.UniformRowCount(6), Ragged.UniformRowLength(4)),
    ),
    "of none": (several(tensor(), 0), tio.FixedLenFeature([0], "int32")),
    "of vectors": (
        several(tensor(5), 2, 3),
        ragged(OUTER, Ragged.UniformRowLength(5), key=FLAT),
    ),
    "three": (several(tensor(), None, None, 2), ragged(OUTER, INNER, key=FLAT)),
    "tokens": (c.Text(shape=(None,), dtype="int64"), tio.VarLenFeature("int64")),
    "sequence of shapes": (
        several(tensor(None, None, encoding="bytes"), None, None),
        tio.SequenceFeature(
            tio.RawFeature("int32", shape_key="x/shape/ragged_flat_values"),
            key="x/value/ragged_flat_values",
            partitions=[Ragged.RowLengths("x/value/ragged_row_lengths_0")],
        ),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_specs(name: str) -> None:
    feature, expected = SPECS[name]
    assert spec_of(feature) == expected


def test_names_of_classes() -> None:
    label = c.ClassLabel(num_classes=2, names=("a", "b"))
    for lengths in ((), (None,), (None, None), (3,)):
        assert spec_of(several(label, *lengths)).names == ("a", "b")
    mask = c.Image(shape=(None, None, 1), names=("a", "b"))
    assert spec_of(mask).names == ("a", "b")
    assert spec_of(several(mask, None)).element.names == ("a", "b")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("int8", -128),
        ("int64", -(2**63)),
        ("uint16", 0),
        ("bool", 0),
        ("string", b""),
        ("float16", -65504.0),
        ("float32", float(np.finfo(np.float32).min)),
        ("bfloat16", -float.fromhex("0x1.fep127")),
        ("float64", -math.inf),
    ],
)
def test_defaults_of_optional_features(dtype: str, expected: Any) -> None:
    assert spec_of(tensor(dtype=dtype, optional=True)).default_value == (expected,)
    assert spec_of(tensor(2, dtype=dtype, optional=True)).default_value == (expected,) * 2
    assert spec_of(several(tensor(dtype=dtype, optional=True), 2)).default_value is None


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (tensor(None, None), "at most one unknown dimension, got (None, None); TFDS cannot"),
        (several(tensor(None, 3), None), "at most one unknown dimension, got (None, None, 3)"),
        (several(tensor(None), None, None), "at most one unknown dimension"),
        (tensor(None, 0), "must not have a dimension of size 0"),
        (tensor(0, None), "rows must be a positive integer"),
        (tensor(dtype="int65"), "dtype must be one of"),
        (several(tensor(dtype="float8_e4m3fn"), None), "dtype must be one of"),
        (tensor(dtype="complex64"), "of dtype complex64 must have an encoding"),
        (several(tensor(2**31 - 1), 2**31 - 1), "do not fit in memory"),
        (c.Unknown(class_name="mine.Own"), "mine.Own is not a connector of TFDS"),
    ],
)
def test_features_that_cannot_be_read(feature: c.Connector, reason: str) -> None:
    found = spec_of(feature)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_defaults_are_bounded_together() -> None:
    """A few bytes of JSON ask for as many as there are numbers."""
    sizes = {"small": 10_000, "too much": 995_000}
    features = {name: tensor(size, dtype="string", optional=True) for name, size in sizes.items()}
    specs = to_specs(c.FeaturesDict(features=features), "somewhere")
    assert len(specs["small"].default_value) == 10_000
    assert isinstance(specs["too much"], Unreadable)
    assert "together; this one has 995,000" in specs["too much"].reason
    assert isinstance(spec_of(tensor(2**50, optional=True)), Unreadable)


def test_stored_keys_of_every_record() -> None:
    dynamic = tensor(None, None, encoding="zlib")
    found = chosen(
        fixed=tensor(2),
        optional=tensor(optional=True),
        some=tensor(None),
        packed=tensor(2, encoding="bytes"),
        dynamic=dynamic,
        picture=c.Image(shape=(None, None, 3)),
        deep=c.FeaturesDict(features={"name": c.Text()}),
        pictures=several(c.Image(shape=(None, None, 3)), 2),
        frames=several(c.Image(shape=(None, None, 3)), None),
        rows=several(tensor(), None, None),
    )
    assert found.keys.all_of == (
        "fixed", "packed", "dynamic/value", "dynamic/shape", "picture", "deep/name", "pictures",
    )  # fmt: skip
    others = {"optional", "some", "frames", "rows/ragged_flat_values", "rows/ragged_row_lengths_0"}
    assert set(found.keys.any_of) == {*found.keys.all_of, *others} - {"dynamic/shape"}
    assert chosen(own=c.Unknown(class_name="mine.Own"), some=tensor(None)).keys == ((), ())
