"""Conversion of TensorFlow's spec objects to schemas; needs TensorFlow and prints JSON.

``test_from_tf.py`` runs this script with ``torchrec_io`` on the path. The output is
``{"wrong": {name: schema}, "refused": {name: reason}, "loaded": [module, ...]}``: "wrong" has the
schemas that are not the expected ones, and "loaded" lists modules of torch and of the native core
that the conversion has loaded.
"""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import numpy as np
import tensorflow as tf

import torchrec_io as tio

Fixed = tf.io.FixedLenFeature
OurFixed = tio.FixedLenFeature
Steps = tf.io.FixedLenSequenceFeature
OurSteps = tio.FixedLenSequenceFeature
Sparse = tf.io.SparseFeature
OurSparse = tio.SparseFeature
Ragged = tf.io.RaggedFeature
OurRagged = tio.RaggedFeature
TENTH = float(np.float32(0.1))


def all_partitions(ragged: Any, dtype: Any) -> Any:
    """Return a RaggedFeature of either library with each kind of partition."""
    partitions = [
        ragged.RowSplits("splits"),
        ragged.RowLengths("lengths"),
        ragged.RowStarts("starts"),
        ragged.RowLimits("limits"),
        ragged.ValueRowIds("ids"),
        ragged.UniformRowLength(2),
    ]
    return ragged(dtype, "floats", partitions, validate=True)


# Each feature as TensorFlow has it, and as this library has it.
Pairs = dict[str, tuple[Any, Any]]
EXAMPLES: dict[str, Pairs] = {
    "fixed": {
        "scalar": (Fixed([], tf.int64), OurFixed([], "int64")),
        "int": (Fixed(3, tf.float32), OurFixed([3], "float32")),
        "tuple": (Fixed((2, 3), tf.string), OurFixed([2, 3], "string")),
        "tensor_shape": (Fixed(tf.TensorShape([2, 3]), tf.int64), OurFixed([2, 3], "int64")),
        "no_shape": (Fixed(tf.TensorShape([]), tf.int64), OurFixed([], "int64")),
        "numpy_shape": (Fixed(np.array([2, 3]), tf.int64), OurFixed([2, 3], "int64")),
        "dtype_name": (Fixed([], "int64"), OurFixed([], "int64")),
        "numpy_dtype": (Fixed([], np.float32), OurFixed([], "float32")),
    },
    "defaults": {
        "number": (Fixed([], tf.int64, -1), OurFixed([], "int64", -1)),
        "least": (Fixed([], tf.int64, default_value=-(2**63)), OurFixed([], "int64", -(2**63))),
        "list": (
            Fixed([2, 2], tf.float32, [[1, 2], [3, float("nan")]]),
            OurFixed([2, 2], "float32", [1.0, 2.0, 3.0, math.nan]),
        ),
        "flat": (
            Fixed([2, 2], tf.float32, [1.0, -0.0, float("inf"), 4.0]),
            OurFixed([2, 2], "float32", [1.0, -0.0, math.inf, 4.0]),
        ),
        "array": (
            Fixed([2], tf.int64, np.array([5, 6], np.int32)),
            OurFixed([2], "int64", [5, 6]),
        ),
        "numpy_number": (
            Fixed([], tf.float32, np.float32(0.1)),
            OurFixed([], "float32", TENTH),
        ),
        "tensor": (
            Fixed([2], tf.int64, tf.constant([7, 8], tf.int64)),
            OurFixed([2], "int64", [7, 8]),
        ),
        "float_tensor": (
            Fixed([], tf.float32, tf.constant(0.1)),
            OurFixed([], "float32", TENTH),
        ),
        "text_tensor": (
            Fixed([], tf.string, tf.constant(b"\xff")),
            OurFixed([], "string", b"\xff"),
        ),
        "text_tensors": (
            Fixed([2], tf.string, tf.constant(["a", "é"])),
            OurFixed([2], "string", [b"a", "é".encode()]),
        ),
        "text": (Fixed([], tf.string, "é"), OurFixed([], "string", "é".encode())),
        "bytes": (
            Fixed([1], tf.string, [b"\x00\xff"]),
            OurFixed([1], "string", b"\x00\xff"),
        ),
        "empty_text": (Fixed([], tf.string, ""), OurFixed([], "string", b"")),
        "empty": (Fixed([0], tf.int64, []), OurFixed([0], "int64")),
    },
    # TensorFlow creates these objects and rejects them when it parses. This library casts instead.
    "casts": {
        dtype.name: (Fixed([], dtype), OurFixed([], dtype.name))
        for dtype in (tf.bool, tf.uint64, tf.bfloat16, tf.half, tf.double)
    },
    "varying": {
        name: (tf.io.VarLenFeature(tf.as_dtype(name)), tio.VarLenFeature(name))
        for name in ("int64", "float32", "string")
    },
    "parts": {
        "plain": (Steps([], tf.int64, allow_missing=True), OurSteps([], "int64", True)),
        "padded": (
            Steps([2], tf.string, True, default_value="pad"),
            OurSteps([2], "string", True, b"pad"),
        ),
        "tensor": (
            Steps([2], tf.int64, True, tf.constant(9, tf.int64)),
            OurSteps([2], "int64", True, 9),
        ),
    },
    "sparse": {
        "one": (
            Sparse("index", "value", tf.float32, 100),
            OurSparse("index", "value", "float32", 100),
        ),
        "one_in_lists": (
            Sparse(["index"], "value", tf.float32, [100]),
            OurSparse("index", "value", "float32", 100),
        ),
        "more": (
            Sparse(["x", "y"], "value", tf.float32, [10, 20], already_sorted=True),
            OurSparse(["x", "y"], "value", "float32", [10, 20], True),
        ),
        "sizes": (
            Sparse(["x", "y"], "value", tf.float32, tf.TensorShape([10, 20])),
            OurSparse(["x", "y"], "value", "float32", [10, 20]),
        ),
    },
    "ragged": {
        "plain": (Ragged(tf.int64), OurRagged("int64")),
        "key": (Ragged(tf.string, "values"), OurRagged("string", "values")),
        "rows": (all_partitions(Ragged, tf.float32), all_partitions(OurRagged, "float32")),
    },
    "wide": {
        "offsets": (
            Ragged(tf.int64, row_splits_dtype=tf.int64),
            OurRagged("int64", row_splits_dtype="int64"),
        )
    },
}

