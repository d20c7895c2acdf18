"""Views of the columns of an arena, their rows, and their descriptions."""

from __future__ import annotations

import functools
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._parsing.layout import Column, DenseColumns, Texts
from .._schema.dtypes import RAW_DTYPES
from .ragged import BytesArray, Ragged, Sparse, has_rows

Value: TypeAlias = (
    "Tensor | BytesArray | Ragged | Sparse | list[Tensor] | list[BytesArray] | list[Ragged]"
)

_TORCH_DTYPES: dict[str, torch.dtype] = {dtype: getattr(torch, dtype) for dtype in RAW_DTYPES}


def make_views(arena: Tensor, columns: Iterable[Column]) -> dict[str, Any]:
    """Return views of columns by name.

    Args:
        arena: uint8 ``[n]``.
        columns: Columns of the arena.
    """
    maker = ArenaViews(arena)
    views: dict[str, Any] = {}
    for column in columns:
        column.add_views(maker, views)
    return views


class ArenaViews:
    """Maker of views of an arena, for the columns of a layout.

    Args:
        arena: uint8 ``[n]``.
    """

    ragged = Ragged
    sparse = Sparse

    def __init__(self, arena: Tensor) -> None:
        self._arena = arena
        self._typed: dict[str, Tensor] = {}

    def numbers(
        self, dtype: str, shape: tuple[int, ...], at: int, strides: tuple[int, ...] | None = None
    ) -> Tensor:
        """Return the array at byte ``at``, a multiple of 64."""
        typed = self._typed.get(dtype)
        if typed is None:
            typed = self._typed[dtype] = self._arena.view(_TORCH_DTYPES[dtype])
        return typed.as_strided(shape, strides or _strides(shape), at // typed.itemsize)

    def texts(self, texts: Texts) -> BytesArray:
        """Return an array of bytes values."""
        return BytesArray(
            self.numbers("uint8", (texts.data_bytes,), texts.data_at),
            self.numbers("int64", (math.prod(texts.shape) + 1,), texts.offsets_at),
            texts.shape,
        )

    def dense(self, columns: DenseColumns) -> Sequence[Tensor]:
        """Return the arrays of several columns."""
        if len(columns.names) == 1:
            return (self.numbers(columns.dtype, columns.shape, columns.at),)
        # One view of all columns and one unbind take a fifth of the time of separate views.
        names, dtype, shape, at, stride = columns
        strides = (stride // _TORCH_DTYPES[dtype].itemsize, *_strides(shape))
        return self.numbers(dtype, (len(names), *shape), at, strides).unbind()


@functools.lru_cache(256)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor, in elements."""
    if len(shape) == 1:
        return (1,)
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def list_rows(value: Value) -> Sequence[Any]:
    """Return the rows of a column, one for each record."""
    if isinstance(value, Tensor):
        return value.unbind()
    if isinstance(value, BytesArray):
        return value.flat() if len(value.shape) == 1 else list(value)
    if isinstance(value, (Ragged, Sparse)):
        return value.rows()
    if isinstance(value, list):
        return value
    raise TypeError(f"a column of records must be made of Tensors, got {type(value).__name__}")


def count_rows(value: Value) -> int:
    """Return the number of records of a column.

    Raises:
        TypeError: If the value is not a column.
    """
    if isinstance(value, Tensor) and value.dim() == 0:
        raise TypeError("a column of records must have a dimension, got a Tensor of none")
    if isinstance(value, (Tensor, BytesArray, Ragged, Sparse, list)):
        return len(value)
    raise TypeError(f"a column of records must be made of Tensors, got {type(value).__name__}")


def describe(columns: Mapping[str, Any]) -> str:
    """Return a short description of columns, or of values of a record, and of dicts of these.

    They are described by dtype and shape. Single numbers are shown.
    """
    parts = (
        f"{key}: {{{describe(value)}}}"
        if isinstance(value, dict)
        else f"{key}: {_describe_column(value)}"
        for key, value in columns.items()
    )
    return ", ".join(parts)


def _describe_column(value: Any) -> str:
    if isinstance(value, Tensor):
        is_one = value.dim() == 0 and value.device.type == "cpu"
        return f"{name_dtype(value)}{f' {value.item()}' if is_one else list(value.shape)}"
    if isinstance(value, BytesArray):
        return f"bytes{list(value.shape)}"
    if isinstance(value, Ragged) and has_rows(value.offsets):
        inner = ", ...]" if isinstance(value.values, Ragged) else "]"
        return f"Ragged {_name_kind(value.flat_values)}[{len(value)}, ...{inner}"
    if isinstance(value, Sparse):
        return f"Sparse {_name_kind(value.values)}{list(value.dense_shape)}"
    if isinstance(value, list):
        return f"list of {len(value)} tensors"
    return reprlib.repr(value)


def _name_kind(values: Any) -> str:
    if isinstance(values, Tensor):
        return name_dtype(values)
    return "bytes" if isinstance(values, BytesArray) else reprlib.repr(values)


def number_bytes(value: Any, dtype: str) -> bytes:
    """Return a number as the bytes of a dtype."""
    return torch.full((1,), value, dtype=_TORCH_DTYPES[dtype]).view(torch.uint8).numpy().tobytes()


def name_dtype(value: Tensor) -> str:
    """Return the name of the dtype of a tensor, such as "float32"."""
    return str(value.dtype).removeprefix("torch.")
