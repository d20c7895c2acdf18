"""A batch as other libraries have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .ragged import BytesArray, Ragged, Sparse

if TYPE_CHECKING:
    from tensordict import TensorDict

    from .batch import Batch


def to_tensordict(batch: Batch) -> TensorDict:
    """See :meth:`Batch.to_tensordict`."""
    from tensordict import TensorDict  # noqa: PLC0415  # few need it

    size = [len(next(iter(batch.values())))] if len(batch) else []
    columns: dict[str, Any] = {name: _entry(value, size) for name, value in batch.items()}
    if batch.lengths:
        if "lengths" in columns:
            raise ValueError("the lengths of padded columns have no place: a column is so named")
        columns["lengths"] = TensorDict(dict(batch.lengths), batch_size=size)
    return TensorDict(columns, batch_size=size)


def _entry(value: Any, size: list[int]) -> Any:
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
    batch: Batch, names: Sequence[str], lengths_dtype: torch.dtype
) -> tuple[list[str], Tensor, Tensor]:
    """See :meth:`Batch.to_keyed_jagged`."""
    if not names:
        raise ValueError("there must be at least one name")
    parts = [_jagged(name, batch[name]) for name in names]
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
