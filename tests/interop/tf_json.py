"""TensorFlow's parse specs and results as JSON (runs where TensorFlow is installed).

A spec is an object from feature names to feature specs::

    {"type": "FixedLen", "dtype": "int64", "shape": [2, 3], "default": null}
    {"type": "FixedLenSequence", "dtype": "int64", "shape": [2], "allow_missing": true,
     "default": null}
    {"type": "VarLen", "dtype": "string"}
    {"type": "Sparse", "dtype": "float32", "index_key": "i" or ["i", "j"], "value_key": "v",
     "size": 10 or [10, 20], "already_sorted": false}
    {"type": "Ragged", "dtype": "int64", "value_key": null, "row_splits_dtype": "int32",
     "validate": false, "partitions": [["RowSplits", "key"], ["UniformRowLength", 2]]}

``default`` is a value or a (nested) list of values. What is ``null`` above, ``allow_missing``,
``already_sorted`` and what ``Ragged`` has after its dtype may be left out. The dtypes are
``"int64"``, ``"float32"`` and ``"string"``. A value is written as

* int64: a JSON integer
* float32: the 8 hex digits of its IEEE bits, most significant first (1.0 is ``"3f800000"``)
* string: the hex digits of its bytes

The answer to a batch is ``{"features": {name: result}}`` or, if TensorFlow refuses it,
``{"error": message, "error_class": class name}``. A result has a dtype, values in row-major order
and, by its form,

* dense: ``"shape"``
* rows of any length, as VarLen makes of Examples: ``"row_lengths"``
* sparse: ``"indices"``, a list for each value, and ``"dense_shape"``
* ragged: ``"row_splits"``, a list for each partition with the outermost first, their dtype
  ``"splits_dtype"``, and the shape of the flat values ``"values_shape"``

SequenceExamples have two specs, ``context`` and ``sequence``, whose results are put together; the
lengths of their FixedLenSequence features lie beside them: ``{"features": ..., "lengths": {name:
[one number for each example]}}``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# JSON as the json module reads and writes it.
Json = Any

DTYPES = {
    "int32": tf.int32,  # of row splits only
    "int64": tf.int64,
    "float32": tf.float32,
    "string": tf.string,
}


# ---- specs ----


def default_from_json(default: Json, dtype: str) -> Json:
    """A default value, or a nested list of them, as TensorFlow takes it."""
    if default is None or dtype == "int64":
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


def feature_from_json(spec: Json) -> Json:
    """One feature of a parse spec."""
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
    """A parse spec."""
    return {name: feature_from_json(feature) for name, feature in spec.items()}


# ---- results ----


def values_to_json(values: np.ndarray[Any, Any], dtype: str) -> list[Json]:
    """The values of an array, flattened, in the JSON form of ``dtype``."""
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
    # Lengths and values say all there is only if every row is filled from its start, in order.
    expected = [[row, k] for row, length in enumerate(row_lengths) for k in range(length)]
    assert indices.tolist() == expected
    assert int(sparse.dense_shape[1]) == max(row_lengths, default=0)
    return {"dtype": dtype, "row_lengths": row_lengths, "values": values}


def sparse_to_json(sparse: Any, dtype: str) -> Json:
    """The result of a SparseFeature, or of a VarLenFeature over feature lists."""
    return {
        "dtype": dtype,
        "indices": sparse.indices.numpy().tolist(),
        "dense_shape": sparse.dense_shape.numpy().tolist(),
        "values": values_to_json(sparse.values.numpy(), dtype),
    }


def dense_to_json(tensor: Any, dtype: str) -> Json:
    """A dense result."""
    values = tensor.numpy()
    return {
        "dtype": dtype,
        "shape": tensor.shape.as_list(),
        # A scalar string is bytes, which NumPy would strip of their last zeros.
        "values": [values.hex()] if isinstance(values, bytes) else values_to_json(values, dtype),
    }


def ragged_to_json(ragged: Any, dtype: str) -> Json:
    """The result of a RaggedFeature that is not dense."""
    return {
        "dtype": dtype,
        "splits_dtype": ragged.row_splits.dtype.name,
        "row_splits": [splits.numpy().tolist() for splits in ragged.nested_row_splits],
        "values_shape": ragged.flat_values.shape.as_list(),
        "values": values_to_json(ragged.flat_values.numpy(), dtype),
    }


def feature_to_json(value: Any, spec: Json, in_lists: bool) -> Json:
    """What one feature became."""
    dtype = spec["dtype"]
    if isinstance(value, tf.RaggedTensor):
        return ragged_to_json(value, dtype)
    if isinstance(value, tf.SparseTensor):
        as_rows = spec["type"] == "VarLen" and not in_lists
        return (rows_to_json if as_rows else sparse_to_json)(value, dtype)
    return dense_to_json(value, dtype)


def features_to_json(parsed: Any, spec: Json, in_lists: bool = False) -> Json:
    """What TensorFlow made of a spec, in the order of the spec."""
    assert sorted(parsed) == sorted(spec)
    return {name: feature_to_json(parsed[name], spec[name], in_lists) for name in spec}


def answer_or_refusal(ask: Callable[[], Json]) -> Json:
    """TensorFlow's answer or, in the same form everywhere, its refusal."""
    try:
        return ask()
    except tf.errors.OpError as error:
        return {"error": error.message, "error_class": type(error).__name__}
    except UnicodeDecodeError as error:
        # TensorFlow quotes the input in its message, then fails to make a str of it. This is
        # the InvalidArgumentError that was lost.
        message = error.object.decode("utf-8", "backslashreplace")
        return {"error": message, "error_class": tf.errors.InvalidArgumentError.__name__}
    except (ValueError, TypeError) as error:
        return {"error": str(error), "error_class": type(error).__name__}


