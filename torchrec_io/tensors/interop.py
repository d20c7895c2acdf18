"""A batch as other libraries have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .ragged import BytesArray, Ragged, Sparse

if TYPE_CHECKING:
    from tensordict import TensorDict

    from .batch import Batch


def to_tensordict(batch: Batch, size: Sequence[int]) -> TensorDict:
    """See :meth:`Batch.to_tensordict`; of a batch of that size."""
    made = _tensordict(dict(batch), size)
    if batch.lengths:
        if "lengths" in made.keys():  # noqa: SIM118  # it iterates over rows
            raise ValueError("the lengths of padded columns have no place: a column is so named")
        made["lengths"] = _tensordict(dict(batch.lengths), size)
    return made


def _tensordict(columns: Mapping[str, Any], size: Sequence[int]) -> TensorDict:
    from tensordict import TensorDict  # noqa: PLC0415  # few need it

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
    """See :meth:`Batch.to_keyed_jagged`; columns by flat name."""
    if not names:
        raise ValueError("there must be at least one name")
    parts = [_jagged(name, columns[name]) for name in names]
    values = [part[0] for part in parts]
    lengths = [part[1].to(lengths_dtype) for part in parts]
    if len(parts) == 1:
        return list(names), values[0], lengths[0]
    return list(names), torch.cat(values), torch.cat(lengths)


def _jagged(name: str, value: Any) -> tuple[Tensor, Tensor]:
    """Values and the number of them in each record."""
    if isinstance(value, Ragged) and isinstance(value.values, Tensor) and value.values.dim() == 1:
        return value.to_jagged()
    if isinstance(value, Tensor) and value.dim() in (1, 2):
        count = value.shape[1] if value.dim() == 2 else 1
        return value.reshape(-1), value.new_full((len(value),), count, dtype=torch.int64)
    what = "bytes" if isinstance(value, BytesArray) else repr(value)
    raise TypeError(f"{name!r} has no lengths and numbers as a keyed jagged tensor has: {what}")
