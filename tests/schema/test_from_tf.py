"""Imitations of TensorFlow's specs that a schema refuses.

``tests/interop/test_from_tf.py`` has the real ones, and how they are translated.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio

# ruff: noqa: PYI024  # namedtuples, as TensorFlow makes them
FixedLenFeature = namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])
VarLenFeature = namedtuple("VarLenFeature", ["dtype"])
FixedLenSequenceFeature = namedtuple(
    "FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"]
)
SparseFeature = namedtuple(
    "SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"]
)
RaggedFeature = namedtuple(
    "RaggedFeature", ["dtype", "value_key", "partitions", "row_splits_dtype", "validate"]
)
UniformRowLength = namedtuple("UniformRowLength", ["length"])


class DType:
    """As ``tf.int64`` is."""

    def __init__(self, name: str) -> None:
        self.name = name


class TensorShape:
    """As ``tf.TensorShape`` is: iterable, unless its rank is not known."""

    def __init__(self, sizes: list[int | None] | None) -> None:
        self.sizes = sizes

    def __iter__(self) -> Iterator[int | None]:
        if self.sizes is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self.sizes)


class EagerTensor:
    """As ``tf.constant`` makes one: its values by way of NumPy, bytes for a scalar string."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def numpy(self) -> Any:
        return self.value


INT = DType("int64")


def test_a_schema_takes_them_as_they_are() -> None:
    features = {"x": FixedLenFeature(TensorShape([2]), INT, EagerTensor(np.array([7, 8])))}
    assert tio.Schema(features) == tio.Schema.from_tf(features)
    assert tio.Schema(features) == tio.Schema({"x": tio.FixedLenFeature([2], "int64", [7, 8])})


Unknown = namedtuple("Unknown", ["dtype"])
Halved = namedtuple("FixedLenFeature", ["shape", "dtype"])  # type: ignore[name-match]  # TensorFlow's name


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (FixedLenFeature(TensorShape(None), INT, None), "shape must be a list of integers"),
        (
            FixedLenFeature(TensorShape([None, 2]), INT, None),
            "shape must be a list of non-negative integers",
        ),
        (FixedLenFeature([], DType("qint8"), None), "dtype must be one of"),
        (FixedLenFeature([3], INT, EagerTensor(np.array([1, 2]))), "must have 3 values .* got 2"),
        (FixedLenFeature([], INT, EagerTensor(np.float32(1.5))), "must be integers for int64"),
        (FixedLenSequenceFeature([], INT, False, None), "needs allow_missing=True"),
        (SparseFeature("", "v", INT, 5, False), "index_key must be the name of a feature"),
        (SparseFeature(5, "v", INT, 5, False), "index_key must be the name of a feature"),
        (
            RaggedFeature(INT, None, (Unknown(INT),), DType("int32"), False),
            "must be partitions of RaggedFeature",
        ),
        (RaggedFeature(INT, None, 5, DType("int32"), False), "partitions must be a sequence"),
        (
            RaggedFeature(INT, None, (UniformRowLength(0),), DType("int32"), False),
            "must be a positive integer",
        ),
        (RaggedFeature(INT, None, (), DType("uint8"), False), "dtype must be one of int32, int64"),
        (Unknown(INT), "must be one of torchrec_io or tf.io"),
        (Halved([], INT), "must be one of torchrec_io or tf.io"),
        (VarLenFeature, "must be one of torchrec_io or tf.io"),
        (INT, "must be one of torchrec_io or tf.io"),
    ],
)
def test_other_specs_are_refused_by_name(spec: Any, reason: str) -> None:
    with pytest.raises(tio.SchemaError, match=reason) as caught:
        tio.Schema.from_tf({"good": VarLenFeature(INT), "bad": spec})
    assert caught.value.feature == "bad"


def test_a_subclass_goes_by_the_name_it_has() -> None:
    class Mine(VarLenFeature):
        pass

    with pytest.raises(tio.SchemaError, match=r"must be one of torchrec_io or tf\.io"):
        tio.Schema({"x": Mine(INT)})
