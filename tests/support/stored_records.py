"""Records that specs of any kind can read."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import torchrec_io as tio
from torchrec_io._schema.dtypes import is_integer_dtype, item_bytes, stored_dtype

Stored = dict[str, list[Any]]
_NUMBERS = (
    tio.FixedLenFeature,
    tio.VarLenFeature,
    tio.FixedLenSequenceFeature,
    tio.BoxFeature,
    tio.KeypointFeature,
)


def without_checks(spec: Any) -> Any:
    """Return a spec without range and normalization, so that any values are read as stored."""
    left_out = ("valid_range", "normalize")
    given = {name: value for name, value in spec.arguments().items() if name not in left_out}
    for name in ("element", "partitions"):
        if name in given:
            given[name] = getattr(spec, name)
    if "element" in given:
        given["element"] = without_checks(spec.element)
    return type(spec)(**given)


@st.composite
def numbers(draw: st.DrawFn, dtype: str, count: int, *, bits: bool = False) -> list[Any]:
    """Draw stored values of a dtype, which must fit in it."""
    if dtype == "string":
        leaf: st.SearchStrategy[Any] = st.binary(max_size=3)
    elif is_integer_dtype(dtype):
        low = {"bool": 0, "uint64": -(2**63) if bits else 0}.get(dtype, 0)
        leaf = st.integers(low, 1 if dtype == "bool" else 2**63 - 1 if dtype == "uint64" else 100)
    else:
        leaf = st.sampled_from([0.0, -1.5, 2.0, 100.0])
    return draw(st.lists(leaf, min_size=count, max_size=count))


@st.composite
def rows(draw: st.DrawFn, partitions: Any, count: int | None = None) -> tuple[Stored, int]:
    """Draw the numbers of partitions, and the number of values."""
    kinds = tio.RaggedFeature
    stored: Stored = {}
    total = draw(st.integers(0, 4)) if count is None else count
    for level, partition in enumerate(partitions):
        if isinstance(partition, kinds.UniformRowCount):
            assume(level == 0 or total == partition.rows)
            total = partition.rows
        lengths = draw(st.lists(st.integers(0, 3), min_size=total, max_size=total))
        if isinstance(partition, kinds.UniformRowLength):
            lengths = [partition.length] * total
        elif isinstance(partition, kinds.UniformRowCount):
            lengths = [2] * total
        elif isinstance(partition, kinds.ValueRowIds) and lengths:
            lengths[-1] += 1
        splits = [0, *np.cumsum(lengths).tolist()]
        found = {
            kinds.RowSplits: splits,
            kinds.RowLengths: lengths,
            kinds.RowStarts: splits[:-1],
            kinds.RowLimits: splits[1:],
            kinds.ValueRowIds: [i for i, length in enumerate(lengths) for _ in range(length)],
        }
        if partition.key is not None:
            stored[partition.key] = found[type(partition)]
        total = splits[-1]
    return stored, total


@st.composite
def raw_values(draw: st.DrawFn, spec: Any, shape: tuple[int, ...]) -> bytes:
    """Draw the bytes of an array."""
    count = int(np.prod(shape, dtype=np.int64))
    data = draw(st.binary(min_size=count, max_size=count))
    data = b"".join(bytes([byte % 2]) * item_bytes(spec.dtype) for byte in data)
    return zlib.compress(data) if spec.compression else data


def _shape(draw: st.DrawFn, spec: Any) -> tuple[int, ...]:
    if spec.shape is None:
        rank = draw(st.integers(0, 3)) if spec.known_rank is None else spec.known_rank
        return tuple(draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank)))
    return tuple(draw(st.integers(0, 3)) if size is None else size for size in spec.shape)


def _sizes(spec: Any, shape: tuple[int, ...], count: int = 1) -> Stored:
    """Return the stored sizes of arrays of one shape."""
    key: Any = getattr(spec, "shape_key", None)
    if key is None or isinstance(key, str):
        return {} if key is None else {key: list(shape) * count}
    unknown = [n for n, size in enumerate(spec.shape or key) if spec.shape is None or size is None]
    places = unknown if len(unknown) == len(key) else range(len(shape))
    return {each: [shape[place]] * count for each, place in zip(key, places, strict=True)}


@st.composite
def features(draw: st.DrawFn, spec: Any, name: str) -> Stored:
    """Draw the stored features of a spec that is not of images or serialized tensors."""
    key = spec.stored_keys(name)[0].key
    bits = getattr(spec, "bitcast", False)
    # Defaults of floats need not fit in float32, and NaN is equal to nothing.
    if (
        isinstance(spec, tio.FixedLenFeature)
        and spec.default_value is not None
        and "float" not in spec.dtype
        and draw(st.booleans())
    ):
        return {}
    if isinstance(spec, _NUMBERS):
        keys = [each.key for each in spec.stored_keys(name)]
        items = 1 if isinstance(spec, tio.FixedLenFeature) else draw(st.integers(0, 3))
        per_item = getattr(spec, "num_coordinates", 1) // len(keys)
        count = items * getattr(spec, "count", per_item)
        return {each: draw(numbers(spec.dtype, count, bits=bits)) for each in keys}
    if isinstance(spec, tio.SparseFeature):
        count = draw(st.integers(0, 3)) if all(spec.size) else 0
        stored = {key: draw(numbers(spec.dtype, count))}
        for index_key, size in zip(spec.index_key, spec.size, strict=True):
            stored[index_key] = draw(
                st.lists(st.integers(0, max(0, size - 1)), min_size=count, max_size=count)
            )
        return stored
    if isinstance(spec, tio.RaggedFeature):
        stored, count = draw(rows(spec.partitions))
        return {**stored, key: draw(numbers(spec.dtype, count, bits=bits))}
    if isinstance(spec, tio.RawFeature):
        shape = _shape(draw, spec)
        return {**_sizes(spec, shape), key: [draw(raw_values(spec, shape))]}
    assert isinstance(spec, tio.SequenceFeature)
    stored, count = draw(rows(spec.partitions, spec.length))
    shape = _shape(draw, spec.element)
    elements = [draw(raw_values(spec.element, shape)) for _ in range(count)]
    return {**stored, **_sizes(spec.element, shape, count), key: elements}


@st.composite
def steps(draw: st.DrawFn, spec: Any, name: str) -> dict[str, list[list[Any]]]:
    """Draw the stored feature lists of a spec."""
    key = spec.stored_keys(name)[0].key
    count = draw(st.integers(0, 3))
    found: list[Stored]
    if isinstance(spec, tio.SequenceFeature):
        count = count if spec.length is None else spec.length
        shape = _shape(draw, spec.element)
        sizes = _sizes(spec.element, shape)
        found = [{**sizes, key: [draw(raw_values(spec.element, shape))]} for _ in range(count)]
    elif isinstance(spec, tio.FixedLenSequenceFeature):
        found = [{key: draw(numbers(spec.dtype, spec.count))} for _ in range(count)]
    else:
        found = [draw(features(spec, name)) for _ in range(count)]
    return {each.key: [step[each.key] for step in found] for each in spec.stored_keys(name)}


def kinds_of(spec: Any, name: str) -> dict[str, str]:
    return {each.key: stored_dtype(each.dtype) for each in spec.stored_keys(name)}
