"""The stored features of the values of a sample: parsing in reverse."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..schema.dtypes import item_bytes
from ..schema.feature import Feature
from ..schema.nesting import SEPARATOR, leaves_of
from ..schema.row_partitions import (
    Partition,
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    UniformRowCount,
    UniformRowLength,
    ValueRowIds,
)
from ..schema.schema import Schema
from ..schema.specs import RaggedFeature, SparseFeature
from ..schema.stored_specs import RawFeature, SequenceFeature
from .ragged import BytesArray, Ragged, Sparse
from .sample import are_equal
from .views import name_dtype


def stored_parts(
    schema: Schema, values: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the stored features of a record.

    Args:
        schema: Schema that reads the record.
        values: Values by name, nested or not, as the schema reads them. Values of other names, and
            values that are stored already, such as the bytes of an image, are returned unchanged.

    Returns:
        The features, and None; or the context and the feature lists of a SequenceExample.

    Raises:
        TypeError: If the stored values cannot be known from a value.
        ValueError: If values do not have the form that the schema reads, or two features give one
            stored feature different values.
    """
    lists = schema.sequence
    if lists is None:
        return stored_part(schema.context, values), None
    flat = _flat(values)
    context = {name: value for name, value in flat.items() if name not in lists}
    steps = {name: value for name, value in flat.items() if name in lists}
    return stored_part(schema.context, context), stored_part(lists, steps, has_steps=True)


def stored_part(
    specs: Mapping[str, Feature], values: Mapping[str, Any], *, has_steps: bool = False
) -> dict[str, Any]:
    """Return the stored features of one part of a record, as :func:`stored_parts` does.

    Args:
        specs: Specs of the part by flat name.
        values: Values by name, nested or not.
        has_steps: Whether the part has feature lists.
    """
    part: dict[str, Any] = {}
    for name, value in _flat(values).items():
        spec = specs.get(name)
        if spec is None or spec.is_written_as_is:
            stored = {name: value}
        else:
            try:
                stored = (
                    _stored_steps(spec, name, value) if has_steps else _stored(spec, name, value)
                )
            except (TypeError, ValueError) as error:
                raise type(error)(f"{error} (feature {name!a})") from error
        for key, found in stored.items():
            if key in part and not are_equal(part[key], found):
                raise ValueError(f"two features give {key!a} different values (feature {name!a})")
            part[key] = found
    return part


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by flat name."""
    flat: dict[str, Any] = {}
    for path, value in leaves_of(values):
        name = path[0] if len(path) == 1 else SEPARATOR.join(path)
        if name in flat:
            raise ValueError(f"the feature name occurs twice (feature {name!a})")
        flat[name] = value
    return flat


def _stored(spec: Feature, name: str, value: Any) -> dict[str, Any]:
    values_key = spec.stored_keys(name)[0].key
    if value is None:
        return {values_key: None}
    if isinstance(spec, SparseFeature):
        return _stored_sparse(spec, value)
    if isinstance(spec, RawFeature) and isinstance(value, Tensor):
        shape = {} if spec.shape_key is None else {spec.shape_key: list(value.shape)}
        return {values_key: _raw_bytes(spec, value), **_integers(shape)}
    if isinstance(spec, (RaggedFeature, SequenceFeature)):
        return _stored_rows(spec, values_key, value)
    if spec.is_written_as_is or getattr(spec, "bitcast", False):
        return {values_key: _signed(value)}
    return {values_key: _as_given(spec, value)}


def _stored_steps(spec: Feature, name: str, value: Any) -> dict[str, Any]:
    """Return the stored feature lists of a feature list."""
    rows = value.rows() if isinstance(value, Ragged) else value
    if isinstance(spec, SequenceFeature):  # a step is an element
        steps = [_stored(spec.element, spec.value_key or name, row) for row in rows]
    else:
        steps = [_stored(spec, name, row) for row in rows]
    keys = [key.key for key in spec.stored_keys(name)]
    return {key: [step[key] for step in steps] for key in keys}


def _as_given(spec: Feature, value: Any) -> Any:
    """Return a value that is stored already."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(each, (Tensor, Ragged)) for each in values):
        _refuse(spec, "does not keep the bytes that it decodes")
    return value


def _refuse(spec: Feature, why: str) -> NoReturn:
    raise TypeError(
        f"the stored values cannot be restored, because a {type(spec).__name__} {why}: give the "
        "stored bytes, or read the feature with schema[name].as_stored(name)"
    )


def _integers(values: Mapping[str, Iterable[int]]) -> dict[str, Any]:
    return {key: torch.tensor(list(each), dtype=torch.int64) for key, each in values.items()}


