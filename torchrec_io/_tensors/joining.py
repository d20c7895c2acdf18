"""Columns that are joined from the values of samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._schema.nesting import Path
from .building import ColumnsBuilder
from .columns import Columns
from .ragged import BytesArray, Ragged, Sparse
from .sample import Hints


def join_values(
    samples: Sequence[Mapping[str, Any]],
    hints: Hints,
    paths: Mapping[str, Path],
    allocate: Callable[[int], Tensor],
) -> tuple[Columns, Collection[str]]:
    """Join samples value by value.

    Args:
        samples: The samples, with flat names.
        hints: Hints about values of different lengths.
        paths: Keys of the dicts that lead to each nested column.
        allocate: Function that allocates the arena.

    Returns:
        The columns, and the names of Raggeds whose values are not known to be ragged: they are
        never padded.

    Raises:
        ValueError: If the keys of the samples differ, or if the values of a name cannot be joined.
        TypeError: If there is no kind of column for the values of a name.
        MemoryError: If there is not enough memory.
    """
    for sample in samples:
        if sample.keys() != samples[0].keys():
            different = set(sample) ^ set(samples[0])
            raise ValueError(f"all samples must have the same keys, but some lack {different}")
    joiner = _Joiner(hints)
    names = tuple(samples[0])
    for name in names:
        joiner.add(name, [sample[name] for sample in samples])
    return joiner.builder.build(len(samples), names, paths, allocate), joiner.unhinted


class _Joiner:
    """Chooses the kind of column for the values of each name, and joins them."""

    def __init__(self, hints: Hints) -> None:
        self.builder = ColumnsBuilder()
        self.unhinted: set[str] = set()
        self._hints = hints

    def add(self, name: str, values: list[Any]) -> None:
        types = set(map(type, values))
        if all(issubclass(each, (bytes, str)) for each in types):
            texts = [value.encode() if isinstance(value, str) else value for value in values]
            self.builder.add(name, BytesArray.from_list(texts))
        elif all(issubclass(each, BytesArray) for each in types):
            self._add_bytes_arrays(name, values)
        elif all(issubclass(each, Ragged) for each in types):
            is_one = _have_equal_shapes(values)
            self.builder.add(name, self._rows_of(name, values) if is_one else values)
        elif all(issubclass(each, Sparse) for each in types):
            self.builder.add(name, _join_sparse(name, values))
        elif all(issubclass(each, (Tensor, int, float)) for each in types):
            self._add_tensors(name, _promote(values))
        else:
            found = " and ".join(sorted(each.__name__ for each in types))
            raise TypeError(
                f"the values of {name!r} must be of one kind (Tensors and numbers, bytes and str, "
                f"BytesArrays, Raggeds or Sparses), got {found}"
            )

    def _add_tensors(self, name: str, values: list[Tensor]) -> None:
        axes = self._hints.axes.get(name, (0,))
        if name in self._hints.padded and _differ_only_in(axes, values):
            self._add_padded(name, values, self._hints.padded[name], axes)
        elif name in self._hints.ragged and all(value.dim() > 0 for value in values):
            self.builder.add(name, self._rows_of(name, values))
        elif all(value.shape == values[0].shape for value in values):
            shape = (len(values), *values[0].shape)
            self.builder.add_numbers(
                name, values[0].dtype, shape, lambda to: torch.stack(values, out=to)
            )
        else:
            self.builder.add(name, values)

    def _add_bytes_arrays(self, name: str, values: list[BytesArray]) -> None:
        shapes = {value.shape for value in values}
        are_rows = all(shape and shape[1:] == values[0].shape[1:] for shape in shapes)
        fill = self._hints.padded.get(name)
        if fill is not None and are_rows:
            self._add_padded_bytes(name, values, fill if isinstance(fill, bytes) else b"")
        elif len(shapes) == 1 and not (are_rows and name in self._hints.ragged):
            array = _join_bytes(values)
            shape = (len(values), *values[0].shape)
            self.builder.add(name, BytesArray(array.data, array.offsets, shape))
        elif are_rows:
            self.builder.add(name, self._rows_of(name, values))
            if name not in self._hints.ragged:
                self.unhinted.add(name)
        else:
            raise ValueError(f"the arrays of bytes of {name!r} have different shapes: {shapes}")

    def _rows_of(self, name: str, values: list[Any]) -> Ragged:
        """Return a Ragged whose rows are Tensors, BytesArrays or Raggeds."""
        dtype = getattr(torch, self._hints.ragged.get(name, "int64"))
        if isinstance(values[0], Ragged):
            dtype = values[0].offsets.dtype
        return _join_rows(values, torch.tensor([len(value) for value in values]), dtype)

    def _add_padded(
        self, name: str, values: list[Tensor], fill: Any, axes: tuple[int, ...]
    ) -> None:
        sizes = torch.tensor([[value.shape[axis] for axis in axes] for value in values])
        self.builder.add_lengths(name, sizes.flatten() if axes == (0,) else sizes, fill, axes)

        def write(to: Tensor) -> None:
            to.fill_(fill)
            for row, value in zip(to, values, strict=True):
                row[tuple(map(slice, value.shape))] = value

        largest = [max(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
        self.builder.add_numbers(name, values[0].dtype, (len(values), *largest), write)

    def _add_padded_bytes(self, name: str, values: list[BytesArray], fill: bytes) -> None:
        lengths = [len(value) for value in values]
        self.builder.add_lengths(name, torch.tensor(lengths), fill)
        shape = (len(values), max(lengths), *values[0].shape[1:])
        texts: list[bytes] = []
        for value in values:
            row = value.flat()
            texts += row + [fill] * (math.prod(shape[1:]) - len(row))
        array = BytesArray.from_list(texts)
        self.builder.add(name, BytesArray(array.data, array.offsets, shape))


def _join_rows(values: list[Any], lengths: Tensor, dtype: torch.dtype) -> Ragged:
    """Concatenate values as rows of the given lengths."""
    ends = torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)))
    if not isinstance(values[0], Ragged):
        return Ragged(_join(values), ends.to(dtype))
    inner = torch.cat([value.lengths.long() for value in values])
    return Ragged(_join_rows([value.values for value in values], inner, dtype), ends.to(dtype))


def _join_sparse(name: str, values: list[Sparse]) -> Sparse:
    shapes = {value.dense_shape for value in values}
    if len(shapes) > 1:
        raise ValueError(f"the sparse arrays of {name!r} have different shapes: {shapes}")
    indices = [
        torch.cat((torch.full((len(value.indices), 1), record), value.indices), dim=1)
        for record, value in enumerate(values)
    ]
    joined = _join([value.values for value in values])
    return Sparse(torch.cat(indices), joined, (len(values), *values[0].dense_shape))


def _join(values: list[Any]) -> Tensor | BytesArray:
    """Concatenate Tensors or BytesArrays."""
    return _join_bytes(values) if isinstance(values[0], BytesArray) else torch.cat(values)


def _join_bytes(values: list[BytesArray]) -> BytesArray:
    """Concatenate BytesArrays, without bytes between their values."""
    inner = values[0].shape[1:]
    array = BytesArray.from_list([text for value in values for text in value.flat()])
    rows = sum(value.shape[0] if value.shape else 1 for value in values)
    return BytesArray(array.data, array.offsets, (rows, *inner))


def _have_equal_shapes(values: list[Any]) -> bool:
    """Return whether the innermost rows of Raggeds have one shape, so that they can be joined."""
    while isinstance(values[0], Ragged):
        values = [value.values for value in values]
    return len({tuple(value.shape[1:]) for value in values}) == 1


def _differ_only_in(axes: tuple[int, ...], values: list[Tensor]) -> bool:
    """Return whether Tensors have these axes, and the same size in all others."""
    others = {
        tuple(size for axis, size in enumerate(value.shape) if axis not in axes) for value in values
    }
    return len(others) == 1 and min(value.dim() for value in values) > max(axes)


def _promote(values: list[Any]) -> list[Tensor]:
    """Return Tensors and numbers as Tensors of one dtype, promoted as by ``torch.stack``."""
    tensors = [torch.as_tensor(value) for value in values]
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = functools.reduce(torch.promote_types, dtypes)
    return [tensor.to(dtype) for tensor in tensors]
