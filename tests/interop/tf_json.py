"""JSON forms of TensorFlow's parse specs and results; needs TensorFlow.

A spec is an object from feature names to feature specs::

    {"type": "FixedLen", "dtype": "int64", "shape": [2, 3], "default": null}
    {"type": "FixedLenSequence", "dtype": "int64", "shape": [2], "allow_missing": true,
     "default": null}
    {"type": "VarLen", "dtype": "string"}
    {"type": "Sparse", "dtype": "float32", "index_key": "i" or ["i", "j"], "value_key": "v",
     "size": 10 or [10, 20], "already_sorted": false}
    {"type": "Ragged", "dtype": "int64", "value_key": null, "row_splits_dtype": "int32",
     "validate": false, "partitions": [["RowSplits", "key"], ["UniformRowLength", 2]]}

``default`` is a value or a (nested) list of values. Members with the value ``null``
above, ``allow_missing``, ``already_sorted`` and the members of ``Ragged`` after its dtype are
optional. The dtypes are ``"int64"``, ``"float32"`` and ``"string"``. A value is written as

* int64: a JSON integer
* float32: the 8 hex digits of its IEEE bits, most significant first (1.0 is ``"3f800000"``)
* string: the hex digits of its bytes

The answer to a batch is ``{"features": {name: result}}`` or, if TensorFlow rejects it,
``{"error": message, "error_class": class name}``. A result has a dtype, values in row-major order
and, depending on its form,

* dense: ``"shape"``
* rows of any length, for VarLen in Examples: ``"row_lengths"``
* sparse: ``"indices"``, a list for each value, and ``"dense_shape"``
* ragged: ``"row_splits"``, a list for each partition with the outermost first, their dtype
  ``"splits_dtype"``, and the shape of the flat values ``"values_shape"``

SequenceExamples have two specs, ``context`` and ``sequence``, whose results are merged. The lengths
of their FixedLenSequence features are separate: ``{"features": ..., "lengths": {name: [one number
for each example]}}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Any value of the json module.
Json = Any

DTYPES = {
    "int32": tf.int32,  # only for row splits
    "int64": tf.int64,
    "float32": tf.float32,
    "string": tf.string,
}


# ---- specs ----


def default_from_json(default: Json, dtype: str) -> Json:
    """Convert a default value, or a nested list of them, to TensorFlow's form."""
    if default is None or dtype == "int64":
        return default
    if dtype == "float32":
        # Convert the bits: a Python float cannot hold every NaN payload.
        bits = map_nested(lambda digits: int(digits, 16), default)
        return np.array(bits, dtype=np.uint32).view(np.float32)
    return map_nested(bytes.fromhex, default)


def map_nested(function: Callable[[str], Json], item: Json) -> Json:
    """Apply a function to a value or to every value of a nested list."""
    if isinstance(item, list):
        return [map_nested(function, inner) for inner in item]
    return function(item)


def feature_from_json(spec: Json) -> Json:
    """Return one feature of a parse spec."""
    dtype = DTYPES[spec["dtype"]]
    kind = spec["type"]
    if kind == "VarLen":
        return tf.io.VarLenFeature(dtype)
    if kind in ("FixedLen", "FixedLenSequence"):
        default = default_from_json(spec.get("default"), spec["dtype"])
        if kind == "FixedLen":
            return tf.io.FixedLenFeature(spec["shape"], dtype, default)
        missing = spec.get("allow_missing", False)
        return tf.io.FixedLenSequenceFeature(spec["shape"], dtype, missing, default)
    if kind == "Sparse":
        return tf.io.SparseFeature(
            spec["index_key"],
            spec["value_key"],
            dtype,
            spec["size"],
            already_sorted=spec.get("already_sorted", False),
        )
    if kind == "Ragged":
        return tf.io.RaggedFeature(
            dtype,
            value_key=spec.get("value_key"),
            partitions=[
                getattr(tf.io.RaggedFeature, name)(argument)
                for name, argument in spec.get("partitions", ())
            ],
            row_splits_dtype=DTYPES[spec.get("row_splits_dtype", "int32")],
            validate=spec.get("validate", False),
        )
    raise KeyError(f"unknown feature type {kind!r}")


def spec_from_json(spec: Json) -> Json:
    """Return a parse spec."""
    return {name: feature_from_json(feature) for name, feature in spec.items()}


# ---- results ----


