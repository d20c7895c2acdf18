"""Conversions from and to the JSON forms of ``interop/tf_json.py``: schemas and results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import torchrec_io as tio

# ---- specs ----


def schema_of(spec: dict[str, Any]) -> tio.Schema:
    """Return a schema from the JSON form of a TensorFlow spec."""
    return tio.Schema(features_of(spec))


def sequence_schema_of(context: dict[str, Any], sequence: dict[str, Any]) -> tio.Schema:
    """Return a schema of SequenceExamples from the JSON forms of its two specs."""
    return tio.Schema(context=features_of(context), sequence=features_of(sequence))


def features_of(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: feature_of(feature) for name, feature in spec.items()}


def feature_of(spec: dict[str, Any]) -> Any:
    dtype = spec["dtype"]
    default = default_of(spec.get("default"), dtype)
    if spec["type"] == "VarLen":
        return tio.VarLenFeature(dtype)
    if spec["type"] == "FixedLen":
        return tio.FixedLenFeature(spec["shape"], dtype, default)
    if spec["type"] == "FixedLenSequence":
        missing = spec.get("allow_missing", False)
        return tio.FixedLenSequenceFeature(spec["shape"], dtype, missing, default)
    if spec["type"] == "Sparse":
        already_sorted = spec.get("already_sorted", False)
        return tio.SparseFeature(
            spec["index_key"], spec["value_key"], dtype, spec["size"], already_sorted
        )
    assert spec["type"] == "Ragged"
    return tio.RaggedFeature(
        dtype,
        value_key=spec.get("value_key"),
        partitions=[
            getattr(tio.RaggedFeature, name)(argument)
            for name, argument in spec.get("partitions", ())
        ],
        row_splits_dtype=spec.get("row_splits_dtype", "int32"),
        validate=spec.get("validate", False),
    )


def default_of(default: Any, dtype: str) -> Any:
    if default is None:
        return None
    if isinstance(default, list):
        return [default_of(item, dtype) for item in default]
    if dtype == "float32":
        return np.array(int(default, 16), np.uint32).view(np.float32)[()]
    return bytes.fromhex(default) if dtype == "string" else default


# ---- results ----


def values_to_json(values: torch.Tensor | tio.BytesArray) -> list[Any]:
    """Convert values to the JSON form of ``interop/tf_json.py``."""
    if isinstance(values, tio.BytesArray):
        return [value.hex() for value in values.flat()]
    flat = values.reshape(-1)
    if flat.dtype == torch.float32:
        return [format(bits, "08x") for bits in flat.view(torch.uint32).tolist()]
    return flat.tolist()


def flat_form(values: torch.Tensor | tio.BytesArray) -> dict[str, Any]:
    """Return dtype and values, without a shape."""
    dtype = "string" if isinstance(values, tio.BytesArray) else name_of(values.dtype)
    return {"dtype": dtype, "values": values_to_json(values)}


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def ragged_parts(value: tio.Ragged) -> tuple[list[torch.Tensor], torch.Tensor | tio.BytesArray]:
    """Return the offsets of all levels, outermost first, and the flat values."""
    offsets: list[torch.Tensor] = []
    inner: Any = value
    while isinstance(inner, tio.Ragged):
        offsets.append(inner.offsets)
        inner = inner.values
    return offsets, inner


def ragged_to_json(value: tio.Ragged) -> dict[str, Any]:
    """Convert the column of a RaggedFeature."""
    offsets, values = ragged_parts(value)
    [dtype] = {name_of(splits.dtype) for splits in offsets}
    return {
        **flat_form(values),
        "splits_dtype": dtype,
        "row_splits": [splits.tolist() for splits in offsets],
        "values_shape": list(values.shape),
    }


def rows_to_json(value: tio.Ragged) -> dict[str, Any]:
    """Convert the column of a VarLenFeature: rows, or steps in feature lists."""
    offsets, values = ragged_parts(value)
    assert {splits.dtype for splits in offsets} == {torch.int64}
    if len(offsets) == 1:
        return {**flat_form(values), "row_lengths": offsets[0].diff().tolist()}
    return steps_to_json(value)


def steps_to_json(value: tio.Ragged) -> dict[str, Any]:
    """Convert steps of values, or rows of steps, to the form of a sparse tensor."""
    offsets, values = ragged_parts(value)
    levels = [splits.tolist() for splits in offsets]
    dense_shape = [len(levels[0]) - 1]
    indices: list[list[int]] = [[row] for row in range(dense_shape[0])]
    for splits in levels:
        lengths = [end - begin for begin, end in itertools.pairwise(splits)]
        assert splits[0] == 0
        dense_shape.append(max(lengths, default=0))
        rows = zip(indices, lengths, strict=True)
        indices = [[*index, k] for index, length in rows for k in range(length)]
    return {**flat_form(values), "indices": indices, "dense_shape": dense_shape}


def value_to_json(value: Any, feature: dict[str, Any], single: bool, in_lists: bool) -> Any:
    """Convert the column of one feature."""
    if isinstance(value, bytes):
        return {"dtype": "string", "shape": [], "values": [value.hex()]}
    if isinstance(value, tio.Sparse):
        assert value.indices.dtype == torch.int64
        shape = list(value.dense_shape)
        return {
            **flat_form(value.values),
            "indices": value.indices.tolist(),
            "dense_shape": shape,
        }
    if isinstance(value, tio.Ragged):
        if feature["type"] == "Ragged":
            return ragged_to_json(value)
        return steps_to_json(value) if single and in_lists else rows_to_json(value)
    return {**flat_form(value), "shape": list(value.shape)}


def columns_to_json(
    columns: tio.Batch | Mapping[str, Any],
    spec: dict[str, Any],
    *,
    single: bool = False,
    in_lists: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Convert a batch or, if ``single``, a sample to the JSON form of ``interop/tf_json.py``.

    Args:
        columns: Columns of the batch or sample.
        spec: JSON form of the schema. For SequenceExamples, both parts merged.
        single: Whether the columns are a sample.
        in_lists: Names of features read from feature lists.
    """
    assert list(columns) == list(spec)
    return {
        name: value_to_json(columns[name], feature, single, name in in_lists)
        for name, feature in spec.items()
    }


def batch_to_json(batch: tio.Batch) -> dict[str, Any]:
    """Convert a batch of FixedLen and VarLen features to JSON."""
    return columns_to_json(batch, {name: {"type": "VarLen"} for name in batch})


def array_to_json(array: Any) -> dict[str, Any]:
    """Convert an array of any dtype to JSON."""
    if isinstance(array, bytes):
        return {"dtype": "string", "shape": [], "values": [array.hex()]}
    if isinstance(array, tio.BytesArray):
        return {**flat_form(array), "shape": list(array.shape)}
    content = array.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"dtype": name_of(array.dtype), "shape": list(array.shape), "content": content.hex()}
