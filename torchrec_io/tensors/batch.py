"""Batch: the columns of some records, all of them views into one allocation, the arena."""

from __future__ import annotations

import functools
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .. import _core
from ..features.layout import (
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    RaggedBytesColumn,
    RaggedColumn,
)
from ..features.schema import item_bytes
from .ragged import BytesArray, Ragged

Value: TypeAlias = "Tensor | BytesArray | Ragged | list[Tensor]"

# Arenas up to this size travel between processes inside the message. A larger one is a storage of
# its own, in shared memory. Measured by benchmarks/transfer.py.
_INLINE_BYTES = 1 << 20


class Batch:
    """The columns of a batch by name, like a dict, with all their data in one allocation.

    One buffer to fill, one to send from a worker, one to pin and one to copy to a device: methods
    work on the arena as a whole and make the views anew. It is deliberately no ``Mapping``:
    PyTorch's loaders take those apart and would handle each column by itself. ``dict(batch)`` and
    ``**batch`` work.

    Attributes:
        arena: uint8 ``[n]``: every column's data, in parts aligned to 64 bytes.
        lengths: For columns that were padded: each record's own length, int64 ``[B]``, by name.
    """

    def __init__(
        self,
        arena: Tensor,
        columns: Sequence[Column],
        names: Sequence[str],
        padded: Mapping[str, str] | None = None,
    ) -> None:
        """Made by parsing and collating.

        Args:
            arena: uint8, its size a multiple of 64.
            columns: Where the columns lie in it.
            names: The order in which they are shown.
            padded: For each padded column, the hidden one that holds its lengths.
        """
        self.arena = arena
        self._columns = tuple(columns)
        self._names = tuple(names)
        self._padded = dict(padded or {})
        values: dict[str, Any] = {}
        for column in self._columns:
            _VIEWS[type(column)](arena, column, values)
        self._values: dict[str, Any] = {name: values[name] for name in self._names}
        self.lengths: dict[str, Tensor] = {
            name: values[hidden] for name, hidden in self._padded.items()
        }

    # ---- like a dict ----

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str, default: Any = None) -> Any:
        """The column, or ``default`` if there is none of that name."""
        return self._values.get(name, default)

    def keys(self) -> KeysView[str]:
        """Names of the columns."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """The columns."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """Names and columns."""
        return self._values.items()

    # ---- as one buffer ----

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """This batch on another device, moved in one copy; itself if it is there already."""
        arena = self.arena.to(device, non_blocking=non_blocking)
        return self if arena is self.arena else self._with(arena)

    def pin_memory(self) -> Batch:
        """This batch in page-locked memory. DataLoader calls it if asked to pin."""
        return self._with(self.arena.pin_memory())

    def is_pinned(self) -> bool:
        """Whether it lies in page-locked memory."""
        return self.arena.is_pinned()

    def record_stream(self, stream: Any) -> None:
        """Keeps the memory from reuse until ``stream`` is done; see ``Tensor.record_stream``."""
        self.arena.record_stream(stream)

    @property
    def device(self) -> torch.device:
        """Where the data is."""
        return self.arena.device

    def _with(self, arena: Tensor) -> Batch:
        return Batch(arena, self._columns, self._names, self._padded)

    def __copy__(self) -> Batch:
        return self._with(self.arena)  # as of a dict: the values are shared

    def __reduce__(self) -> tuple[Any, ...]:
        layout = (self._columns, self._names, self._padded)
        if self.arena.device.type == "cpu" and self.arena.numel() <= _INLINE_BYTES:
            return _from_bytes, (self.arena.numpy().tobytes(), *layout)
        return Batch, (self.arena, *layout)

    def __repr__(self) -> str:
        parts = (f"{name}: {_describe(value)}" for name, value in self.items())
        return f"Batch({', '.join(parts)})"

    # ---- as records ----

    def samples(self) -> list[Sample]:
        """The records one by one; their tensors share the arena."""
        columns = [_rows(value) for value in self.values()]
        ragged = frozenset(name for name, value in self.items() if isinstance(value, Ragged))
        return [
            Sample(zip(self._names, row, strict=True), ragged) for row in zip(*columns, strict=True)
        ]


class Sample(dict[str, Any]):
    """One record's values by name: tensors, bytes, or BytesArrays.

    Attributes:
        ragged: Names whose values differ in length from record to record, which is how
            :func:`collate` joins them.
    """

    def __init__(self, values: Any = (), ragged: frozenset[str] = frozenset()) -> None:
        super().__init__(values)
        self.ragged = ragged

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.ragged)


def allocate_arena(size: int) -> Tensor:
    """A new arena, 64-byte aligned. Its memory serves another once no view of it is left."""
    return torch.from_numpy(_core.allocate(size))


def _from_bytes(data: bytes, *layout: Any) -> Batch:
    arena = allocate_arena(len(data))
    # A copy, since bytes must not be written to.
    np.copyto(arena.numpy(), np.frombuffer(data, np.uint8))
    return Batch(arena, *layout)


# ---- views ----


def _part(
    arena: Tensor,
    dtype: str,
    shape: tuple[int, ...],
    at: int,
    strides: tuple[int, ...] | None = None,
) -> Tensor:
    """A view of part of the arena. Every part starts at a multiple of 64."""
    typed = arena.view(_torch_dtype(dtype))
    return typed.as_strided(shape, strides or _strides(shape), at // typed.itemsize)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor, in elements."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


@functools.cache
def _torch_dtype(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype)
    return found


def _view_dense(arena: Tensor, column: DenseColumns, values: dict[str, Any]) -> None:
    if len(column.names) == 1:
        values[column.names[0]] = _part(arena, column.dtype, column.shape, column.at)
        return
    # One view over all columns, taken apart in one call: a fifth of the time of as many views.
    stride = column.stride // item_bytes(column.dtype)
    shape = (len(column.names), *column.shape)
    together = _part(arena, column.dtype, shape, column.at, (stride, *_strides(column.shape)))
    values.update(zip(column.names, together.unbind(), strict=True))


def _view_bytes(arena: Tensor, column: BytesColumn, values: dict[str, Any]) -> None:
    values[column.name] = _bytes_array(arena, column)


def _bytes_array(arena: Tensor, column: BytesColumn) -> BytesArray:
    count = 1
    for size in column.shape:
        count *= size
    return BytesArray(
        _part(arena, "uint8", (column.data_bytes,), column.data_at),
        _part(arena, "int64", (count + 1,), column.offsets_at),
        column.shape,
    )


def _view_ragged(arena: Tensor, column: RaggedColumn, values: dict[str, Any]) -> None:
    values[column.name] = Ragged(
        _part(arena, column.dtype, (column.values,), column.values_at),
        _part(arena, "int64", (column.rows + 1,), column.offsets_at),
    )


def _view_ragged_bytes(arena: Tensor, column: RaggedBytesColumn, values: dict[str, Any]) -> None:
    offsets = _part(arena, "int64", (column.rows + 1,), column.offsets_at)
    values[column.name] = Ragged(_bytes_array(arena, column.values), offsets)


def _view_list(arena: Tensor, column: ListColumn, values: dict[str, Any]) -> None:
    values[column.name] = [
        _part(arena, column.dtype, shape, at)
        for shape, at in zip(column.shapes, column.at, strict=True)
    ]


_VIEWS: dict[type, Any] = {
    DenseColumns: _view_dense,
    BytesColumn: _view_bytes,
    RaggedColumn: _view_ragged,
    RaggedBytesColumn: _view_ragged_bytes,
    ListColumn: _view_list,
}


def _rows(value: Value) -> Sequence[Any]:
    if isinstance(value, Tensor):
        return value.unbind()
    if isinstance(value, BytesArray):
        return value.flat() if len(value.shape) == 1 else list(value)
    return value.rows() if isinstance(value, Ragged) else value


def _describe(value: Value) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, BytesArray):
        return f"bytes{list(value.shape)}"
    if isinstance(value, Ragged):
        kind = value.values.dtype if isinstance(value.values, Tensor) else "bytes"
        return f"Ragged {str(kind).removeprefix('torch.')}[{len(value)}, ...]"
    return f"list of {len(value)} tensors"
