"""Conversion of samples to Python values, for comparisons."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import torchrec_io as tio


def plain(value: Any) -> Any:
    """Convert a value, with type, dtype and shape, so that these are compared too."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, bytes):
        return value
    if isinstance(value, Tensor):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if isinstance(value, tio.BytesArray):
        return value.shape, value.tolist()
    if isinstance(value, tio.Ragged):
        return "ragged", str(value.offsets.dtype), str(value.flat_values.shape), value.tolist()
    assert isinstance(value, tio.Sparse)
    return value.indices.tolist(), value.values.tolist(), value.dense_shape
