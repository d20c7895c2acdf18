"""Conversion of TensorFlow's spec objects to schemas; needs TensorFlow and prints JSON.

The tests run this script with ``torchrec_io`` on the path, and build the same schemas themselves.
The output is ``{"schemas": {name: schema}, "refused": {name: reason}, "loaded": [module, ...]}``.
"loaded" lists modules of torch and of the native core that the conversion has loaded.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # must be set before TensorFlow is imported

import numpy as np
import tensorflow as tf

from torchrec_io._schema.schema import Schema
from torchrec_io.errors import SchemaError

Ragged = tf.io.RaggedFeature

EXAMPLES: dict[str, dict[str, Any]] = {
    "fixed": {
        "scalar": tf.io.FixedLenFeature([], tf.int64),
        "int": tf.io.FixedLenFeature(3, tf.float32),
        "tuple": tf.io.FixedLenFeature((2, 3), tf.string),
        "tensor_shape": tf.io.FixedLenFeature(tf.TensorShape([2, 3]), tf.int64),
        "no_shape": tf.io.FixedLenFeature(tf.TensorShape([]), tf.int64),
        "numpy_shape": tf.io.FixedLenFeature(np.array([2, 3]), tf.int64),
        "dtype_name": tf.io.FixedLenFeature([], "int64"),
        "numpy_dtype": tf.io.FixedLenFeature([], np.float32),
    },
    "defaults": {
        "number": tf.io.FixedLenFeature([], tf.int64, -1),
        "least": tf.io.FixedLenFeature([], tf.int64, default_value=-(2**63)),
        "list": tf.io.FixedLenFeature([2, 2], tf.float32, [[1, 2], [3, float("nan")]]),
        "flat": tf.io.FixedLenFeature([2, 2], tf.float32, [1.0, -0.0, float("inf"), 4.0]),
        "array": tf.io.FixedLenFeature([2], tf.int64, np.array([5, 6], np.int32)),
        "numpy_number": tf.io.FixedLenFeature([], tf.float32, np.float32(0.1)),
        "tensor": tf.io.FixedLenFeature([2], tf.int64, tf.constant([7, 8], tf.int64)),
        "float_tensor": tf.io.FixedLenFeature([], tf.float32, tf.constant(0.1)),
        "text_tensor": tf.io.FixedLenFeature([], tf.string, tf.constant(b"\xff")),
        "text_tensors": tf.io.FixedLenFeature([2], tf.string, tf.constant(["a", "é"])),
        "text": tf.io.FixedLenFeature([], tf.string, "é"),
        "bytes": tf.io.FixedLenFeature([1], tf.string, [b"\x00\xff"]),
        "empty_text": tf.io.FixedLenFeature([], tf.string, ""),
        "empty": tf.io.FixedLenFeature([0], tf.int64, []),
    },
    # TensorFlow creates these objects and rejects them when it parses. This library casts instead.
    "casts": {
        dtype.name: tf.io.FixedLenFeature([], dtype)
        for dtype in (tf.bool, tf.uint64, tf.bfloat16, tf.half, tf.double)
    },
    "varying": {
        "int64": tf.io.VarLenFeature(tf.int64),
        "float32": tf.io.VarLenFeature(tf.float32),
        "string": tf.io.VarLenFeature(tf.string),
    },
    "parts": {
        "plain": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "padded": tf.io.FixedLenSequenceFeature([2], tf.string, True, default_value="pad"),
        "tensor": tf.io.FixedLenSequenceFeature([2], tf.int64, True, tf.constant(9, tf.int64)),
    },
    "sparse": {
        "one": tf.io.SparseFeature("index", "value", tf.float32, 100),
        "one_in_lists": tf.io.SparseFeature(["index"], "value", tf.float32, [100]),
        "more": tf.io.SparseFeature(["x", "y"], "value", tf.float32, [10, 20], already_sorted=True),
        "sizes": tf.io.SparseFeature(["x", "y"], "value", tf.float32, tf.TensorShape([10, 20])),
    },
    "ragged": {
        "plain": Ragged(tf.int64),
        "key": Ragged(tf.string, "values"),
        "rows": Ragged(
            tf.float32,
            value_key="floats",
            partitions=[
                Ragged.RowSplits("splits"),
                Ragged.RowLengths("lengths"),
                Ragged.RowStarts("starts"),
                Ragged.RowLimits("limits"),
                Ragged.ValueRowIds("ids"),
                Ragged.UniformRowLength(2),
            ],
            validate=True,
        ),
    },
    "wide": {"offsets": Ragged(tf.int64, row_splits_dtype=tf.int64)},
}

SEQUENCE: dict[str, dict[str, Any]] = {
    "context": {
        "length": tf.io.FixedLenFeature([], tf.int64, 0),
        "words": tf.io.VarLenFeature(tf.string),
        "rows": Ragged(tf.int64, "row_values", [Ragged.UniformRowLength(2)]),
    },
    "sequence": {
        "tokens": tf.io.FixedLenSequenceFeature([], tf.int64),
        "boxes": tf.io.FixedLenSequenceFeature([4], tf.float32, allow_missing=True),
        "tags": tf.io.VarLenFeature(tf.string),
        "parts": Ragged(tf.int64, "part_values", [Ragged.RowLengths("part_lengths")]),
    },
}

REFUSED: dict[str, Any] = {
    "unknown_rank": tf.io.FixedLenFeature(tf.TensorShape(None), tf.int64),
    "unknown_size": tf.io.FixedLenFeature(tf.TensorShape([None, 2]), tf.int64),
    "dtype": tf.io.FixedLenFeature([], tf.qint8),
    "default_size": tf.io.FixedLenFeature([3], tf.int64, [1, 2]),
    "default_kind": tf.io.FixedLenFeature([], tf.int64, tf.constant(1.5)),
    "not_missing": tf.io.FixedLenSequenceFeature([], tf.int64),
    "no_spec": tf.constant(5),
    "a_class": tf.io.VarLenFeature,
}


def reason_of(spec: Any) -> str | None:
    """Return the reason why a spec is rejected."""
    try:
        Schema.from_tf({"x": spec})
    except SchemaError as error:
        return error.reason if error.feature == "x" else None
    return None


def main() -> None:
    """Print the answer."""
    schemas = {name: Schema.from_tf(spec) for name, spec in EXAMPLES.items()}
    schemas["sequence"] = Schema.from_tf(**SEQUENCE)
    answer = {
        "schemas": {name: schema.to_json() for name, schema in schemas.items()},
        "refused": {name: reason_of(spec) for name, spec in REFUSED.items()},
        "loaded": sorted({"torch", "torchrec_io._core"} & {*sys.modules}),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
