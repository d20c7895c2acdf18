"""Columns of serialized tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import _core
from ...schema.dtypes import MOST_VALUES
from ...schema.stored_specs import SerializedTensorFeature
from ..layout import BytesColumn, Column, ListColumn, Numbers
from .base import SPAN, Arena, ColumnBuilder, LocatedBlock, native_spec, offsets_of, view_of


class SerializedTensorBuilder(ColumnBuilder):
    """Builder of the column of a SerializedTensorFeature."""

    feature: SerializedTensorFeature

    def native_specs(self) -> list[_core.FeatureSpec]:
        return [native_spec(self.name, "string", SPAN)]

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        tensors = block.tensors(self.first_spec, _TENSOR_TYPES[self.feature.dtype])
        if block.failures:
            return []
        sizes = tensors.sizes()
        for record, (dims, _, _) in enumerate(sizes):
            if self.feature.shape is not None and tuple(dims) != self.feature.shape:
                wanted = list(self.feature.shape)
                reason = f"its tensor has the shape {dims}, the schema wants {wanted}"
                block.fail(record, self.first_spec, reason)
            elif len(dims) > _MAX_DIMS or math.prod(max(1, d) for d in dims) >= MOST_VALUES:
                block.fail(record, self.first_spec, f"its shape {dims} is too large for a Tensor")
        if block.failures:
            return []
        if self.feature.shape is None:
            return self._lay_out_list(block, tensors, sizes)
        return self._lay_out_together(block, tensors, [size for _, _, size in sizes])

    def _lay_out_list(
        self, block: LocatedBlock, tensors: _core.Tensors, sizes: list[tuple[Any, int, int]]
    ) -> list[Column]:
        dtype = self.feature.dtype
        arrays = [block.layout.reserve_values(dtype, tuple(dims), size) for dims, _, size in sizes]
        block.save(self, (tensors, [array.target for array in arrays], None))
        return [ListColumn(self.name, tuple(arrays))]

    def _lay_out_together(
        self, block: LocatedBlock, tensors: _core.Tensors, sizes: list[int]
    ) -> list[Column]:
        assert self.feature.shape is not None
        shape = (len(block), *self.feature.shape)
        starts = offsets_of(np.array(sizes, np.int64))[:-1]
        if self.feature.dtype != "string":
            column = block.layout.reserve_dense((self.name,), self.feature.dtype, shape)
            block.save(self, (tensors, [(0, column.at + start) for start in starts], None))
            return [column]
        texts = block.layout.reserve_texts(shape, sum(sizes))
        step = 8 * math.prod(self.feature.shape)
        targets = [
            (texts.offsets_at + record * step, texts.data_at + start)
            for record, start in enumerate(starts)
        ]
        block.save(self, (tensors, targets, (texts, starts)))
        return [BytesColumn(self.name, texts)]

    def finish(self, block: LocatedBlock, arena: Arena) -> None:
        tensors, targets, together = block.saved(self)
        for record, reason in tensors.fill(np.array(targets, np.uint64).reshape(-1, 2), arena):
            block.fail(record, self.first_spec, reason)
        if together is None:
            return
        # The offsets of each tensor start at 0, and the next tensor overwrites its last one.
        texts, starts = together
        count = math.prod(texts.shape)
        offsets = view_of(arena, Numbers("int64", (count + 1,), texts.offsets_at))
        if len(starts) and count:
            offsets[:-1].reshape(len(starts), -1)[...] += starts[:, np.newaxis]
        offsets[-1] = texts.data_bytes


# Numbers of tensorflow.DataType by dtype.
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
_MAX_DIMS = 64  # PyTorch's limit
