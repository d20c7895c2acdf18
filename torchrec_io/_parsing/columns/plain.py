"""Columns of numbers and bytes as they are stored: fixed, padded, ragged and sparse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import _core
from ..._schema.specs import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature
from ..._schema.stored_keys import StoredKey
from ...checks import counted
from ..arrays import Arena, Ints, offsets_of, view_of
from ..layout import (
    Column,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Values,
)
from .base import ColumnBuilder, LocatedBlock
from .partitions import divide_rows


class FixedBuilder(ColumnBuilder):
    """Builder of the column of a FixedLenFeature."""

    feature: FixedLenFeature

    def __init__(self, name: str, feature: FixedLenFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        self.has_layout = feature.dtype == "string"
        if not self.has_layout:
            self.dense = feature.dtype, feature.shape

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return self.native_spec(
            stored,
            _core.ColumnType.fixed,
            self.feature.dtype,
            count=self.feature.count,
            default=self.feature.default_value,
            bitcast=self.feature.bitcast,
        )

    def lay_out(self, block: LocatedBlock) -> list[Column]:  # of bytes; others are `dense`
        shape = (len(block), *self.feature.shape)
        size = block.located.size(self.first_spec).bytes
        column, texts = block.layout.reserve_column(self.name, "string", shape, size)
        block.set_target(self.first_spec, texts)
        return [column]


class PaddedBuilder(ColumnBuilder):
    """Builder of the column of a FixedLenSequenceFeature."""

    feature: FixedLenSequenceFeature

    def __init__(
        self, name: str, feature: FixedLenSequenceFeature, *, in_lists: bool = False
    ) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        self.padding: Padding = Padding(f"{name}\0lengths", self._fill()[0])

    def _fill(self) -> tuple[Any, ...]:
        return self.feature.default_value or (b"" if self.feature.dtype == "string" else 0,)

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return self.native_spec(
            stored,
            _core.ColumnType.padded,
            self.feature.dtype,
            count=self.feature.count,
            default=self._fill(),
        )

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        sizes = block.located.size(self.first_spec)
        shape = (len(block), sizes.longest, *self.feature.shape)
        lengths = block.layout.reserve_dense((self.padding.lengths,), "int64", (len(block),))
        dtype = self.feature.dtype
        column, values = block.layout.reserve_column(self.name, dtype, shape, sizes.bytes)
        block.set_target(self.first_spec, values, rows=lengths.at)
        return [lengths, column]


# ---- rows of any length ----


class RaggedBuilder(ColumnBuilder):
    """Builder of the column of a VarLenFeature, or of a RaggedFeature without partitions."""

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        dtype, bitcast = self.feature.dtype, self.feature.bitcast
        return self.native_spec(stored, _core.ColumnType.ragged, dtype, bitcast=bitcast)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        sizes = block.located.size(self.first_spec)
        levels = [len(block), sizes.steps] if self.in_lists else [len(block)]
        splits_dtype = getattr(self.feature, "row_splits_dtype", "int64")
        splits = tuple(block.layout.reserve_numbers(splits_dtype, (n + 1,)) for n in levels)
        values = block.layout.reserve_values(self.feature.dtype, (sizes.values,), sizes.bytes)
        block.set_target(self.first_spec, values, rows=splits[0].at, steps=splits[-1].at)
        return [RaggedColumn(self.name, splits, values)]


class PartitionedBuilder(ColumnBuilder):
    """Builder of the column of a RaggedFeature with partitions."""

    feature: RaggedFeature

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        dtype, bitcast = self.feature.dtype, self.feature.bitcast
        return self.native_spec(stored, _core.ColumnType.flat, dtype, bitcast=bitcast)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        rows = divide_rows(block, self, validate=self.feature.validate)
        if rows is None:
            return []
        sizes = block.located.size(self.first_spec)
        splits = block.reserve_splits(rows.splits, self.feature.row_splits_dtype)
        shape = (sizes.values // math.prod(rows.inner), *rows.inner)
        values = block.layout.reserve_values(self.feature.dtype, shape, sizes.bytes)
        block.set_target(self.first_spec, values)
        return [RaggedColumn(self.name, splits, values)]


def build_ragged(name: str, feature: RaggedFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of a RaggedFeature."""
    builder = PartitionedBuilder if feature.partitions else RaggedBuilder
    return builder(name, feature, in_lists=in_lists)


# ---- sparse ----


class SparseBuilder(ColumnBuilder):
    """Builder of the column of a SparseFeature. Sorting keeps each record's values together."""

    feature: SparseFeature

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return self.native_spec(stored, _core.ColumnType.flat, self.feature.dtype)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        offsets = block.located.units(self.first_spec).values
        records = np.repeat(np.arange(len(block)), np.diff(offsets))
        indices = [records]
        for number, (key, size) in enumerate(
            zip(self.feature.index_key, self.feature.size, strict=True), 1
        ):
            values, starts, _ = block.integers(self.first_spec + number)
            self._check_counts(block, key, np.diff(starts), np.diff(offsets))
            if block.failures:
                return []
            self._check_indices(block, key, values, size, records)
            indices.append(values)
        if block.failures:
            return []
        order = self._order(indices)
        sizes = block.located.size(self.first_spec)
        indices_at = block.layout.reserve_numbers("int64", (sizes.values, len(indices)))
        values_at = block.layout.reserve_values(self.feature.dtype, (sizes.values,), sizes.bytes)
        block.set_target(self.first_spec, values_at)
        together = np.stack(indices, axis=1)
        block.write_later(indices_at, together if order is None else together[order])
        if order is not None:
            block.finishers.append(lambda _, arena: _reorder(arena, values_at, order))
        shape = (len(block), *self.feature.size)
        return [SparseColumn(self.name, shape, indices_at, values_at)]

    def _check_counts(self, block: LocatedBlock, key: str, found: Ints, wanted: Ints) -> None:
        for record in np.flatnonzero(found != wanted).tolist():
            values = counted(int(wanted[record]), "value")
            reason = f"it has {values}, but the number of indices in {key!r} is {found[record]}"
            block.fail(record, self.first_spec, reason)

    def _check_indices(
        self, block: LocatedBlock, key: str, values: Ints, size: int, records: Ints
    ) -> None:
        for position in np.flatnonzero((values < 0) | (values >= size)).tolist():
            reason = f"the index {values[position]} in {key!r} is outside of the size {size}"
            block.fail(int(records[position]), self.first_spec, reason)

    def _order(self, indices: list[Ints]) -> Ints | None:
        """Return the order that sorts the entries by their indices; None if they are sorted."""
        if self.feature.already_sorted:
            return None
        order = np.lexsort(indices[::-1])  # stable; the last key is the most significant
        return None if np.array_equal(order, np.arange(len(order))) else order


def _reorder(arena: Arena, values: Values, order: Ints) -> None:
    if isinstance(values, Numbers):
        view = view_of(arena, values)
        view[...] = view[order]
        return
    offsets = view_of(arena, Numbers("int64", (len(order) + 1,), values.offsets_at))
    data = arena[values.data_at : values.data_at + values.data_bytes]
    sizes = np.diff(offsets)[order]
    starts = offsets[:-1][order]
    ends = offsets_of(sizes)
    data[...] = data[np.arange(values.data_bytes) + np.repeat(starts - ends[:-1], sizes)]
    offsets[...] = ends
