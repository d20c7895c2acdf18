"""Schemas from imitations of TensorFlow's specs; ``tests/interop`` uses the real ones."""

from __future__ import annotations

import math
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
RowSplits = namedtuple("RowSplits", ["key"])
RowLengths = namedtuple("RowLengths", ["key"])
RowStarts = namedtuple("RowStarts", ["key"])
RowLimits = namedtuple("RowLimits", ["key"])
ValueRowIds = namedtuple("ValueRowIds", ["key"])
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


INT, FLOAT, STRING = DType("int64"), DType("float32"), DType("string")

CASES: dict[str, tuple[Any, Any]] = {
    "shape": (
        FixedLenFeature(TensorShape([2, 3]), STRING, None),
        tio.FixedLenFeature([2, 3], "string"),
    ),
    "default": (
        FixedLenFeature([2], FLOAT, [1, math.nan]),
        tio.FixedLenFeature([2], "float32", [1.0, math.nan]),
    ),
    "tensor": (
        FixedLenFeature([2], INT, EagerTensor(np.array([7, 8]))),
        tio.FixedLenFeature([2], "int64", [7, 8]),
    ),
    "text tensor": (
        FixedLenFeature([], STRING, EagerTensor(b"\xff")),
        tio.FixedLenFeature([], "string", b"\xff"),
    ),
    "parts": (
        FixedLenSequenceFeature(TensorShape([2]), STRING, True, "pad"),
        tio.FixedLenSequenceFeature([2], "string", True, b"pad"),
    ),
    "sparse matrix": (
        SparseFeature(["i", "j"], "v", FLOAT, TensorShape([10, 20]), True),
        tio.SparseFeature(["i", "j"], "v", "float32", [10, 20], True),
    ),
    "rows": (
        RaggedFeature(
            FLOAT,
            "values",
            (
                RowSplits("a"),
                RowLengths("b"),
                RowStarts("c"),
                RowLimits("d"),
                ValueRowIds("e"),
                UniformRowLength(2),
            ),
            DType("int64"),
            True,
        ),
        tio.RaggedFeature(
            "float32",
            "values",
            [
                tio.RaggedFeature.RowSplits("a"),
                tio.RaggedFeature.RowLengths("b"),
                tio.RaggedFeature.RowStarts("c"),
                tio.RaggedFeature.RowLimits("d"),
                tio.RaggedFeature.ValueRowIds("e"),
                tio.RaggedFeature.UniformRowLength(2),
            ],
            "int64",
            True,
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_specs_are_translated(name: str) -> None:
    theirs, ours = CASES[name]
    for schema in (tio.Schema({"x": theirs}), tio.Schema.from_tf({"x": theirs})):
        assert schema == tio.Schema({"x": ours})
        assert type(schema["x"]) is type(ours)


def test_context_and_sequence() -> None:
    context = {"a": FixedLenFeature([], INT, 5), "b": VarLenFeature(STRING)}
    sequence = {
        "c": FixedLenSequenceFeature([], INT, False, None),
        "d": VarLenFeature(FLOAT),
        "e": RaggedFeature(INT, "f", (RowLengths("g"),), DType("int32"), False),
    }
    assert tio.Schema.from_tf(context=context, sequence=sequence) == tio.Schema(
        context={"a": tio.FixedLenFeature([], "int64", 5), "b": tio.VarLenFeature("string")},
        sequence={
            "c": tio.FixedLenSequenceFeature([], "int64"),
            "d": tio.VarLenFeature("float32"),
            "e": tio.RaggedFeature("int64", "f", [tio.RaggedFeature.RowLengths("g")]),
        },
    )


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
