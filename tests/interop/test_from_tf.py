"""Schemas of TensorFlow's spec objects, in a Python with TensorFlow and without torch."""

from __future__ import annotations

import json
import math
import os
import subprocess
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.conftest import ROOT, TESTS

Fixed = tio.FixedLenFeature
Ragged = tio.RaggedFeature

CASTS: tuple[Any, ...] = ("bool", "uint64", "bfloat16", "float16", "float64")
EXPECTED = {
    "fixed": tio.Schema(
        {
            "scalar": Fixed([], "int64"),
            "int": Fixed([3], "float32"),
            "tuple": Fixed([2, 3], "string"),
            "tensor_shape": Fixed([2, 3], "int64"),
            "no_shape": Fixed([], "int64"),
            "numpy_shape": Fixed([2, 3], "int64"),
            "dtype_name": Fixed([], "int64"),
            "numpy_dtype": Fixed([], "float32"),
        }
    ),
    "defaults": tio.Schema(
        {
            "number": Fixed([], "int64", -1),
            "least": Fixed([], "int64", -(2**63)),
            "list": Fixed([2, 2], "float32", [1.0, 2.0, 3.0, math.nan]),
            "flat": Fixed([2, 2], "float32", [1.0, -0.0, math.inf, 4.0]),
            "array": Fixed([2], "int64", [5, 6]),
            "numpy_number": Fixed([], "float32", float(np.float32(0.1))),
            "tensor": Fixed([2], "int64", [7, 8]),
            "float_tensor": Fixed([], "float32", float(np.float32(0.1))),
            "text_tensor": Fixed([], "string", b"\xff"),
            "text_tensors": Fixed([2], "string", [b"a", "é".encode()]),
            "text": Fixed([], "string", "é".encode()),
            "bytes": Fixed([1], "string", b"\x00\xff"),
            "empty_text": Fixed([], "string", b""),
            "empty": Fixed([0], "int64"),
        }
    ),
    "casts": tio.Schema({name: Fixed([], name) for name in CASTS}),
    "varying": tio.Schema(
        {name: tio.VarLenFeature(name) for name in ("int64", "float32", "string")}
    ),
    "parts": tio.Schema(
        {
            "plain": tio.FixedLenSequenceFeature([], "int64", True),
            "padded": tio.FixedLenSequenceFeature([2], "string", True, b"pad"),
            "tensor": tio.FixedLenSequenceFeature([2], "int64", True, 9),
        }
    ),
    "sparse": tio.Schema(
        {
            "one": tio.SparseFeature("index", "value", "float32", 100),
            "one_in_lists": tio.SparseFeature("index", "value", "float32", 100),
            "more": tio.SparseFeature(["x", "y"], "value", "float32", [10, 20], True),
            "sizes": tio.SparseFeature(["x", "y"], "value", "float32", [10, 20]),
        }
    ),
    "ragged": tio.Schema(
        {
            "plain": Ragged("int64"),
            "key": Ragged("string", "values"),
            "rows": Ragged(
                "float32",
                "floats",
                [
                    Ragged.RowSplits("splits"),
                    Ragged.RowLengths("lengths"),
                    Ragged.RowStarts("starts"),
                    Ragged.RowLimits("limits"),
                    Ragged.ValueRowIds("ids"),
                    Ragged.UniformRowLength(2),
                ],
                validate=True,
            ),
        }
    ),
    "wide": tio.Schema({"offsets": Ragged("int64", row_splits_dtype="int64")}),
    "sequence": tio.Schema(
        context={
            "length": Fixed([], "int64", 0),
            "words": tio.VarLenFeature("string"),
            "rows": Ragged("int64", "row_values", [Ragged.UniformRowLength(2)]),
        },
        sequence={
            "tokens": tio.FixedLenSequenceFeature([], "int64"),
            "boxes": tio.FixedLenSequenceFeature([4], "float32", allow_missing=True),
            "tags": tio.VarLenFeature("string"),
            "parts": Ragged("int64", "part_values", [Ragged.RowLengths("part_lengths")]),
        },
    ),
}
REFUSED = {
    "unknown_rank": "shape must be a list of integers",
    "unknown_size": "shape must be a list of non-negative integers",
    "dtype": "dtype must be one of",
    "default_size": "default_value must have 3 values",
    "default_kind": "must be integers for int64",
    "not_missing": "needs allow_missing=True",
    "no_spec": "must be one of torchrec_io or tf.io",
    "a_class": "must be one of torchrec_io or tf.io",
}


@pytest.fixture(scope="module")
def answer(tf_python: str) -> Any:
    """Run ``tf_specs.py`` and return its output."""
    done = subprocess.run(
        [tf_python, str(TESTS / "interop" / "tf_specs.py")],
        check=False, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_specs(answer: Any) -> None:
    assert answer["schemas"].keys() == EXPECTED.keys()
    for name, expected in EXPECTED.items():
        schema = tio.Schema.from_json(answer["schemas"][name])
        assert schema == expected, name
        assert repr(schema) == repr(expected), name  # distinguishes -0.0 from 0.0


def test_rejected_specs(answer: Any) -> None:
    assert answer["refused"].keys() == REFUSED.keys()
    for name, reason in REFUSED.items():
        assert reason in answer["refused"][name]


def test_neither_torch_nor_the_native_core_is_loaded(answer: Any) -> None:
    assert answer["loaded"] == []
