"""Columns that are joined from samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._parsing.layout import Padding
from .._schema.nesting import MOST_LEVELS, SEPARATOR, Path, dict_of, leaves_of
from .arena import allocate_arena, allocate_for
from .building import Stacked, in_arena
from .columns import Columns, Form
from .gather import data_of, gather_rows
from .ragged import BytesArray, Ragged, Sparse
from .rows import NO_HINTS, Hints, Rows
from .sample import Sample


def join_samples(
    samples: Sequence[Any], allocate: Callable[[int], Tensor] = allocate_arena
) -> tuple[Columns, Collection[str]]:
    """Join samples: rows of batches as copies of these, others value by value.

    Args:
        samples: The samples.
        allocate: Function that allocates the arena.

    Returns:
        The columns, and the names of Raggeds whose values are not known to be ragged: they are
        never padded.

    Raises:
        ValueError: If there are no samples, if their keys differ, or if the values of a name cannot
            be joined.
        TypeError: If there is no kind of column for the values of a name.
        MemoryError: If there is not enough memory.
        OverflowError: If rows have too many values for offsets of int32.
    """
    if set(map(type, samples)) == {Sample}:
        columns = _gather_samples(samples, allocate)
        if columns is not None:
            return columns, ()
    for sample in samples:
        if not isinstance(sample, Mapping):
            raise TypeError(
                f"samples must be a list of dicts, got a list with {type(sample).__name__}"
            )
    if not samples:
        raise ValueError("samples must contain at least one sample, got none")
    hints = next((sample.hints for sample in samples if isinstance(sample, Sample)), NO_HINTS)
    flat, paths = _flatten(samples)
    for sample in flat:
        if sample.keys() != flat[0].keys():
            different = set(sample) ^ set(flat[0])
            raise ValueError(f"all samples must have the same keys, but some lack {different}")
    joiner = _Joiner(hints)
    form = Form(tuple(flat[0]), joiner.padded, paths)
    for name in form.names:
        joiner.add(name, [sample[name] for sample in flat])
    columns = Columns.of_values(joiner.columns, form)
    return in_arena(columns, allocate), joiner.unhinted


# ---- as rows of batches ----


def _gather_samples(samples: Sequence[Sample], allocate: Callable[[int], Tensor]) -> Columns | None:
    """Return the columns of samples that are rows of batches, copied as slices of these.

    Returns:
        None if the samples must be joined value by value.
    """
    numbers: dict[int, int] = {}  # of the sources, by the identity of their rows
    found: list[Rows] = []
    spans = []
    for rows, begin, end in Sample.runs_of(samples):
        source = numbers.get(id(rows))
        if source is None:
            if not rows.can_be_gathered:
                return None
            source = numbers[id(rows)] = len(found)
            found.append(rows)
        spans.append((source, begin, end - begin))
    sources = [rows.columns for rows in found]
    _, begin, count = spans[0]
    if len(spans) == 1 and count > 1 and (begin, count) == (0, sources[0].count_records()):
        return _copy_of(sources[0], allocate)
    return gather_rows(sources, spans, allocate=allocate)


def _copy_of(columns: Columns, allocate: Callable[[int], Tensor]) -> Columns:
    """Return a copy of columns, which are copied in one piece."""
    data = data_of(columns)
    arena = allocate_for(len(data), columns.layout, columns.count_records(), allocate)
    np.copyto(arena.numpy(), data)
    return Columns(arena, columns.layout, columns.form)


# ---- value by value ----


class _Joiner:
    """Chooses the kind of column for the values of each name, and joins them.

    Attributes:
        columns: The columns, as :func:`in_arena` takes them.
        padded: Padding of the padded columns.
        unhinted: Names of Raggeds whose values are not known to be ragged.
    """

    def __init__(self, hints: Hints) -> None:
        self.columns: dict[str, Any] = {}
        self.padded: dict[str, Padding] = {}
        self.unhinted: set[str] = set()
        self._hints = hints

    def add(self, name: str, values: list[Any]) -> None:
        types = set(map(type, values))
        if all(issubclass(each, (bytes, str)) for each in types):
            texts = [value.encode() if isinstance(value, str) else value for value in values]
            self.columns[name] = BytesArray.from_list(texts)
        elif all(issubclass(each, BytesArray) for each in types):
            self.columns[name] = self._of_arrays(name, values)
        elif all(issubclass(each, Ragged) for each in types):
            is_one = _have_equal_shapes(values)
            self.columns[name] = self._rows_of(name, values) if is_one else values
        elif all(issubclass(each, Sparse) for each in types):
            self.columns[name] = _join_sparse(name, values)
        elif all(issubclass(each, (Tensor, int, float)) for each in types):
            self.columns[name] = self._of_arrays(name, _promote(values))
        else:
            found = " and ".join(sorted(each.__name__ for each in types))
            raise TypeError(
                f"the values of {name!r} must be of one kind (Tensors and numbers, bytes and str, "
                f"BytesArrays, Raggeds or Sparses), got {found}"
            )

    def _of_arrays(self, name: str, values: list[Any]) -> Any:
        """Return the column of Tensors, or of BytesArrays."""
        shapes = {tuple(value.shape) for value in values}
        axes = self._hints.axes.get(name, (0,))
        if name in self._hints.padded and _differ_only_in(axes, shapes):
            return self._padded_to_longest(name, values, axes)
        are_rows = _differ_only_in((0,), shapes)
        if name in self._hints.ragged and are_rows:
            return self._rows_of(name, values)
        if isinstance(values[0], Tensor):
            return Stacked(values) if len(shapes) == 1 else values
        if len(shapes) == 1:
            return _bytes_of(values, (len(values), *values[0].shape))
        if not are_rows:
            raise ValueError(f"the arrays of bytes of {name!r} have different shapes: {shapes}")
        self.unhinted.add(name)
        return self._rows_of(name, values)

    def _padded_to_longest(self, name: str, values: list[Any], axes: tuple[int, ...]) -> Any:
        """Return a column of padded values, and add the hidden column of their lengths."""
        fill = self._hints.padded[name]
        sizes = torch.tensor([[value.shape[axis] for axis in axes] for value in values])
        self.padded[name] = Padding(f"{name}\0lengths", fill, axes)
        self.columns[self.padded[name].lengths] = sizes.flatten() if axes == (0,) else sizes
        largest = [max(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
        shape = (len(values), *largest)
        if isinstance(values[0], BytesArray):
            return _bytes_of(values, shape, fill if isinstance(fill, bytes) else b"")
        padded = values[0].new_full(shape, fill)
        for row, value in zip(padded, values, strict=True):
            row[tuple(map(slice, value.shape))] = value
        return padded

    def _rows_of(self, name: str, values: list[Any]) -> Ragged:
        """Return a Ragged whose rows are Tensors, BytesArrays or Raggeds."""
        dtype = getattr(torch, self._hints.ragged.get(name, "int64"))
        if isinstance(values[0], Ragged):
            dtype = values[0].offsets.dtype
        return _join_rows(values, torch.tensor([len(value) for value in values]), dtype)


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
    if isinstance(values[0], Tensor):
        return torch.cat(values)
    rows = sum(value.shape[0] for value in values)
    return _bytes_of(values, (rows, *values[0].shape[1:]))


def _bytes_of(
    arrays: list[BytesArray], shape: tuple[int, ...], fill: bytes | None = None
) -> BytesArray:
    """Return the values of arrays in an array of a shape, without bytes between them.

    Args:
        arrays: The arrays.
        shape: The shape.
        fill: Padding at the end of each row of the shape. Default: there is none.
    """
    texts: list[bytes] = []
    for array in arrays:
        texts += array.flat()
        if fill is not None:
            texts += [fill] * (math.prod(shape[1:]) - math.prod(array.shape))
    joined = BytesArray.from_list(texts)
    return BytesArray(joined.data, joined.offsets, shape)


def _have_equal_shapes(values: list[Any]) -> bool:
    """Return whether the innermost rows of Raggeds have one shape, so that they can be joined."""
    while isinstance(values[0], Ragged):
        values = [value.values for value in values]
    return len({tuple(value.shape[1:]) for value in values}) == 1


def _differ_only_in(axes: tuple[int, ...], shapes: Collection[tuple[int, ...]]) -> bool:
    """Return whether shapes have these axes, and the same size in all others."""
    others = {
        tuple(size for axis, size in enumerate(shape) if axis not in axes) for shape in shapes
    }
    return len(others) == 1 and min(map(len, shapes)) > max(axes)


def _promote(values: list[Any]) -> list[Tensor]:
    """Return Tensors and numbers as Tensors of one dtype, promoted as by ``torch.stack``."""
    tensors = [torch.as_tensor(value) for value in values]
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return tensors
    dtype = functools.reduce(torch.promote_types, dtypes)
    return [tensor.to(dtype) for tensor in tensors]


def _flatten(
    samples: Sequence[Mapping[str, Any]],
) -> tuple[Sequence[Mapping[str, Any]], dict[str, Path]]:
    """Return samples with flat names, and the path of each value that was in a dict.

    If the first sample contains no dicts, the samples are returned as they are.
    """
    if not any(isinstance(value, Mapping) for value in samples[0].values()):
        return samples, {}
    paths: dict[str, Path] = {}
    names: dict[Path, str] = {}  # cached: most paths occur in every sample
    flat: list[dict[str, Any]] = []
    for sample in samples:
        flat.append({})
        for path, value in leaves_of(sample):
            name = names.get(path)
            if name is None or dict_of(value) is not None:
                name = names[path] = _flat_name(path, value)
                known = paths.setdefault(name, path)
                if known != path:
                    raise ValueError(
                        f"two values in the samples have the same flat name {name!r}: their paths "
                        f"are {known} and {path}"
                    )
            flat[-1][name] = value
    return flat, {name: path for name, path in paths.items() if len(path) > 1}


def _flat_name(path: Path, value: Any) -> Any:
    if len(path) > 1 and not all(isinstance(key, str) for key in path):
        raise TypeError(f"the keys of dicts in samples must be str, got {path}")
    name = path[0] if len(path) == 1 else SEPARATOR.join(path)
    if dict_of(value) is not None:
        fault = f"nested more than {MOST_LEVELS} levels deep" if value else "empty"
        raise ValueError(f"the dict {name!r} in the samples is {fault}")
    return name
