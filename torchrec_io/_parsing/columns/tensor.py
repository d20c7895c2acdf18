"""Columns of serialized tensors."""

from __future__ import annotations

import math

import numpy as np

from ... import _core
from ..._schema.dtypes import MOST_VALUES
from ..._schema.stored_keys import StoredKey
from ..._schema.stored_specs import SerializedTensorFeature
from ..arrays import Arena, offsets_of, view_of
from ..layout import BytesColumn, Column, ListColumn, Numbers
from .base import ColumnBuilder, LocatedBlock, native_spec


class SerializedTensorBuilder(ColumnBuilder):
    """Builder of the column of a SerializedTensorFeature."""

    feature: SerializedTensorFeature

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return native_spec(stored.key, "string", _core.ColumnType.span)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        tensors = block.tensors(self.first_spec, _core.TensorType[self.feature.dtype])
        if block.failures:
            return []
        headers = tensors.headers
        for record, header in enumerate(headers):
            dims = list(header.shape)
            if self.feature.shape is not None and header.shape != self.feature.shape:
                wanted = list(self.feature.shape)
                reason = f"its tensor has the shape {dims}, the schema wants {wanted}"
                block.fail(record, self.first_spec, reason)
            elif len(dims) > _MAX_DIMS or math.prod(max(1, d) for d in dims) >= MOST_VALUES:
                block.fail(record, self.first_spec, f"its shape {dims} is too large for a Tensor")
        if block.failures:
            return []
        if self.feature.shape is None:
            dtype = self.feature.dtype
            arrays = [
                block.layout.reserve_values(dtype, each.shape, each.bytes) for each in headers
            ]
            block.save(self, (tensors, [array.target for array in arrays], None))
            return [ListColumn(self.name, tuple(arrays))]
        return self._lay_out_together(block, tensors, [header.bytes for header in headers])

    def _lay_out_together(
        self, block: LocatedBlock, tensors: _core.TensorBatch, sizes: list[int]
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
        block.fill_tensors(tensors, targets, arena)
        if together is None:
            return
        # The offsets of each tensor start at 0, and the next tensor overwrites its last one.
        texts, starts = together
        count = math.prod(texts.shape)
        offsets = view_of(arena, Numbers("int64", (count + 1,), texts.offsets_at))
        if len(starts) and count:
            offsets[:-1].reshape(len(starts), -1)[...] += starts[:, np.newaxis]
        offsets[-1] = texts.data_bytes


_MAX_DIMS = 64  # PyTorch's limit
