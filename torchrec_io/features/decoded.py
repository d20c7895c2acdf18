"""Columns that are decoded from bytes values: raw arrays and serialized tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .decode import BAD_BOOL, BadValueError, check_raw_shape
from .dtypes import MOST_VALUES, item_bytes
from .layout import BytesColumn, Column, ListColumn, Numbers, Texts, Values
from .maker import ASIDE, RAW, RESIZED, SPAN, Arena, ColumnMaker, Held, native_spec, view_of
from .partitions import offsets_of
from .stored_specs import RawFeature, SerializedTensorFeature

if TYPE_CHECKING:
    from .parse import LocatedBlock

# ---- arrays stored as bytes ----


class _Raw(ColumnMaker):
    """RawFeature of a given shape."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        shape = feature.known_shape
        assert shape is not None
        size = math.prod(shape) * item_bytes(feature.dtype)
        code = RAW if feature.fixed_length is None else RESIZED
        super().__init__(name, [native_spec(name, "string", code, count=size)])
        self._feature = feature
        self.dense = feature.dtype, shape

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        if not len(batch):
            return  # no array, even of no rows, is as large as a row may be
        assert self.dense is not None
        size = math.prod(self.dense[1]) * item_bytes(self._feature.dtype)
        at = batch.data_at(self.first)
        rows = arena[at : at + len(batch) * size].reshape(len(batch), size)
        _swap(rows, self._feature)
        if self._feature.dtype == "bool":
            # They are copied as they are; a byte other than 0 and 1 is no bool.
            for record in np.flatnonzero((rows > 1).any(axis=1)).tolist():
                batch.fail(record, self.first, BAD_BOOL)

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        assert self.dense is not None
        return Held.of_dense(batch, arena, self.first, self.dense)


class _RawList(ColumnMaker):
    """RawFeature whose shape stands in another feature."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        assert feature.shape_key is not None
        super().__init__(
            name,
            [native_spec(name, "string", SPAN), native_spec(feature.shape_key, "int64", ASIDE)],
        )
        self._feature = feature

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        stored, offsets, _ = batch.integers(self.first + 1)
        arrays: list[Values] = []
        for record, value in enumerate(batch.values(self.first)):
            shape = stored[offsets[record] : offsets[record + 1]].tolist()
            try:
                shape = check_raw_shape(shape, len(value), self._feature)
            except BadValueError as error:
                batch.fail(record, self.first, str(error))
            else:
                arrays.append(batch.room.take_numbers(self._feature.dtype, shape))
        batch.keep(self, arrays)
        return [ListColumn(self.name, tuple(arrays))]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        values = batch.values(self.first)
        for record, (value, array) in enumerate(zip(values, batch.kept(self), strict=True)):
            data = arena[array.at : array.at + len(value)]
            data[...] = np.frombuffer(value, np.uint8)
            _swap(data, self._feature)
            if self._feature.dtype == "bool" and data.size and data.max() > 1:
                batch.fail(record, self.first, BAD_BOOL)

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        nothing = view_of(arena, Numbers(self._feature.dtype, (0,), 0))
        parts = [view_of(arena, array).reshape(-1) for array in batch.kept(self)]
        starts = offsets_of(np.array([part.size for part in parts], np.int64))
        return Held(self._feature.dtype, np.concatenate([nothing, *parts]), starts)


def make_raw(name: str, feature: RawFeature, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of a RawFeature."""
    del in_lists  # a Schema has no such feature list
    if feature.value_key or not feature.is_stored_as_it_is or None in (feature.shape or ()):
        raise NotImplementedError
    return _Raw(name, feature) if feature.shape_key is None else _RawList(name, feature)


def _swap(data: Arena, feature: RawFeature) -> None:
    """Turns elements that were stored big-endian; of a complex number each half."""
    size = item_bytes(feature.dtype) // (2 if feature.dtype.startswith("complex") else 1)
    if not feature.little_endian and size > 1:
        data.view(f"u{size}").byteswap(inplace=True)


class Tensors(ColumnMaker):
    """SerializedTensorFeature."""

    def __init__(self, name: str, feature: SerializedTensorFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        super().__init__(name, [native_spec(name, "string", SPAN)])
        self._feature = feature

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        tensors = batch.tensors(self.first, _TENSOR_TYPES[self._feature.dtype])
        if batch.failures:
            return []
        sizes = tensors.sizes()
        for record, (dims, _, _) in enumerate(sizes):
            if self._feature.shape is not None and tuple(dims) != self._feature.shape:
                reason = f"its tensor is of shape {dims}, not {list(self._feature.shape)}"
                batch.fail(record, self.first, reason)
            elif len(dims) > _MOST_DIMS or math.prod(max(1, d) for d in dims) >= MOST_VALUES:
                batch.fail(record, self.first, f"its shape {dims} is too large for a Tensor")
        if batch.failures:
            return []
        if self._feature.shape is None:
            return self._lay_out_list(batch, tensors, sizes)
        return self._lay_out_together(batch, tensors, [size for _, _, size in sizes])

    def _lay_out_list(
        self, batch: LocatedBlock, tensors: _core.Tensors, sizes: list[tuple[Any, int, int]]
    ) -> list[Column]:
        dtype = self._feature.dtype
        arrays = [batch.room.take_values(dtype, tuple(dims), size) for dims, _, size in sizes]
        places = [
            (array.offsets_at, array.data_at) if isinstance(array, Texts) else (0, array.at)
            for array in arrays
        ]
        batch.keep(self, (tensors, places, None))
        return [ListColumn(self.name, tuple(arrays))]

    def _lay_out_together(
        self, batch: LocatedBlock, tensors: _core.Tensors, sizes: list[int]
    ) -> list[Column]:
        assert self._feature.shape is not None
        shape = (len(batch), *self._feature.shape)
        starts = offsets_of(np.array(sizes, np.int64))[:-1]
        if self._feature.dtype != "string":
            column = batch.room.take_dense((self.name,), self._feature.dtype, shape)
            batch.keep(self, (tensors, [(0, column.at + start) for start in starts], None))
            return [column]
        texts = batch.room.take_texts(shape, sum(sizes))
        step = 8 * math.prod(self._feature.shape)
        places = [
            (texts.offsets_at + record * step, texts.data_at + start)
            for record, start in enumerate(starts)
        ]
        batch.keep(self, (tensors, places, (texts, starts)))
        return [BytesColumn(self.name, texts)]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        tensors, places, joined = batch.kept(self)
        for record, reason in tensors.fill(np.array(places, np.uint64).reshape(-1, 2), arena):
            batch.fail(record, self.first, reason)
        if joined is None:
            return
        # Offsets are of each tensor by itself, its last one overwritten by the next one's first.
        texts, starts = joined
        count = math.prod(texts.shape)
        offsets = view_of(arena, Numbers("int64", (count + 1,), texts.offsets_at))
        if len(starts) and count:
            offsets[:-1].reshape(len(starts), -1)[...] += starts[:, np.newaxis]
        offsets[-1] = texts.data_bytes


# Numbers of tensorflow.DataType.
_TENSOR_TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "string": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
}
_MOST_DIMS = 64  # that PyTorch works with
