"""The stored features of the values of a sample: parsing in reverse."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from .._schema.box_specs import PlaceFeature
from .._schema.dtypes import item_bytes
from .._schema.feature import Feature
from .._schema.nesting import SEPARATOR, VALID, leaves_of
from .._schema.row_partitions import (
    Partition,
    RowLengths,
    RowLimits,
    RowStarts,
    UniformRowCount,
    UniformRowLength,
    ValueRowIds,
)
from .._schema.schema import Schema
from .._schema.specs import RaggedFeature, SparseFeature
from .._schema.stored_specs import RawFeature, SequenceFeature
from ..checks import with_article
from .ragged import BytesArray, Ragged, Sparse, name_dtype

_Pairs: TypeAlias = Iterator[tuple[str, Any]]
_MASKS = f"{VALID}{SEPARATOR}"


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
        if spec is None and isinstance(specs.get(name.removeprefix(_MASKS)), PlaceFeature):
            continue  # the mask of boxes, which is computed
        if spec is None or spec.is_written_as_is:
            pairs: _Pairs = iter([(name if spec is None else spec.key or name, value)])
        else:
            pairs = (_stored_steps if has_steps else _stored)(spec, name, value)
        try:
            _add(part, pairs)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (feature {name!a})") from error
    return part


def _add(part: dict[str, Any], pairs: _Pairs) -> None:
    for key, value in pairs:
        if repr(_plain(part.setdefault(key, value))) != repr(_plain(value)):  # equal for NaN
            raise ValueError(f"the stored feature {key!a} would have different values")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return value.tolist() if hasattr(value, "tolist") else value


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by flat name."""
    flat: dict[str, Any] = {}
    for path, value in leaves_of(values):
        name = path[0] if len(path) == 1 else SEPARATOR.join(path)
        if name in flat:
            raise ValueError(f"the feature name occurs twice (feature {name!a})")
        flat[name] = value
    return flat


def _stored(spec: Feature, name: str, value: Any) -> _Pairs:
    """Yield the name and value of each stored feature."""
    values_key = spec.stored_keys(name)[0].key
    if value is None:
        yield values_key, None
    elif spec.normalize is not None:
        _refuse(spec, "with normalize does not keep the values that it reads")
    elif isinstance(spec, SparseFeature):
        yield from _stored_sparse(spec, value)
    elif isinstance(spec, RawFeature) and isinstance(value, Tensor):
        yield values_key, _raw_bytes(spec, value)
        yield from _stored_shape(spec, value.shape)
    elif isinstance(spec, PlaceFeature):
        yield from _stored_places(spec, name, value)
    elif isinstance(spec, (RaggedFeature, SequenceFeature)):
        yield from _stored_rows(spec, values_key, value)
    elif spec.is_written_as_is or getattr(spec, "bitcast", False):
        yield values_key, _signed(value)
    else:
        yield values_key, _as_given(spec, value)


def _stored_steps(spec: Feature, name: str, value: Any) -> _Pairs:
    """Yield the name and the steps of each stored feature list."""
    steps: list[dict[str, Any]] = []
    for row in value.rows() if isinstance(value, Ragged) else value:
        steps.append({})
        if isinstance(spec, SequenceFeature):
            _add(steps[-1], _stored(spec.element, spec.key or name, row))
        else:
            _add(steps[-1], _stored(spec, name, row))
    for key in spec.stored_keys(name):
        yield key.key, [step[key.key] for step in steps]