def _signed(value: Any) -> Any:
    """Return numbers of 64 bits without a sign as the stored ones."""
    if isinstance(value, Ragged):
        return value.with_parts([value.offsets, _signed(value.values)])
    is_wide = isinstance(value, Tensor) and value.dtype == torch.uint64
    return value.view(torch.int64) if is_wide else value


def _stored_sparse(spec: SparseFeature, value: Any) -> dict[str, Any]:
    if not isinstance(value, Sparse):
        raise TypeError(f"the value must be a Sparse, got {type(value).__name__}")
    if value.dense_shape != spec.size:
        raise ValueError(f"the shape must be {list(spec.size)}, got {list(value.dense_shape)}")
    return {spec.value_key: value.values, **dict(zip(spec.index_key, value.indices.T, strict=True))}


def _raw_bytes(spec: RawFeature, value: Tensor) -> bytes:
    """Return the bytes that a RawFeature decodes to a value."""
    if spec.dequantize is not None or spec.fixed_length is not None:
        _refuse(spec, "with dequantize or fixed_length does not keep all that it reads")
    shape = tuple(value.shape) if spec.shape is None else spec.shape
    sizes = [size if known is None else known for known, size in zip(shape, value.shape)]
    if name_dtype(value) != spec.dtype or sizes != list(value.shape) or len(shape) != len(sizes):
        raise ValueError(
            f"the value must be {spec.dtype}{list(shape)}, got {name_dtype(value)}"
            f"{list(value.shape)}"
        )
    data = value.detach().cpu().contiguous().flatten().view(torch.uint8)
    if not spec.little_endian:
        numbers = 2 if value.is_complex() else 1
        data = data.reshape(-1, item_bytes(spec.dtype) // numbers).flip(1)
    stored = data.numpy().tobytes()
    return stored if spec.compression is None else zlib.compress(stored)


# ---- rows ----


def _stored_rows(
    spec: RaggedFeature | SequenceFeature, values_key: str, value: Any
) -> dict[str, Any]:
    """Return the values and partitions of a feature."""
    stored: dict[str, Any] = {}
    if spec.partitions and not _has_rows(value):
        return {values_key: value}  # its partitions are given, too
    for partition in spec.partitions:
        lengths, value = _split(value)
        stored |= _stored_partition(partition, lengths)
    if isinstance(spec, RaggedFeature):
        return {values_key: _signed(value), **stored}
    return {**_stored_elements(spec.element, values_key, value), **stored}


def _stored_elements(element: Feature, values_key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, BytesArray):
        return {values_key: value}
    found = [_stored(element, values_key, each) for each in value]
    keys = [key.key for key in element.stored_keys(values_key)]
    texts = [each[values_key] for each in found]
    shapes = {key: [size for each in found for size in each[key].tolist()] for key in keys[1:]}
    are_bytes = all(isinstance(text, bytes) for text in texts)
    return {values_key: BytesArray.from_list(texts) if are_bytes else texts, **_integers(shapes)}


def _has_rows(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(row, (list, tuple, Tensor)) for row in value)
    return isinstance(value, Ragged) or (
        isinstance(value, (Tensor, BytesArray)) and len(value.shape) > 1
    )


def _split(value: Any) -> tuple[list[int], Any]:
    """Return the lengths of the rows of a value, and their values in one array or list."""
    if not isinstance(value, Ragged):
        rows = list(value)
        return [len(row) for row in rows], [each for row in rows for each in row]
    lengths = value.lengths.tolist()
    if int(value.offsets[0]) or min(lengths, default=0) < 0 or sum(lengths) != len(value.values):
        raise ValueError("the rows must follow each other, from the first value to the last")
    return lengths, value.values


_NUMBERS: dict[type[Partition], Callable[[list[int], list[int]], Sequence[int]]] = {
    RowSplits: lambda lengths, ends: [0, *ends],
    RowLengths: lambda lengths, ends: lengths,
    RowStarts: lambda lengths, ends: [0, *ends][: len(lengths)],
    RowLimits: lambda lengths, ends: ends,
    ValueRowIds: lambda lengths, ends: [
        i for i, length in enumerate(lengths) for _ in range(length)
    ],
}


def _stored_partition(partition: Partition, lengths: list[int]) -> dict[str, Any]:
    """Return the stored numbers of a partition, by their key."""
    if isinstance(partition, UniformRowLength):
        is_valid = set(lengths) <= {partition.length}
    elif isinstance(partition, UniformRowCount):
        is_valid = len(set(lengths)) <= 1 and len(lengths) == partition.rows
    else:
        is_valid = not isinstance(partition, ValueRowIds) or lengths[-1:] != [0]
    if not is_valid:
        raise ValueError(f"{partition} cannot store rows of the lengths {lengths[:20]}")
    if partition.stored_key is None:
        return {}
    numbers = _NUMBERS[type(partition)](lengths, list(accumulate(lengths)))
    return _integers({partition.stored_key: numbers})