# ---- questions ----


def parse_examples(examples: Sequence[bytes], spec: Json) -> Json:
    """TensorFlow's answer to a batch of serialized Examples: a result or its refusal."""

    def ask() -> Json:
        serialized = tf.constant(list(examples), dtype=tf.string)
        parsed = tf.io.parse_example(serialized, spec_from_json(spec))
        return {"features": features_to_json(parsed, spec)}

    return answer_or_refusal(ask)


def parse_single_example(example: bytes, spec: Json) -> Json:
    """TensorFlow's answer to one Example without a batch dimension."""

    def ask() -> Json:
        parsed = tf.io.parse_single_example(tf.constant(example), spec_from_json(spec))
        return {"features": features_to_json(parsed, spec)}

    return answer_or_refusal(ask)


def parse_sequence_examples(examples: Sequence[bytes], context: Json, sequence: Json) -> Json:
    """TensorFlow's answer to a batch of SequenceExamples."""
    assert not set(context) & set(sequence)

    def ask() -> Json:
        parsed, lists, lengths = tf.io.parse_sequence_example(
            tf.constant(list(examples), dtype=tf.string),
            # None where there is no feature: TensorFlow takes an empty dict for an oversight.
            spec_from_json(context) or None,
            spec_from_json(sequence) or None,
        )
        return {
            "features": features_to_json(parsed, context) | features_to_json(lists, sequence, True),
            "lengths": {name: lengths[name].numpy().tolist() for name in sorted(lengths)},
        }

    return answer_or_refusal(ask)


def parse_single_sequence_example(example: bytes, context: Json, sequence: Json) -> Json:
    """TensorFlow's answer to one SequenceExample without a batch dimension."""
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
    """A tensor of any dtype: its little-endian bytes, or the values of strings."""
    array = tensor.numpy()
    form = {"dtype": tensor.dtype.name, "shape": tensor.shape.as_list()}
    if tensor.dtype == tf.string:
        values = [array] if isinstance(array, bytes) else array.reshape(-1).tolist()
        return {**form, "values": [value.hex() for value in values]}
    return {**form, "content": array.tobytes().hex()}


def array_from_json(form: Json) -> Any:
    """A tensor from what :func:`array_to_json` makes of it."""
    if form["dtype"] == "string":
        values = [bytes.fromhex(value) for value in form["values"]]
        return tf.reshape(tf.constant(values, tf.string), form["shape"])
    dtype = tf.as_dtype(form["dtype"])
    array = np.frombuffer(bytes.fromhex(form["content"]), dtype.as_numpy_dtype)
    return tf.constant(array.reshape(form["shape"]), dtype)


def decode_raw(
    values: Sequence[bytes], dtype: str, little_endian: bool, fixed_length: int | None
) -> Json:
    """What ``tf.io.decode_raw`` makes of a vector of strings."""

    def ask() -> Json:
        strings = tf.constant(list(values), tf.string)
        decoded = tf.io.decode_raw(strings, tf.as_dtype(dtype), little_endian, fixed_length)
        return array_to_json(decoded)

    return answer_or_refusal(ask)


def parse_tensor(serialized: bytes, dtype: str) -> Json:
    """What ``tf.io.parse_tensor`` makes of a TensorProto."""
    return answer_or_refusal(
        lambda: array_to_json(tf.io.parse_tensor(tf.constant(serialized), tf.as_dtype(dtype)))
    )


def decode_image(data: bytes, channels: int, dtype: str, *, frames: bool) -> Json:
    """What ``tf.io.decode_image`` makes of an image; of a JPEG by the exact transform."""

    def ask() -> Json:
        if data[:2] == b"\xff\xd8" and dtype == "uint8":
            return array_to_json(
                tf.io.decode_jpeg(data, channels=channels, dct_method="INTEGER_ACCURATE")
            )
        return array_to_json(
            tf.io.decode_image(
                data, channels=channels, dtype=tf.as_dtype(dtype), expand_animations=frames
            )
        )

    return answer_or_refusal(ask)


def serialize_tensor(form: Json) -> bytes:
    """What ``tf.io.serialize_tensor`` makes of a tensor."""
    serialized: bytes = tf.io.serialize_tensor(array_from_json(form)).numpy()
    return serialized


# ---- files ----


def read_records(path: str, compression: str) -> tuple[list[bytes], Any]:
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