def _as_given(spec: Feature, value: Any) -> Any:
    """Return a value that is stored already."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(each, (Tensor, Ragged)) for each in values):
        _refuse(spec, "does not keep the bytes that it decodes")
    return value


def _refuse(spec: Feature, why: str) -> NoReturn:
    spec_name = with_article(type(spec).__name__)
    raise TypeError(
        f"the stored values cannot be restored, because {spec_name} {why}: give the "
        "stored bytes, or read the feature with schema[name].as_stored(name)"
    )


def _integers(values: Iterable[int]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64)


def _signed(value: Any) -> Any:
    """Return numbers of 64 bits without a sign as the stored ones."""
    if isinstance(value, Ragged):
        return value.with_parts([value.offsets, _signed(value.values)])
    is_wide = isinstance(value, Tensor) and value.dtype == torch.uint64
    return value.view(torch.int64) if is_wide else value


def _stored_sparse(spec: SparseFeature, value: Any) -> _Pairs:
    if not isinstance(value, Sparse):
        raise TypeError(f"the value must be a Sparse, got {type(value).__name__}")
    if value.dense_shape != spec.size:
        raise ValueError(f"the shape must be {list(spec.size)}, got {list(value.dense_shape)}")
    yield spec.value_key, value.values
    yield from zip(spec.index_key, value.indices.T, strict=True)


def _stored_shape(spec: RawFeature, shape: Sequence[int]) -> _Pairs:
    """Yield the features with the shape of an array."""
    if not isinstance(spec.shape_key, tuple):
        yield from ((key, _integers(shape)) for key in spec.shape_keys)
        return
    if len(shape) != spec.known_rank:
        raise ValueError(f"the value must have {spec.known_rank} dimensions, got {list(shape)}")
    sizes = list(shape)
    if spec.shape is not None and len(spec.shape) != len(spec.shape_keys):
        sizes = [size for size, known in zip(shape, spec.shape, strict=True) if known is None]
    yield from ((key, _integers([size])) for key, size in zip(spec.shape_key, sizes, strict=True))


def _stored_places(spec: PlaceFeature, name: str, value: Any) -> _Pairs:
    """Yield the coordinates of boxes or points."""
    if spec.group is not None and isinstance(value, Tensor):
        _refuse(spec, "with a group follows the crop of an image")
    keys = [key.key for key in spec.stored_keys(name)]
    places = torch.as_tensor(value, dtype=torch.float32)
    if not len(places):
        places = places.reshape(0, spec.num_coordinates)
    if places.shape != (len(places), spec.num_coordinates):
        raise ValueError(
            f"the value must have the shape [n, {spec.num_coordinates}], got {list(places.shape)}"
        )
    yield from zip(keys, [places.flatten()] if len(keys) == 1 else places.T, strict=True)


def _raw_bytes(spec: RawFeature, value: Tensor) -> bytes:
    """Return the bytes that a RawFeature decodes to a value."""
    if spec.dequantize is not None or spec.fixed_length is not None:
        _refuse(spec, "with dequantize or fixed_length does not keep all that it reads")
    if spec.cropped is not None:
        _refuse(spec, "with size or augment does not keep all that it reads")
    shape = tuple(value.shape) if spec.shape is None else spec.shape
    fits = len(shape) == value.dim() and all(
        known in (None, size) for known, size in zip(shape, value.shape, strict=True)
    )
    if name_dtype(value) != spec.dtype or not fits:
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


def _stored_rows(spec: RaggedFeature | SequenceFeature, values_key: str, value: Any) -> _Pairs:
    """Yield the values and partitions of a feature."""
    if spec.partitions and not _has_rows(value):
        yield values_key, value  # its partitions are given, too
        return
    for partition in spec.partitions:
        lengths, value = _split(value)
        yield from _stored_partition(partition, lengths)
    if isinstance(spec, RaggedFeature):
        yield values_key, _signed(value)
    elif isinstance(value, BytesArray):
        yield values_key, value
    else:
        yield from _stored_elements(spec.element, values_key, value)


def _stored_elements(element: Feature, values_key: str, elements: Iterable[Any]) -> _Pairs:
    keys = [key.key for key in element.stored_keys(values_key)]
    found = [dict(_stored(element, values_key, each)) for each in elements]
    texts = [each[values_key] for each in found]
    are_bytes = all(isinstance(text, bytes) for text in texts)
    yield values_key, BytesArray.from_list(texts) if are_bytes else texts
    for key in keys[1:]:
        yield key, _integers(size for each in found if key in each for size in each[key].tolist())


def _has_rows(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(row, (list, tuple, Tensor)) for row in value)
    return isinstance(value, Ragged) or len(getattr(value, "shape", ())) > 1


def _split(value: Any) -> tuple[list[int], Any]:
    """Return the lengths of the rows of a value, and their values in one array or list."""
    if isinstance(value, Tensor):  # rows of one length
        return [value.shape[1]] * len(value), value.flatten(0, 1)
    if isinstance(value, BytesArray):
        count, length, *inner = value.shape
        return [length] * count, BytesArray(value.data, value.offsets, (count * length, *inner))
    if not isinstance(value, Ragged):
        rows = list(value)
        return [len(row) for row in rows], [each for row in rows for each in row]
    lengths = value.lengths.tolist()
    if int(value.offsets[0]) or min(lengths, default=0) < 0 or sum(lengths) != len(value.values):
        raise ValueError("the rows must follow each other, from the first value to the last")
    return lengths, value.values


def _stored_partition(partition: Partition, lengths: list[int]) -> _Pairs:
    """Yield the numbers of a partition, if they are stored."""
    is_valid = not isinstance(partition, ValueRowIds) or lengths[-1:] != [0]
    if isinstance(partition, UniformRowLength):
        is_valid = set(lengths) <= {partition.length}
    if isinstance(partition, UniformRowCount):
        is_valid = len(set(lengths)) <= 1 and len(lengths) == partition.rows
    if not is_valid:
        raise ValueError(f"{partition} cannot store rows of the lengths {lengths[:20]}")
    if partition.key is not None:
        yield partition.key, _integers(_numbers(partition, lengths))


def _numbers(partition: Partition, lengths: list[int]) -> list[int]:
    splits = [0, *accumulate(lengths)]
    if isinstance(partition, RowLengths):
        return lengths
    if isinstance(partition, RowStarts):
        return splits[:-1]
    if isinstance(partition, RowLimits):
        return splits[1:]
    if isinstance(partition, ValueRowIds):
        return [row for row, length in enumerate(lengths) for _ in range(length)]
    return splits
