"""Conversion of batches and samples to Python values, for comparisons."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import torchrec_io as tio


def plain(value: Any) -> Any:
    """Convert a value, with type, dtype and shape, so that these are compared too."""
    found: Any = value
    if isinstance(value, dict):
        found = {name: plain(each) for name, each in value.items()}
    elif isinstance(value, list):
        found = [plain(each) for each in value]
    elif isinstance(value, Tensor):
        found = str(value.dtype), tuple(value.shape), value.tolist()
    elif isinstance(value, tio.BytesArray):
        found = value.shape, value.tolist()
    elif isinstance(value, tio.Ragged):
        found = "ragged", str(value.offsets.dtype), str(value.flat_values.shape), value.tolist()
    elif isinstance(value, tio.Sparse):
        found = value.indices.tolist(), value.values.tolist(), value.dense_shape
    else:
        assert isinstance(value, bytes)
    return found
