"""Functions that join samples into batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, overload

from torch import Tensor

from .arena import allocate_arena
from .batch import Batch
from .building import in_arena
from .device import allocate_pinned
from .device import pin_memory as pin_memory_of
from .gather import pad_rows
from .joining import join_samples
from .padding import PaddedLength

Samples: TypeAlias = "Sequence[Mapping[str, Any]] | Batch"
Keyed: TypeAlias = "Sequence[tuple[str, Mapping[str, Any]]] | tuple[list[str], Batch]"


@overload
def collate(samples: Samples) -> Batch: ...
@overload
def collate(samples: Keyed) -> tuple[list[str], Batch]: ...
def collate(samples: Any) -> Any:
    """Join samples into one :class:`Batch`, as ``DataLoader(collate_fn=tio.collate)`` does.

    Samples of a dataset become the Batch that it would make of these records, by copying rows of
    the batches that were parsed. PyTorch's ``default_collate`` does the same. Values of other
    samples become columns as follows:

    * Tensors of one shape are stacked. Python numbers become a Tensor.
    * Values whose feature is ragged become a :class:`Ragged`, and values whose feature is padded
      are padded to the longest one. The samples of a dataset know which features these are.
    * Other Tensors of different shapes become a list.
    * Bytes become a :class:`BytesArray`. Rows of different numbers of bytes values become a
      :class:`Ragged`.
    * Raggeds and Sparses get one more dimension.

    Values of different dtypes are promoted to one dtype. Dicts in samples, such as nested features,
    become dicts of columns. Whether a value in a dict is ragged or padded depends on its flat name
    (``"objects/label"``).

    Args:
        samples: At least one dict; all dicts must have the same keys. Pairs of a key and a sample,
            as ``with_key`` yields them, become a list of keys and a Batch. A Batch is returned as
            it is.

    Raises:
        ValueError: If there are no samples, if their keys differ, if a dict in them is empty or
            nested more than 100 levels deep, if two values have the same flat name, or if arrays
            of bytes differ in shape.
        TypeError: If a value has an unsupported type, or if the types of a column's values differ.
        MemoryError: If there is not enough memory for the batch.
        OverflowError: If rows have too many values for offsets of int32.
    """
    return _collate(samples, None, allocate_arena)


@overload
def pin_collate(samples: Samples) -> Batch: ...
@overload
def pin_collate(samples: Keyed) -> tuple[list[str], Batch]: ...
def pin_collate(samples: Any) -> Any:
    """Join samples like :func:`collate`, into a batch in page-locked memory.

    GPUs copy from page-locked memory in the background. Without CUDA and in DataLoader workers the
    batch is in ordinary memory; use ``DataLoader(pin_memory=True)`` with workers. To pad as well,
    use ``pad_collate(pin_memory=True)``. PyTorch reuses page-locked memory once no Batch or view
    refers to it and all copies from it are complete.

    Args:
        samples: Samples, pairs of a key and a sample, or a Batch, which is copied unless it is in
            page-locked memory.

    Raises:
        ValueError: If the samples cannot be joined; see :func:`collate`.
        TypeError: If a value has an unsupported type; see :func:`collate`.
        MemoryError: If there is not enough memory for the batch.
    """
    return _collate(samples, None, allocate_pinned)


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
    """Join samples like :func:`collate`, and pad ragged values to a Tensor ``[B, longest]``.

    Without samples, the function returns a collate function with these options, which can be
    pickled: ``DataLoader(collate_fn=tio.pad_collate(max_len=512, buckets=(64, 128, 256, 512)))``.

    ``batch.lengths[name]`` holds the lengths after cutting, int64 ``[B]``. Bytes are padded with
    ``b""``. FixedLenSequenceFeatures keep their own fill value, and are cut and padded to a bucket
    like other columns. In rows of rows, the outermost level is cut and padded to a bucket, and the
    other levels are padded to their longest row.

    Args:
        samples: Samples, pairs of a key and a sample, or a Batch, whose columns are padded into a
            new Batch without making samples of it.
        fill: Fill value after the end of shorter rows. Default: 0.
        max_len: Maximum number of values in a row; longer rows are cut. Default: no limit.
        buckets: Lengths in ascending order. Rows are padded to the smallest bucket that holds the
            longest row, so that few shapes occur. Default: pad to the longest row.
        pin_memory: Whether to return the Batch in page-locked memory, as :func:`pin_collate` does.

    Raises:
        ValueError: If the samples cannot be joined (see :func:`collate`), if a row is longer than
            the last bucket, if ``max_len`` exceeds it, or if ``buckets`` are not ascending.
        TypeError: If a value has an unsupported type (see :func:`collate`), or if there are rows of
            rows of bytes.
        MemoryError: If there is not enough memory for the batch.
    """
    to = PaddedLength.of(max_len, buckets)
    if samples is None:
        options = {"fill": fill, "max_len": max_len, "buckets": buckets, "pin_memory": pin_memory}
        return functools.partial(pad_collate, **options)
    return _collate(samples, (fill, to), allocate_pinned if pin_memory else allocate_arena)


def _collate(
    data: Any, pad: tuple[float, PaddedLength] | None, allocate: Callable[[int], Tensor]
) -> Any:
    """Join samples or change a Batch, either of them with or without keys.

    Args:
        data: Samples, pairs of keys and samples, a Batch, or a pair of keys and a Batch.
        pad: Fill value and padded length of ragged values; None if they are not padded.
        allocate: Function that allocates the arena.
    """
    if isinstance(data, Batch):
        if pad is not None:
            return Batch(pad_rows(in_arena(data.columns), *pad, allocate))
        return data if allocate is allocate_arena else pin_memory_of(data)
    if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], Batch):
        return data[0], _collate(data[1], pad, allocate)
    if isinstance(data, Mapping):
        raise TypeError(f"samples must be a list of dicts, got {type(data).__name__}")
    if len(data) and isinstance(data[0], tuple):
        keys, samples = zip(*data, strict=True)
        return list(keys), _collate(samples, pad, allocate)
    columns, unpadded = join_samples(data, allocate if pad is None else allocate_arena)
    return Batch(columns if pad is None else pad_rows(columns, *pad, allocate, unpadded))