def values_to_json(values: np.ndarray[Any, Any], dtype: str) -> list[Json]:
    """Return the flattened values of an array in the JSON form of ``dtype``."""
    flat = values.reshape(-1)
    if dtype == "int64":
        return [int(value) for value in flat]
    if dtype == "float32":
        return [format(bits, "08x") for bits in flat.view(np.uint32).tolist()]
    return [value.hex() for value in flat]


def rows_to_json(sparse: Any, dtype: str) -> Json:
    """The result of a VarLenFeature over a batch of rows, or of one row."""
    indices = sparse.indices.numpy()
    values = values_to_json(sparse.values.numpy(), dtype)
    if indices.shape[1] == 1:
        assert indices[:, 0].tolist() == list(range(len(values)))
        assert sparse.dense_shape.numpy().tolist() == [len(values)]
        return {"dtype": dtype, "shape": [len(values)], "values": values}
    row_lengths = np.bincount(indices[:, 0], minlength=int(sparse.dense_shape[0])).tolist()
    # Lengths and values are complete only if every row is filled from its start, in order.
    expected = [[row, k] for row, length in enumerate(row_lengths) for k in range(length)]
    assert indices.tolist() == expected
    assert int(sparse.dense_shape[1]) == max(row_lengths, default=0)
    return {"dtype": dtype, "row_lengths": row_lengths, "values": values}


def sparse_to_json(sparse: Any, dtype: str) -> Json:
    """Convert the result of a SparseFeature, or of a VarLenFeature of feature lists."""
    return {
        "dtype": dtype,
        "indices": sparse.indices.numpy().tolist(),
        "dense_shape": sparse.dense_shape.numpy().tolist(),
        "values": values_to_json(sparse.values.numpy(), dtype),
    }


def dense_to_json(tensor: Any, dtype: str) -> Json:
    """Convert a dense result."""
    values = tensor.numpy()
    return {
        "dtype": dtype,
        "shape": tensor.shape.as_list(),
        # A scalar string is bytes, whose trailing zeros NumPy would remove.
        "values": [values.hex()] if isinstance(values, bytes) else values_to_json(values, dtype),
    }


def ragged_to_json(ragged: Any, dtype: str) -> Json:
    """Convert the result of a RaggedFeature that is not dense."""
    return {
        "dtype": dtype,
        "splits_dtype": ragged.row_splits.dtype.name,
        "row_splits": [splits.numpy().tolist() for splits in ragged.nested_row_splits],
        "values_shape": ragged.flat_values.shape.as_list(),
        "values": values_to_json(ragged.flat_values.numpy(), dtype),
    }


def feature_to_json(value: Any, spec: Json, in_lists: bool) -> Json:
    """Convert the result of one feature."""
    dtype = spec["dtype"]
    if isinstance(value, tf.RaggedTensor):
        return ragged_to_json(value, dtype)
    if isinstance(value, tf.SparseTensor):
        as_rows = spec["type"] == "VarLen" and not in_lists
        return (rows_to_json if as_rows else sparse_to_json)(value, dtype)
    return dense_to_json(value, dtype)


def features_to_json(parsed: Any, spec: Json, in_lists: bool = False) -> Json:
    """Convert the results of all features, in the order of the spec."""
    assert sorted(parsed) == sorted(spec)
    return {name: feature_to_json(parsed[name], spec[name], in_lists) for name in spec}


def answer_or_refusal(ask: Callable[[], Json]) -> Json:
    """Return TensorFlow's answer, or its error in a uniform form."""
    try:
        return ask()
    except tf.errors.OpError as error:
        return {"error": error.message, "error_class": type(error).__name__}
    except UnicodeDecodeError as error:
        # TensorFlow quotes the input in its message and then fails to decode it as a str. This
        # replaces the lost InvalidArgumentError.
        message = error.object.decode("utf-8", "backslashreplace")
        return {"error": message, "error_class": tf.errors.InvalidArgumentError.__name__}
    except (ValueError, TypeError) as error:
        return {"error": str(error), "error_class": type(error).__name__}


# ---- requests ----


def parse_examples(examples: Sequence[bytes], spec: Json) -> Json:
    """Parse a batch of serialized Examples with TensorFlow."""
    return parse(tf.io.parse_example, tf.constant(list(examples), dtype=tf.string), spec)


def parse_single_example(example: bytes, spec: Json) -> Json:
    """Parse one Example without a batch dimension with TensorFlow."""
    return parse(tf.io.parse_single_example, tf.constant(example), spec)


