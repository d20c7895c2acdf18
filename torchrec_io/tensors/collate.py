"""Samples to batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..features.layout import BytesColumn, Column, Room
from .batch import Batch, Sample, allocate_arena
from .ragged import BytesArray

# A value's part of the work: writes its column into the arena.
_Store = Callable[[Tensor], None]


def collate(samples: Sequence[dict[str, Any]]) -> Batch:
    """Joins samples into one :class:`Batch`; for ``DataLoader(collate_fn=tio.collate)``.

    Tensors of one shape are stacked; values whose feature is ragged (as a dataset's samples know)
    become a :class:`Ragged`; other tensors of different shapes a list; bytes a
    :class:`BytesArray`, rows of different numbers of them a :class:`Ragged`; Python numbers a
    Tensor. Different dtypes are promoted to one.

    Args:
        samples: At least one dict; all with the same keys.

    Raises:
        ValueError: there is no sample, their keys differ, or arrays of bytes differ in shape.
        TypeError: a value is of a type that has no column, or of another one than the others.
    """
    return _Collation(samples).finish()


def pad_collate(
    samples: Sequence[dict[str, Any]], *, fill: float = 0, max_len: int | None = None
) -> Batch:
    """As :func:`collate`, but pads ragged values to a Tensor ``[B, longest]``.

    ``batch.lengths[name]`` holds the true lengths, int64 ``[B]``. Bytes are padded with ``b""``.

    Args:
        samples: At least one dict; all with the same keys.
        fill: What is put behind shorter rows.
        max_len: Rows are cut to this many values.
    """
    return _Collation(samples, pad=True, fill=fill, max_len=max_len).finish()


class _Collation:
    """Lays out all columns first, so that the arena is allocated once at its exact size."""

    def __init__(
        self,
        samples: Sequence[dict[str, Any]],
        *,
        pad: bool = False,
        fill: float = 0,
        max_len: int | None = None,
    ) -> None:
        if not samples:
            raise ValueError("there are no samples to collate")
        self._samples = samples
        self._pad = pad
        self._fill = fill
        self._max_len = max_len
        self._room = Room()
        self._columns: list[Column] = []
        self._stores: list[_Store] = []
        self._padded: dict[str, str] = {}
        self._names = tuple(samples[0])
        for sample in samples:
            if sample.keys() != samples[0].keys():
                raise ValueError(f"samples differ in their keys: {set(sample) ^ set(samples[0])}")
        for name in self._names:
            self._lay_out(name, [sample[name] for sample in samples])

    def finish(self) -> Batch:
        arena = allocate_arena(self._room.size)
        for store in self._stores:
            store(arena)
        return Batch(arena, self._columns, self._names, self._padded)

    def _lay_out(self, name: str, values: list[Any]) -> None:
        ragged = isinstance(self._samples[0], Sample) and name in self._samples[0].ragged
        kinds = set(map(type, values))
        if all(issubclass(kind, (bytes, str)) for kind in kinds):
            texts = [v.encode() if isinstance(v, str) else v for v in values]
            self._add_bytes(name, (len(values),), texts)
        elif all(issubclass(kind, BytesArray) for kind in kinds):
            self._lay_out_bytes(name, values, ragged)
        elif all(issubclass(kind, (Tensor, int, float)) for kind in kinds):
            self._lay_out_tensors(name, _of_one_dtype(values), ragged)
        else:
            what = " and a ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(f"there is no column for {name!r}, a {what}")

    def _lay_out_tensors(self, name: str, values: list[Tensor], ragged: bool) -> None:
        if ragged and all(value.dim() == 1 for value in values):
            if self._pad:
                self._add_padded(name, values)
            else:
                self._add_ragged(name, values)
        elif all(value.shape == values[0].shape for value in values):
            self._add_dense(name, (len(values), *values[0].shape), values)
        else:
            self._add_list(name, values)

    def _lay_out_bytes(self, name: str, values: list[BytesArray], ragged: bool) -> None:
        texts = [value.flat() for value in values]
        flat = [text for row in texts for text in row]
        shapes = {value.shape for value in values}
        are_rows = all(len(shape) == 1 for shape in shapes)
        if len(shapes) == 1 and not (ragged and are_rows):
            self._add_bytes(name, (len(values), *values[0].shape), flat)
        elif not are_rows:
            raise ValueError(f"the arrays of bytes of {name!r} are of different shapes: {shapes}")
        elif ragged and self._pad:
            lengths = self._add_lengths(name, [len(row) for row in texts])
            longest = max(lengths)
            rows = [row[:longest] + [b""] * (longest - len(row)) for row in texts]
            self._add_bytes(name, (len(rows), longest), [text for row in rows for text in row])
        else:
            column = self._room.take_ragged_bytes(name, len(texts), len(flat), sum(map(len, flat)))
            self._columns.append(column)
            self._store_offsets(column.offsets_at, [len(row) for row in texts])
            self._store_bytes(column.values, flat)

    # ---- columns ----

    def _add_dense(self, name: str, shape: tuple[int, ...], values: list[Tensor]) -> None:
        column = self._room.take_dense((name,), _dtype_name(values[0]), shape)
        self._columns.append(column)

        def store(arena: Tensor) -> None:
            torch.stack(values, out=_target(arena, values[0].dtype, shape, column.at))

        self._stores.append(store)

    def _add_ragged(self, name: str, values: list[Tensor]) -> None:
        total = sum(value.numel() for value in values)
        column = self._room.take_ragged(name, _dtype_name(values[0]), len(values), total)
        self._columns.append(column)
        self._store_offsets(column.offsets_at, [value.numel() for value in values])
        self._store_parts([column.values_at], [torch.cat(values)])

    def _add_padded(self, name: str, values: list[Tensor]) -> None:
        lengths = self._add_lengths(name, [value.numel() for value in values])
        padded = values[0].new_full((len(values), max(lengths)), self._fill)
        for row, value, length in zip(padded, values, lengths, strict=True):
            row[:length] = value[:length]
        shape = tuple(padded.shape)
        column = self._room.take_dense((name,), _dtype_name(padded), shape)
        self._columns.append(column)
        self._store_parts([column.at], [padded])

    def _add_lengths(self, name: str, lengths: list[int]) -> list[int]:
        if self._max_len is not None:
            lengths = [min(length, self._max_len) for length in lengths]
        hidden = f"{name}\0lengths"
        self._padded[name] = hidden
        column = self._room.take_dense((hidden,), "int64", (len(lengths),))
        self._columns.append(column)
        self._store_parts([column.at], [torch.tensor(lengths)])
        return lengths

    def _add_list(self, name: str, values: list[Tensor]) -> None:
        shapes = tuple(tuple(value.shape) for value in values)
        column = self._room.take_list(name, _dtype_name(values[0]), shapes)
        self._columns.append(column)
        self._store_parts(list(column.at), values)

    def _add_bytes(self, name: str, shape: tuple[int, ...], texts: list[bytes]) -> None:
        column = self._room.take_bytes(name, shape, sum(map(len, texts)))
        self._columns.append(column)
        self._store_bytes(column, texts)

    # ---- storing ----

    def _store_bytes(self, column: BytesColumn, texts: list[bytes]) -> None:
        array = BytesArray.from_list(texts)
        self._store_parts([column.offsets_at, column.data_at], [array.offsets, array.data])

    def _store_offsets(self, at: int, lengths: list[int]) -> None:
        self._store_parts([at], [torch.tensor([0, *lengths]).cumsum(0)])

    def _store_parts(self, places: list[int], parts: list[Tensor]) -> None:
        def store(arena: Tensor) -> None:
            for at, part in zip(places, parts, strict=True):
                _target(arena, part.dtype, tuple(part.shape), at).copy_(part)

        self._stores.append(store)


def _of_one_dtype(values: list[Any]) -> list[Tensor]:
    """Tensors and numbers as tensors, promoted to one dtype as ``torch.stack`` does."""
    tensors = [torch.as_tensor(value) for value in values]
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = functools.reduce(torch.promote_types, dtypes)
    return [tensor.to(dtype) for tensor in tensors]


def _target(arena: Tensor, dtype: torch.dtype, shape: tuple[int, ...], at: int) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return arena[at : at + size].view(dtype).view(shape)


def _dtype_name(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
