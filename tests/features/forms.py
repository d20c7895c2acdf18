"""The JSON forms of ``interop/tf_json.py`` on our side: specs to schemas, batches to results."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchrec_io as tio


def schema_of(spec: dict[str, Any]) -> tio.Schema:
    """A schema from the JSON form of a TensorFlow spec; see ``interop/tf_json.py``."""
    return tio.Schema({name: feature_of(feature) for name, feature in spec.items()})


def feature_of(spec: dict[str, Any]) -> tio.FixedLenFeature | tio.VarLenFeature:
    if spec["type"] == "VarLen":
        return tio.VarLenFeature(spec["dtype"])
    default = spec.get("default")
    if default is not None:
        default = default_of(default, spec["dtype"])
    return tio.FixedLenFeature(spec["shape"], spec["dtype"], default)


def default_of(default: Any, dtype: str) -> Any:
    if isinstance(default, list):
        return [default_of(item, dtype) for item in default]
    if dtype == "float32":
        return np.array(int(default, 16), np.uint32).view(np.float32)[()]
    return bytes.fromhex(default) if dtype == "string" else default


def values_to_json(values: torch.Tensor | tio.BytesArray) -> list[Any]:
    """Values in the JSON form of ``interop/tf_json.py``."""
    if isinstance(values, tio.BytesArray):
        return [value.hex() for value in values.flat()]
    flat = values.reshape(-1)
    if flat.dtype == torch.float32:
        return [format(bits, "08x") for bits in flat.view(torch.uint32).tolist()]
    return flat.tolist()


def batch_to_json(batch: tio.Batch) -> dict[str, Any]:
    """A batch in the JSON form of ``interop/tf_json.py``."""
    results: dict[str, Any] = {}
    for name, value in batch.items():
        values = value.flat_values if isinstance(value, tio.Ragged) else value
        dtype = "string"
        if isinstance(values, torch.Tensor):
            dtype = str(values.dtype).removeprefix("torch.")
        results[name] = {"dtype": dtype, "values": values_to_json(values)}
        if isinstance(value, tio.Ragged):
            results[name]["row_lengths"] = value.lengths.tolist()
        else:
            results[name]["shape"] = list(value.shape)
    return results
