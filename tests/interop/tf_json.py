"""TensorFlow's parse specs and results as JSON (runs where TensorFlow is installed).

A spec is an object from feature names to feature specs::

    {"type": "FixedLen", "dtype": "int64", "shape": [2, 3], "default": null}
    {"type": "VarLen", "dtype": "string"}

``default`` is a value or a (nested) list of values; ``null`` or no such key means no default. The
dtypes are ``"int64"``, ``"float32"`` and ``"string"``. A value is written as

* int64: a JSON integer
* float32: the 8 hex digits of its IEEE bits, most significant first (1.0 is ``"3f800000"``)
* string: the hex digits of its bytes

The answer to a batch is ``{"features": {name: result}}`` or, if TensorFlow refuses it,
``{"error": message, "error_class": class name}``. A result is, with the values in row-major order,

* FixedLen: ``{"dtype": ..., "shape": [batch, ...], "values": [...]}``
* VarLen: ``{"dtype": ..., "row_lengths": [one number for each example], "values": [...]}``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# JSON as the json module reads and writes it.
Json = Any

DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string}


def values_to_json(values: np.ndarray[Any, Any], dtype: str) -> list[Json]:
    """The values of an array, flattened, in the JSON form of ``dtype``."""
    flat = values.reshape(-1)
    if dtype == "int64":
        return [int(value) for value in flat]
    if dtype == "float32":
        return [format(bits, "08x") for bits in flat.view(np.uint32).tolist()]
    return [value.hex() for value in flat]


def default_from_json(default: Json, dtype: str) -> Json:
    """A default value, or a nested list of them, as TensorFlow takes it."""
    if dtype == "int64":
        return default
    if dtype == "float32":
        # By way of the bits: a Python float could not carry every NaN payload.
        bits = map_nested(lambda digits: int(digits, 16), default)
        return np.array(bits, dtype=np.uint32).view(np.float32)
    return map_nested(bytes.fromhex, default)


def map_nested(function: Callable[[str], Json], item: Json) -> Json:
    """Apply a function to a value or to every value of a nested list."""
    if isinstance(item, list):
        return [map_nested(function, inner) for inner in item]
    return function(item)


def feature_from_json(spec: Json) -> tf.io.FixedLenFeature | tf.io.VarLenFeature:
    """One feature of a parse spec."""
    dtype = DTYPES[spec["dtype"]]
    if spec["type"] == "VarLen":
        return tf.io.VarLenFeature(dtype)
    if spec["type"] == "FixedLen":
        default = spec.get("default")
        if default is not None:
            default = default_from_json(default, spec["dtype"])
        return tf.io.FixedLenFeature(spec["shape"], dtype, default)
    raise KeyError(f"unknown feature type {spec['type']!r}")


def sparse_to_json(sparse: tf.SparseTensor, dtype: str) -> Json:
    """The result of a VarLenFeature over a batch."""
    indices = sparse.indices.numpy()
    row_lengths = np.bincount(indices[:, 0], minlength=int(sparse.dense_shape[0])).tolist()
    # Lengths and values say all there is only if every row is filled from its start, in order.
    expected = [[row, k] for row, length in enumerate(row_lengths) for k in range(length)]
    assert indices.tolist() == expected
    assert int(sparse.dense_shape[1]) == max(row_lengths, default=0)
    return {
        "dtype": dtype,
        "row_lengths": row_lengths,
        "values": values_to_json(sparse.values.numpy(), dtype),
    }


def dense_to_json(tensor: tf.Tensor, dtype: str) -> Json:
    """The result of a FixedLenFeature over a batch."""
    return {
        "dtype": dtype,
        "shape": tensor.shape.as_list(),
        "values": values_to_json(tensor.numpy(), dtype),
    }


def result_to_json(parsed: dict[str, Any], spec: Json) -> Json:
    """What ``tf.io.parse_example`` returned, in the order of the spec."""
    return {
        name: (sparse_to_json if feature["type"] == "VarLen" else dense_to_json)(
            parsed[name], feature["dtype"]
        )
        for name, feature in spec.items()
    }


def parse_examples(examples: Sequence[bytes], spec: Json) -> Json:
    """TensorFlow's answer to a batch of serialized Examples: a result or its refusal."""
    try:
        features = {name: feature_from_json(feature) for name, feature in spec.items()}
        serialized = tf.constant(list(examples), dtype=tf.string)
        parsed = tf.io.parse_example(serialized, features)
    except tf.errors.OpError as error:
        return {"error": error.message, "error_class": type(error).__name__}
    except UnicodeDecodeError as error:
        # TensorFlow quotes the input in its message, then fails to make a str of it. This is
        # the InvalidArgumentError that was lost.
        message = error.object.decode("utf-8", "backslashreplace")
        return {"error": message, "error_class": tf.errors.InvalidArgumentError.__name__}
    except (ValueError, TypeError) as error:
        return {"error": str(error), "error_class": type(error).__name__}
    return {"features": result_to_json(parsed, spec)}


def read_records(path: str, compression: str) -> tuple[list[bytes], tf.errors.OpError | None]:
    """The records of a file up to its end or to the first error, and that error."""
    records: list[bytes] = []
    try:
        for record in tf.data.TFRecordDataset(path, compression_type=compression):
            records.append(record.numpy())
    except tf.errors.OpError as error:
        return records, error
    return records, None


def write_records(path: str, records: Sequence[bytes], compression: str) -> None:
    """Write a TFRecord file with TensorFlow's writer."""
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