SEQUENCE: dict[str, Pairs] = {
    "context": {
        "length": (Fixed([], tf.int64, 0), OurFixed([], "int64", 0)),
        "rows": (
            Ragged(tf.int64, "row_values", [Ragged.UniformRowLength(2)]),
            OurRagged("int64", "row_values", [OurRagged.UniformRowLength(2)]),
        ),
    },
    "sequence": {
        "tokens": (Steps([], tf.int64), OurSteps([], "int64")),
        "boxes": (
            Steps([4], tf.float32, allow_missing=True),
            OurSteps([4], "float32", allow_missing=True),
        ),
        "tags": (tf.io.VarLenFeature(tf.string), tio.VarLenFeature("string")),
        "parts": (
            Ragged(tf.int64, "part_values", [Ragged.RowLengths("part_lengths")]),
            OurRagged("int64", "part_values", [OurRagged.RowLengths("part_lengths")]),
        ),
    },
}

REFUSED: dict[str, Any] = {
    "unknown_rank": Fixed(tf.TensorShape(None), tf.int64),
    "unknown_size": Fixed(tf.TensorShape([None, 2]), tf.int64),
    "dtype": Fixed([], tf.qint8),
    "default_size": Fixed([3], tf.int64, [1, 2]),
    "default_kind": Fixed([], tf.int64, tf.constant(1.5)),
    "not_missing": Steps([], tf.int64),
    "no_spec": tf.constant(5),
    "a_class": tf.io.VarLenFeature,
}


def reason_of(spec: Any) -> str | None:
    """Return the reason why a spec is rejected."""
    try:
        tio.Schema.from_tf({"x": spec})
    except tio.SchemaError as error:
        return error.reason if error.feature == "x" else None
    return None


def side(pairs: Pairs, which: int) -> dict[str, Any]:
    """Return TensorFlow's features, or this library's."""
    return {name: pair[which] for name, pair in pairs.items()}


def main() -> None:
    """Print the answer."""
    found = {
        name: (tio.Schema.from_tf(side(pairs, 0)), tio.Schema(side(pairs, 1)))
        for name, pairs in EXAMPLES.items()
    }
    theirs, ours = ({part: side(SEQUENCE[part], n) for part in SEQUENCE} for n in (0, 1))
    found["sequence"] = tio.Schema.from_tf(**theirs), tio.Schema(**ours)
    answer = {
        "wrong": {
            name: repr(schema)
            for name, (schema, expected) in found.items()
            if schema != expected or repr(schema) != repr(expected)  # distinguishes -0.0 from 0.0
        },
        "refused": {name: reason_of(spec) for name, spec in REFUSED.items()},
        "loaded": sorted({"torch", "torchrec_io._core"} & {*sys.modules}),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
