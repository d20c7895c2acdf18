"""Samples to batches."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from ..parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    ListColumn,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from .arena import allocate_for
from .batch import Batch, Sample, allocate_arena
from .device import allocate_pinned
from .device import pin_memory as pin_memory_of
from .flat_samples import flat_samples
from .pad_batch import pad_batch
from .padding import PaddedLength
from .ragged import BytesArray, Ragged, Sparse

# A value's part of the work: writes its column into the arena.
_Store = Callable[[Tensor], None]


Samples: TypeAlias = "Sequence[Mapping[str, Any]] | Batch"
Keyed: TypeAlias = "Sequence[tuple[str, Mapping[str, Any]]] | tuple[list[str], Batch]"
_Allocate = Callable[[int], Tensor]


@overload
def collate(samples: Samples) -> Batch: ...
@overload
def collate(samples: Keyed) -> tuple[list[str], Batch]: ...
def collate(samples: Any) -> Any:
    """Joins samples into one :class:`Batch`; for ``DataLoader(collate_fn=tio.collate)``.

    Tensors of one shape are stacked; values whose feature is ragged or padded (as a dataset's
    samples know) become a :class:`Ragged` or are padded to the longest; other tensors of different
    shapes become a list; bytes a :class:`BytesArray`, rows of different numbers of them a
    :class:`Ragged`; Python numbers a Tensor; Raggeds and Sparses one more dimension of their kind.
    Different dtypes are promoted to one.

    Dicts in samples, as nested features and transforms make them, become dicts of columns; what is
    said of a value by its flat name (``"objects/label"``) holds for it there.

    Args:
        samples: At least one dict; all with the same keys. Pairs of a key and a sample, as
            ``with_key`` gives them, become a list of keys and a Batch. A Batch stays as it is.

    Raises:
        ValueError: there is no sample, their keys differ, a dict in them is empty or more than 100
            levels deep, two values have one flat name, or arrays of bytes differ in shape.
        MemoryError: there is not enough for the batch.
        TypeError: a value is of a type that has no column, or of another one than the others.
    """
    return _collated(samples, None, allocate_arena)


@overload
def pin_collate(samples: Samples) -> Batch: ...
@overload
def pin_collate(samples: Keyed) -> tuple[list[str], Batch]: ...
def pin_collate(samples: Any) -> Any:
    """As :func:`collate`, straight into page-locked memory, from which GPUs copy in background.

    The memory is plain where it cannot be page-locked: without CUDA, and in DataLoader workers, for
    which ``DataLoader(pin_memory=True)`` is the way. To pad as well there is
    ``pad_collate(pin_memory=True)``. PyTorch uses page-locked memory again, once no Batch or view
    has it and copies from it have ended.

    Args:
        samples: As for :func:`collate`; a Batch is copied there, unless it is there.

    Raises:
        ValueError, TypeError: as :func:`collate`.
    """
    return _collated(samples, None, allocate_pinned)


@overload
def pad_collate(
    samples: None = None,
    *,
    fill: float = 0,
    max_len: int | None = None,
    buckets: Sequence[int] | None = None,
    pin_memory: bool = False,
) -> Callable[[Any], Any]: ...
@overload
def pad_collate(
    samples: Samples,
    *,
    fill: float = 0,
    max_len: int | None = None,
    buckets: Sequence[int] | None = None,
    pin_memory: bool = False,
) -> Batch: ...
@overload
def pad_collate(
    samples: Keyed,
    *,
    fill: float = 0,
    max_len: int | None = None,
    buckets: Sequence[int] | None = None,
    pin_memory: bool = False,
) -> tuple[list[str], Batch]: ...
def pad_collate(
    samples: Any = None,
    *,
    fill: float = 0,
    max_len: int | None = None,
    buckets: Sequence[int] | None = None,
    pin_memory: bool = False,
) -> Any:
    """As :func:`collate`, but pads ragged values to a Tensor ``[B, longest]``.

    Called without samples it makes a collate function of these options, which can be pickled:
    ``DataLoader(collate_fn=tio.pad_collate(max_len=512, buckets=(64, 128, 256, 512)))``.

    ``batch.lengths[name]`` holds the lengths, int64 ``[B]``, of what is left after cutting. Bytes
    are padded with ``b""``. FixedLenSequenceFeatures keep the fill that they have, and are cut and
    padded to a bucket like the others. Of rows of rows the outermost level is cut and padded to a
    bucket, those below are padded to their longest.

    Args:
        samples: As for :func:`collate`. Of a Batch, the columns are padded all at once, into a new
            one.
        fill: What is put behind shorter rows.
        max_len: Rows are cut to this many values.
        buckets: Ascending lengths. Rows are padded to the first that holds the longest, so that few
            shapes occur.
        pin_memory: Put the Batch into page-locked memory, as :func:`pin_collate`.

    Raises:
        ValueError: as :func:`collate`; a row is longer than the last bucket; ``max_len`` is beyond
            it; or ``buckets`` do not ascend.
        TypeError: as :func:`collate`; or there are rows of rows of bytes.
        MemoryError: as :func:`collate`.
    """
    to = PaddedLength.of(max_len, buckets)
    if samples is None:
        options = {"fill": fill, "max_len": max_len, "buckets": buckets, "pin_memory": pin_memory}
        return functools.partial(pad_collate, **options)
    return _collated(samples, (fill, to), allocate_pinned if pin_memory else allocate_arena)


def _collated(data: Any, pad: tuple[float, PaddedLength] | None, allocate: _Allocate) -> Any:
    """What becomes of samples, a Batch, or either with its keys."""
    if isinstance(data, Batch):
        if pad is not None:
            return pad_batch(data, *pad, allocate)
        return data if allocate is allocate_arena else pin_memory_of(data)
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Batch):
        return data[0], _collated(data[1], pad, allocate)
    if isinstance(data, Mapping):
        raise TypeError("a Batch is made of a list of samples, which are dicts, not of a dict")
    if len(data) and isinstance(data[0], tuple):
        keys, samples = zip(*data, strict=True)
        return list(keys), _collated(samples, pad, allocate)
    for sample in data:
        if not isinstance(sample, Mapping):
            what = type(sample).__name__
            raise TypeError(
                f"a Batch is made of a list of samples, which are dicts, not of a list of {what}"
            )
    return _Collation(data, pad).finish(allocate)


class _Collation:
    """Lays out all columns first, so that the arena is allocated once at its exact size."""

    def __init__(
        self,
        samples: Sequence[Mapping[str, Any]],
        pad: tuple[float, PaddedLength] | None,
    ) -> None:
        if not samples:
            raise ValueError("there are no samples to collate")
        self._samples = samples
        self._pad = pad is not None
        self._fill: float
        self._fill, self._to = pad or (0, PaddedLength())
        self._room = ArenaLayout()
        self._columns: list[Column] = []
        self._stores: list[_Store] = []
        self._padded: dict[str, Padding] = {}
        flat, self._paths = flat_samples(samples)
        self._names = tuple(flat[0])
        for sample in flat:
            if sample.keys() != flat[0].keys():
                raise ValueError(f"samples differ in their keys: {set(sample) ^ set(flat[0])}")
        for name in self._names:
            self._lay_out(name, [sample[name] for sample in flat])

    def finish(self, allocate: _Allocate) -> Batch:
        arena = allocate_for(
            self._room.size,
            self._columns,
            len(self._samples),
            self._padded,
            if_padded="a smaller max_len",
            allocate=allocate,
        )
        for store in self._stores:
            store(arena)
        return Batch(arena, self._columns, self._names, self._padded, self._paths)

    def _lay_out(self, name: str, values: list[Any]) -> None:
        kinds = set(map(type, values))
        if all(issubclass(kind, (bytes, str)) for kind in kinds):
            texts = [v.encode() if isinstance(v, str) else v for v in values]
            self._add_bytes(name, _joined([BytesArray.from_list(texts)]))
        elif all(issubclass(kind, BytesArray) for kind in kinds):
            self._lay_out_bytes(name, values)
        elif all(issubclass(kind, Ragged) for kind in kinds):
            self._lay_out_rows(name, values)
        elif all(issubclass(kind, Sparse) for kind in kinds):
            self._add_sparse(name, values)
        elif all(issubclass(kind, (Tensor, int, float)) for kind in kinds):
            self._lay_out_tensors(name, _of_one_dtype(values))
        else:
            what = " and a ".join(sorted(kind.__name__ for kind in kinds))
            raise TypeError(f"there is no column for {name!r}, a {what}")

    def _is_ragged(self, name: str) -> bool:
        return isinstance(self._samples[0], Sample) and name in self._samples[0].ragged

    def _padding(self, name: str) -> Any:
        """What values of a feature are padded with; None if they are not."""
        sample = self._samples[0]
        if isinstance(sample, Sample) and name in sample.padded:
            return sample.padded[name]
        return self._fill if self._pad and self._is_ragged(name) else None

    def _axes(self, name: str) -> tuple[int, ...]:
        """Which axes of the values of a feature are padded."""
        sample = self._samples[0]
        return sample.axes.get(name, (0,)) if isinstance(sample, Sample) else (0,)

    def _lay_out_tensors(self, name: str, values: list[Tensor]) -> None:
        fill = self._padding(name)
        axes = self._axes(name)
        are_rows = all(value.dim() > 0 for value in values)
        if fill is not None and axes != (0,) and _alike_but(axes, values):
            self._add_padded_axes(name, values, fill, axes)
        elif fill is not None and axes == (0,) and are_rows:
            self._add_padded(name, values, fill)
        elif self._is_ragged(name) and are_rows:
            self._add_rows(name, values)
        elif all(value.shape == values[0].shape for value in values):
            self._add_dense(name, (len(values), *values[0].shape), values)
        else:
            self._add_list(name, values)

    def _lay_out_bytes(self, name: str, values: list[BytesArray]) -> None:
        shapes = {value.shape for value in values}
        are_rows = all(shape and shape[1:] == values[0].shape[1:] for shape in shapes)
        fill = self._padding(name)
        if fill is not None and are_rows:
            self._add_padded_bytes(name, values, fill if isinstance(fill, bytes) else b"")
        elif self._is_ragged(name) and are_rows:
            self._add_rows(name, values)
        elif len(shapes) == 1:
            array = _joined(values)
            shape = (len(values), *values[0].shape)
            self._add_bytes(name, BytesArray(array.data, array.offsets, shape))
        elif are_rows:
            self._add_rows(name, values)
        else:
            raise ValueError(f"the arrays of bytes of {name!r} are of different shapes: {shapes}")

    def _lay_out_rows(self, name: str, values: list[Ragged]) -> None:
        if not _are_alike(values):
            rows = tuple(self._rows_column(name, [], [value], "int64") for value in values)
            self._columns.append(ListColumn(name, rows))
            return
        if not self._pad:
            self._add_rows(name, values)
            return
        padded = _of_one_dtype([value.to_padded(self._fill) for value in values])
        # All inner dimensions at their longest; the outer one is padded as any other rows are.
        inner = [max(sizes) for sizes in zip(*(value.shape[1:] for value in padded), strict=True)]
        self._add_padded(
            name, [_enlarged(value, inner, self._fill) for value in padded], self._fill
        )

    # ---- columns ----

    def _add_dense(self, name: str, shape: tuple[int, ...], values: list[Tensor]) -> None:
        column = self._room.reserve_dense((name,), _dtype_name(values[0]), shape)
        self._columns.append(column)

        def store(arena: Tensor) -> None:
            torch.stack(values, out=_target(arena, values[0].dtype, shape, column.at))

        self._stores.append(store)

    def _add_rows(self, name: str, values: list[Any]) -> None:
        """A Ragged whose rows are tensors, arrays of bytes or Raggeds, all of one of these."""
        sample = self._samples[0]
        dtype = sample.ragged.get(name, "int64") if isinstance(sample, Sample) else "int64"
        lengths = torch.tensor([len(value) for value in values])
        self._columns.append(self._rows_column(name, [lengths], values, dtype))

    def _rows_column(
        self, name: str, lengths: list[Tensor], values: list[Any], dtype: str
    ) -> RaggedColumn:
        """The rows of some values, one behind the other, inside of rows of some lengths."""
        while isinstance(values[0], Ragged):
            dtype = _dtype_name(values[0].offsets)
            lengths.append(torch.cat([value.lengths.long() for value in values]))
            values = [value.values for value in values]
        splits = self._room.reserve_splits([len(level) for level in lengths], dtype)
        for place, level in zip(splits, lengths, strict=True):
            ends = torch.cat((torch.zeros(1, dtype=torch.int64), level.cumsum(0)))
            self._store_parts([place.at], [ends.to(getattr(torch, dtype))])
        return RaggedColumn(name, splits, self._add_values(values))

    def _add_padded(self, name: str, values: list[Tensor], fill: Any) -> None:
        lengths, longest = self._add_lengths(name, [len(value) for value in values], fill)
        shape = (len(values), longest, *values[0].shape[1:])
        column = self._room.reserve_dense((name,), _dtype_name(values[0]), shape)
        self._columns.append(column)

        def store(arena: Tensor) -> None:
            padded = _target(arena, values[0].dtype, shape, column.at).fill_(fill)
            for row, value, length in zip(padded, values, lengths, strict=True):
                row[:length] = value[:length]

        self._stores.append(store)

    def _add_padded_axes(
        self, name: str, values: list[Tensor], fill: Any, axes: tuple[int, ...]
    ) -> None:
        padding = Padding(f"{name}\0lengths", fill, axes)
        self._padded[name] = padding
        lengths = torch.tensor([[value.shape[axis] for axis in axes] for value in values])
        sides = self._room.reserve_dense((padding.lengths,), "int64", tuple(lengths.shape))
        self._store_parts([sides.at], [lengths])
        largest = [max(sizes) for sizes in zip(*(value.shape for value in values), strict=True)]
        padded = values[0].new_full((len(values), *largest), fill)
        for row, value in zip(padded, values, strict=True):
            row[tuple(slice(size) for size in value.shape)] = value
        column = self._room.reserve_dense((name,), _dtype_name(padded), tuple(padded.shape))
        self._store_parts([column.at], [padded])
        self._columns += [sides, column]

    def _add_padded_bytes(self, name: str, values: list[BytesArray], fill: bytes) -> None:
        lengths, longest = self._add_lengths(name, [len(value) for value in values], fill)
        inner = values[0].shape[1:]
        count = math.prod(inner)
        texts: list[bytes] = []
        for value, length in zip(values, lengths, strict=True):
            row = value.flat()[: length * count]
            texts += row + [fill] * (longest * count - len(row))
        array = BytesArray.from_list(texts)
        shape = (len(values), longest, *inner)
        self._add_bytes(name, BytesArray(array.data, array.offsets, shape))

    def _add_lengths(self, name: str, lengths: list[int], fill: Any) -> tuple[list[int], int]:
        """Notes lengths; gives what is left of them, and the padded length of all."""
        longest = self._to.length(max(lengths), name)
        lengths = [self._to.cut(length) for length in lengths]
        padding = Padding(f"{name}\0lengths", fill)
        self._padded[name] = padding
        column = self._room.reserve_dense((padding.lengths,), "int64", (len(lengths),))
        self._columns.append(column)
        self._store_parts([column.at], [torch.tensor(lengths)])
        return lengths, longest

    def _add_sparse(self, name: str, values: list[Sparse]) -> None:
        shapes = {value.dense_shape for value in values}
        if len(shapes) > 1:
            raise ValueError(f"the sparse arrays of {name!r} are of different shapes: {shapes}")
        parts = [
            torch.cat((torch.full((len(v.indices), 1), record), v.indices), dim=1)
            for record, v in enumerate(values)
        ]
        together = torch.cat(parts)
        indices = self._room.reserve_numbers("int64", tuple(together.shape))
        self._store_parts([indices.at], [together])
        shape = (len(values), *values[0].dense_shape)
        stored = self._add_values([value.values for value in values])
        self._columns.append(SparseColumn(name, shape, indices, stored))

    def _add_list(self, name: str, values: list[Tensor]) -> None:
        self._columns.append(
            ListColumn(name, tuple(self._add_values([value], value.shape) for value in values))
        )

    def _add_bytes(self, name: str, array: BytesArray) -> None:
        self._columns.append(BytesColumn(name, self._add_texts(array)))

    # ---- parts of columns ----

    def _add_values(self, values: list[Any], shape: tuple[int, ...] | None = None) -> Values:
        """Tensors, or arrays of bytes, one behind the other."""
        if isinstance(values[0], BytesArray):
            return self._add_texts(_joined(values))
        joined = torch.cat(values) if values[0].dim() else values[0]
        numbers = self._room.reserve_numbers(_dtype_name(joined), tuple(shape or joined.shape))
        self._store_parts([numbers.at], [joined])
        return numbers

    def _add_texts(self, array: BytesArray) -> Texts:
        texts = self._room.reserve_texts(array.shape, array.data.numel())
        self._store_parts([texts.offsets_at, texts.data_at], [array.offsets, array.data])
        return texts

    def _store_parts(self, places: list[int], parts: list[Tensor]) -> None:
        def store(arena: Tensor) -> None:
            for at, part in zip(places, parts, strict=True):
                _target(arena, part.dtype, tuple(part.shape), at).copy_(part)

        self._stores.append(store)


def _joined(values: list[BytesArray]) -> BytesArray:
    """Arrays of bytes one behind the other, with nothing between."""
    inner = values[0].shape[1:]
    array = BytesArray.from_list([text for value in values for text in value.flat()])
    rows = sum(value.shape[0] if value.shape else 1 for value in values)
    return BytesArray(array.data, array.offsets, (rows, *inner))


def _are_alike(values: list[Any]) -> bool:
    """Whether what is in the innermost rows has one shape, so that it goes behind each other."""
    while isinstance(values[0], Ragged):
        values = [value.values for value in values]
    return len({tuple(value.shape[1:]) for value in values}) == 1


def _alike_but(axes: tuple[int, ...], values: list[Tensor]) -> bool:
    """Whether tensors have those axes, and differ in the size of no other one."""
    others = {
        tuple(size for axis, size in enumerate(value.shape) if axis not in axes) for value in values
    }
    return len(others) == 1 and min(value.dim() for value in values) > max(axes)


def _enlarged(value: Tensor, inner: list[int], fill: float) -> Tensor:
    """A tensor with its dimensions behind the first filled up to these sizes."""
    large = value.new_full((len(value), *inner), fill)
    large[tuple(slice(size) for size in value.shape)] = value
    return large


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


def _collate_values(values: list[Any], *, collate_fn_map: Any) -> Any:
    """What PyTorch's ``default_collate`` makes of values of our types: the same as we do."""
    del collate_fn_map  # there is nothing in them that is not ours
    return collate([{"": value} for value in values])[""]


default_collate_fn_map.update(dict.fromkeys((BytesArray, Ragged, Sparse), _collate_values))
