"""Columns of serialized tensors."""

from __future__ import annotations

import math

import numpy as np

from ... import _core
from ..._schema.dtypes import MOST_VALUES
from ..._schema.stored_keys import StoredKey
from ..._schema.stored_specs import SerializedTensorFeature
from ..arrays import Arena, Ints, offsets_of, view_of
from ..layout import Column, ListColumn, Numbers, Texts
from .base import ColumnBuilder, LocatedBlock


class SerializedTensorBuilder(ColumnBuilder):
    """Builder of the column of a SerializedTensorFeature."""

    feature: SerializedTensorFeature

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return self.native_spec(stored, _core.ColumnType.span)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        tensors = block.located.tensors(self.first_spec, _core.TensorType[self.feature.dtype])
        block.add_failures(tensors.failures)
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
            _fill_later(block, tensors, [array.target for array in arrays])
            return [ListColumn(self.name, tuple(arrays))]
        return self._lay_out_together(block, tensors, [header.bytes for header in headers])

    def _lay_out_together(
        self, block: LocatedBlock, tensors: _core.TensorBatch, sizes: list[int]
    ) -> list[Column]:
        assert self.feature.shape is not None
        shape = (len(block), *self.feature.shape)
        dtype = self.feature.dtype
        column, values = block.layout.reserve_column(self.name, dtype, shape, sum(sizes))
        starts = offsets_of(np.array(sizes, np.int64))[:-1]
        step = 8 * math.prod(self.feature.shape) if isinstance(values, Texts) else 0
        offsets_at, data_at = values.target
        targets = [
            (offsets_at + record * step, data_at + start) for record, start in enumerate(starts)
        ]
        _fill_later(block, tensors, targets)
        if isinstance(values, Texts):
            block.finishers.append(lambda _, arena: _join_offsets(arena, values, starts))
        return [column]


def _fill_later(
    block: LocatedBlock, tensors: _core.TensorBatch, targets: list[tuple[int, int]]
) -> None:
    """Write tensors once the arena is allocated.

    Args:
        block: The records.
        tensors: Their tensors.
        targets: Offset of the offsets (0 for numbers) and of the data of each tensor.
    """
    offsets, data = np.array(targets, np.uint64).reshape(-1, 2).T.copy()

    def fill(block: LocatedBlock, arena: Arena) -> None:
        block.add_failures(tensors.fill(offsets, data, arena))

    block.finishers.append(fill)


def _join_offsets(arena: Arena, texts: Texts, starts: Ints) -> None:
    """Add the start of each tensor's data to its offsets.

    The offsets of each tensor start at 0, and the next tensor overwrites its last one.
    """
    count = math.prod(texts.shape)
    offsets = view_of(arena, Numbers("int64", (count + 1,), texts.offsets_at))
    if len(starts) and count:
        offsets[:-1].reshape(len(starts), -1)[...] += starts[:, np.newaxis]
    offsets[-1] = texts.data_bytes


_MAX_DIMS = 64  # PyTorch's limit
