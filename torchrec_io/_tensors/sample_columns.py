"""Columns of a batch that are joined from the values of samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import ListColumn, RaggedColumn, SparseColumn
from .._schema.nesting import Path
from .batch import Batch
from .batch_builder import BatchBuilder
from .ragged import BytesArray, Ragged, Sparse
from .sample import Sample
from .views import name_dtype


class SampleColumns:
    """Columns that are joined from samples.

    Args:
        first: First sample. If it is a :class:`Sample`, it knows which values are ragged or padded.
        flat: All samples, with flat names.

    Attributes:
        unhinted: Names of Raggeds whose values are not known to be ragged. They are not padded.

    Raises:
        ValueError: If the keys of the samples differ, or if the values of a name cannot be joined.
        TypeError: If there is no kind of column for the values of a name.
    """

    def __init__(self, first: Mapping[str, Any], flat: Sequence[Mapping[str, Any]]) -> None:
        self._hints = first if isinstance(first, Sample) else Sample()
        self.unhinted: set[str] = set()
        self._builder = BatchBuilder()
        self._records = len(flat)
        self._names = tuple(flat[0])
        for sample in flat:
            if sample.keys() != flat[0].keys():
                different = set(sample) ^ set(flat[0])
                raise ValueError(f"all samples must have the same keys, but some lack {different}")
        for name in self._names:
            self._add(name, [sample[name] for sample in flat])

    def build(self, paths: Mapping[str, Path], allocate: Callable[[int], Tensor]) -> Batch:
        """Return the batch of all columns.

        Args:
            paths: Keys of the dicts that lead to each nested column.
            allocate: Function that allocates the arena.

        Raises:
            MemoryError: If there is not enough memory.
        """
        return self._builder.build(self._records, self._names, paths, allocate)

    # ---- choice of the kind of column ----

    def _add(self, name: str, values: list[Any]) -> None:
        types = set(map(type, values))
        if all(issubclass(each, (bytes, str)) for each in types):
            texts = [value.encode() if isinstance(value, str) else value for value in values]
            self._builder.add_bytes(name, BytesArray.from_list(texts))
        elif all(issubclass(each, BytesArray) for each in types):
            self._add_bytes_arrays(name, values)
        elif all(issubclass(each, Ragged) for each in types):
            self._add_raggeds(name, values)
        elif all(issubclass(each, Sparse) for each in types):
            self._add_sparse(name, values)
        elif all(issubclass(each, (Tensor, int, float)) for each in types):
            self._add_tensors(name, _promote(values))
        else:
            found = " and ".join(sorted(each.__name__ for each in types))
            raise TypeError(
                f"the values of {name!r} must be of one kind (Tensors and numbers, bytes and str, "
                f"BytesArrays, Raggeds or Sparses), got {found}"
            )

    def _add_tensors(self, name: str, values: list[Tensor]) -> None:
        fill = self._hints.padded.get(name)
        axes = self._hints.axes.get(name, (0,))
        are_rows = all(value.dim() > 0 for value in values)
        if fill is not None and axes != (0,) and _differ_only_in(axes, values):
            self._add_padded_axes(name, values, fill, axes)
        elif fill is not None and axes == (0,) and are_rows:
            self._add_padded(name, values, fill)
        elif name in self._hints.ragged and are_rows:
            self._add_rows(name, values)
        elif all(value.shape == values[0].shape for value in values):
            shape = (len(values), *values[0].shape)
            self._builder.add_dense_later(
                name, values[0].dtype, shape, lambda to: torch.stack(values, out=to)
            )
        else:
            arrays = tuple(map(self._builder.take_values, values))
            self._builder.columns.append(ListColumn(name, arrays))

    def _add_bytes_arrays(self, name: str, values: list[BytesArray]) -> None:
        shapes = {value.shape for value in values}
        are_rows = all(shape and shape[1:] == values[0].shape[1:] for shape in shapes)
        fill = self._hints.padded.get(name)
        if fill is not None and are_rows:
            self._add_padded_bytes(name, values, fill if isinstance(fill, bytes) else b"")
        elif len(shapes) == 1 and not (are_rows and name in self._hints.ragged):
            array = _join_bytes(values)
            shape = (len(values), *values[0].shape)
            self._builder.add_bytes(name, BytesArray(array.data, array.offsets, shape))
        elif are_rows:
            self._add_rows(name, values)
            if name not in self._hints.ragged:
                self.unhinted.add(name)
        else:
            raise ValueError(f"the arrays of bytes of {name!r} have different shapes: {shapes}")

    def _add_raggeds(self, name: str, values: list[Ragged]) -> None:
        if not _have_equal_shapes(values):
            rows = tuple(self._rows_column(name, [], [value], "int64") for value in values)
            self._builder.columns.append(ListColumn(name, rows))
        else:
            self._add_rows(name, values)

    # ---- columns ----

    def _add_rows(self, name: str, values: list[Any]) -> None:
        """Add a Ragged whose rows are Tensors, BytesArrays or Raggeds."""
        lengths = torch.tensor([len(value) for value in values])
        dtype = self._hints.ragged.get(name, "int64")
        self._builder.columns.append(self._rows_column(name, [lengths], values, dtype))

    def _rows_column(
        self, name: str, lengths: list[Tensor], values: list[Any], dtype: str
    ) -> RaggedColumn:
        """Concatenate the rows of some values, inside rows of the given lengths."""
        while isinstance(values[0], Ragged):
            dtype = name_dtype(values[0].offsets)
            lengths.append(torch.cat([value.lengths.long() for value in values]))
            values = [value.values for value in values]
        splits = []
        for level in lengths:
            ends = torch.cat((torch.zeros(1, dtype=torch.int64), level.cumsum(0)))
            splits.append(self._builder.take_numbers(ends.to(getattr(torch, dtype))))
        return RaggedColumn(name, tuple(splits), self._builder.take_values(_join(values)))

    def _add_padded(self, name: str, values: list[Tensor], fill: Any) -> None:
        longest = self._add_lengths(name, values, fill)

        def write(to: Tensor) -> None:
            to.fill_(fill)
            for row, value in zip(to, values, strict=True):
                row[: len(value)] = value

        shape = (len(values), longest, *values[0].shape[1:])
        self._builder.add_dense_later(name, values[0].dtype, shape, write)

    def _add_padded_axes(
        self, name: str, values: list[Tensor], fill: Any, axes: tuple[int, ...]
    ) -> None:
        lengths = torch.tensor([[value.shape[axis] for axis in axes] for value in values])
        self._builder.add_lengths(name, lengths, fill, axes)
        largest = [max(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
        padded = values[0].new_full((len(values), *largest), fill)
        for row, value in zip(padded, values, strict=True):
            row[tuple(slice(size) for size in value.shape)] = value
        self._builder.add_dense(name, padded)

    def _add_padded_bytes(self, name: str, values: list[BytesArray], fill: bytes) -> None:
        longest = self._add_lengths(name, values, fill)
        inner = values[0].shape[1:]
        count = math.prod(inner)
        texts: list[bytes] = []
        for value in values:
            row = value.flat()
            texts += row + [fill] * (longest * count - len(row))
        array = BytesArray.from_list(texts)
        shape = (len(values), longest, *inner)
        self._builder.add_bytes(name, BytesArray(array.data, array.offsets, shape))

    def _add_lengths(self, name: str, values: list[Any], fill: Any) -> int:
        """Add the lengths of values, and return the largest one."""
        lengths = [len(value) for value in values]
        self._builder.add_lengths(name, torch.tensor(lengths), fill)
        return max(lengths)

    def _add_sparse(self, name: str, values: list[Sparse]) -> None:
        shapes = {value.dense_shape for value in values}
        if len(shapes) > 1:
            raise ValueError(f"the sparse arrays of {name!r} have different shapes: {shapes}")
        indices = [
            torch.cat((torch.full((len(value.indices), 1), record), value.indices), dim=1)
            for record, value in enumerate(values)
        ]
        column = SparseColumn(
            name,
            (len(values), *values[0].dense_shape),
            self._builder.take_numbers(torch.cat(indices)),
            self._builder.take_values(_join([value.values for value in values])),
        )
        self._builder.columns.append(column)


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
