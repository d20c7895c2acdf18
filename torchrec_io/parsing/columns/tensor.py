"""Columns of serialized tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ... import _core
from ...schema.dtypes import MOST_VALUES
from ...schema.stored_specs import SerializedTensorFeature
from ..layout import BytesColumn, Column, ListColumn, Numbers, Texts
from .base import SPAN, Arena, ColumnMaker, native_spec, view_of
from .partitions import offsets_of

if TYPE_CHECKING:
    from ..parser import LocatedBlock


class Tensors(ColumnMaker):
    """SerializedTensorFeature."""

    def __init__(self, name: str, feature: SerializedTensorFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        super().__init__(name, [native_spec(name, "string", SPAN)])
        self._feature = feature

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        tensors = batch.tensors(self.first, _core.TensorType[self._feature.dtype])
        if batch.failures:
            return []
        headers = tensors.headers
        for record, header in enumerate(headers):
            dims = header.shape
            if self._feature.shape is not None and dims != self._feature.shape:
                reason = f"its tensor is of shape {list(dims)}, not {list(self._feature.shape)}"
                batch.fail(record, self.first, reason)
            elif len(dims) > _MOST_DIMS or math.prod(max(1, d) for d in dims) >= MOST_VALUES:
                batch.fail(record, self.first, f"its shape {list(dims)} is too large for a Tensor")
        if batch.failures:
            return []
        if self._feature.shape is None:
            return self._lay_out_list(batch, tensors, headers)
        return self._lay_out_together(batch, tensors, [header.bytes for header in headers])

    def _lay_out_list(
        self, batch: LocatedBlock, tensors: _core.TensorBatch, headers: list[_core.TensorHeader]
    ) -> list[Column]:
        dtype = self._feature.dtype
        arrays = [batch.room.take_values(dtype, each.shape, each.bytes) for each in headers]
        places = [
            (array.offsets_at, array.data_at) if isinstance(array, Texts) else (0, array.at)
            for array in arrays
        ]
        batch.keep(self, (tensors, places, None))
        return [ListColumn(self.name, tuple(arrays))]

    def _lay_out_together(
        self, batch: LocatedBlock, tensors: _core.TensorBatch, sizes: list[int]
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
        batch.fill_tensors(tensors, [at for at, _ in places], [at for _, at in places], arena)
        if joined is None:
            return
        # Offsets are of each tensor by itself, its last one overwritten by the next one's first.
        texts, starts = joined
        count = math.prod(texts.shape)
        offsets = view_of(arena, Numbers("int64", (count + 1,), texts.offsets_at))
        if len(starts) and count:
            offsets[:-1].reshape(len(starts), -1)[...] += starts[:, np.newaxis]
        offsets[-1] = texts.data_bytes


_MOST_DIMS = 64  # that PyTorch works with
