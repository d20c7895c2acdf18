"""Conversion of batches to the types of other libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .ragged import BytesArray, Ragged, Sparse

if TYPE_CHECKING:
    from tensordict import TensorDict


def to_tensordict(
    columns: Mapping[str, Any], lengths: Mapping[str, Tensor], size: Sequence[int]
) -> TensorDict:
    """Convert the columns of a batch; see :meth:`Batch.to_tensordict`.

    Args:
        columns: Columns and dicts of columns by name.
        lengths: Lengths of the padded columns, by flat name.
        size: Batch size of the TensorDict, ``[B]``, or ``[]`` without columns.
    """
    made = _tensordict(columns, size)
    if lengths:
        if "lengths" in made.keys():  # noqa: SIM118  # iteration yields rows
            raise ValueError("a batch with padded columns must not have a column named 'lengths'")
        made["lengths"] = _tensordict(lengths, size)
    return made


def _tensordict(columns: Mapping[str, Any], size: Sequence[int]) -> TensorDict:
    from tensordict import TensorDict  # noqa: PLC0415  # optional dependency

    entries = {
        key: _tensordict(value, size) if isinstance(value, dict) else _entry(value, size)
        for key, value in columns.items()
    }
    return TensorDict(entries, batch_size=size)


def _entry(value: Any, size: Sequence[int]) -> Any:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Ragged) and isinstance(value.values, Tensor):
        return value.to_nested()
    rows = value.rows() if isinstance(value, (Ragged, Sparse)) else list(value)
    from tensordict import NonTensorData, NonTensorStack  # noqa: PLC0415

    if not rows:
        return NonTensorData(data=[], batch_size=size)
    return NonTensorStack(*(NonTensorData(data=row) for row in rows))


def to_keyed_jagged(
    columns: Mapping[str, Any], names: Sequence[str], lengths_dtype: torch.dtype
) -> tuple[list[str], Tensor, Tensor]:
    """Convert columns by flat name; see :meth:`Batch.to_keyed_jagged`."""
    if not names:
        raise ValueError("names must contain at least one name")
    parts = [_jagged(name, columns[name]) for name in names]
    values = [part[0] for part in parts]
    lengths = [part[1].to(lengths_dtype) for part in parts]
    if len(parts) == 1:
        return list(names), values[0], lengths[0]
    return list(names), torch.cat(values), torch.cat(lengths)


def _jagged(name: str, value: Any) -> tuple[Tensor, Tensor]:
    """Return the values, and the number of values in each record."""
    if isinstance(value, Ragged) and isinstance(value.values, Tensor) and value.values.dim() == 1:
        return value.to_jagged()
    if isinstance(value, Tensor) and value.dim() in (1, 2):
        count = value.shape[1] if value.dim() == 2 else 1
        return value.reshape(-1), value.new_full((len(value),), count, dtype=torch.int64)
    found = "bytes" if isinstance(value, BytesArray) else repr(value)
    raise TypeError(
        f"{name!r} must be a Ragged of numbers or a Tensor [B] or [B, n] to become a part of a "
        f"keyed jagged tensor, got {found}"
    )