def parse(function: Callable[..., Json], serialized: Any, spec: Json) -> Json:
    """Return what a function of TensorFlow parses."""
    return answer_or_refusal(
        lambda: {"features": features_to_json(function(serialized, spec_from_json(spec)), spec)}
    )


def parse_sequence_examples(examples: Sequence[bytes], context: Json, sequence: Json) -> Json:
    """Parse a batch of SequenceExamples with TensorFlow."""
    assert not set(context) & set(sequence)

    def ask() -> Json:
        parsed, lists, lengths = tf.io.parse_sequence_example(
            tf.constant(list(examples), dtype=tf.string),
            # None if there is no feature, because TensorFlow rejects an empty dict.
            spec_from_json(context) or None,
            spec_from_json(sequence) or None,
        )
        return {
            "features": features_to_json(parsed, context) | features_to_json(lists, sequence, True),
            "lengths": {name: lengths[name].numpy().tolist() for name in sorted(lengths)},
        }

    return answer_or_refusal(ask)


def parse_single_sequence_example(example: bytes, context: Json, sequence: Json) -> Json:
    """Parse one SequenceExample without a batch dimension with TensorFlow."""
    assert not set(context) & set(sequence)

    def ask() -> Json:
        parsed, lists = tf.io.parse_single_sequence_example(
            tf.constant(example),
            spec_from_json(context) or None,
            spec_from_json(sequence) or None,
        )
        return {
            "features": features_to_json(parsed, context) | features_to_json(lists, sequence, True)
        }

    return answer_or_refusal(ask)


# ---- arrays ----


def array_to_json(tensor: Any) -> Json:
    """Convert a tensor of any dtype to its little-endian bytes, or the values of strings."""
    array = tensor.numpy()
    form = {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list()}
    if tensor.dtype == tf.string:
        values = [array] if isinstance(array, bytes) else array.reshape(-1).tolist()
        return {**form, "values": [value.hex() for value in values]}
    return {**form, "content": array.tobytes().hex()}


def array_from_json(form: Json) -> Any:
    """Convert the result of :func:`array_to_json` back to a tensor."""
    if form["dtype"] == "string":
        values = [bytes.fromhex(value) for value in form["values"]]
        return tf.reshape(tf.constant(values, tf.string), form["shape"])
    dtype = tf.as_dtype(form["dtype"])
    array = np.frombuffer(bytes.fromhex(form["content"]), dtype.as_numpy_dtype)
    return tf.constant(array.reshape(form["shape"]), dtype)


def decode_raw(
    values: Sequence[bytes], dtype: str, little_endian: bool, fixed_length: int | None
) -> Json:
    """Decode a vector of strings with ``tf.io.decode_raw``."""

    def ask() -> Json:
        strings = tf.constant(list(values), tf.string)
        decoded = tf.io.decode_raw(strings, tf.as_dtype(dtype), little_endian, fixed_length)
        return array_to_json(decoded)

    return answer_or_refusal(ask)


def parse_tensor(serialized: bytes, dtype: str) -> Json:
    """Parse a TensorProto with ``tf.io.parse_tensor``."""
    return answer_or_refusal(
        lambda: array_to_json(tf.io.parse_tensor(tf.constant(serialized), tf.as_dtype(dtype)))
    )


def decode_image(
    data: bytes, channels: int, dtype: str = "uint8", *, frames: bool = False, exact: bool = True
) -> Json:
    """Decode an image with ``tf.io.decode_image``, a JPEG with the exact or default transform."""

    def ask() -> Json:
        if data[:2] == b"\xff\xd8" and dtype == "uint8":
            method = "INTEGER_ACCURATE" if exact else ""
            return array_to_json(tf.io.decode_jpeg(data, channels=channels, dct_method=method))
        return array_to_json(
            tf.io.decode_image(
                data, channels=channels, dtype=tf.as_dtype(dtype), expand_animations=frames
            )
        )

    return answer_or_refusal(ask)


def serialize_tensor(array: Json) -> Json:
    """Serialize a tensor with ``tf.io.serialize_tensor``."""
    return {"serialized": tf.io.serialize_tensor(array_from_json(array)).numpy().hex()}


# ---- files ----


def read_records(path: str, compression: str) -> tuple[list[bytes], Any]:
    """Return the records of a file up to its end or the first error, and that error."""
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
