"""How each kind of feature becomes a column.

For every feature of a schema there is a maker. It says what the native parser is to do
(:attr:`ColumnMaker.specs`), reserves room once the values of a batch are located
(:meth:`ColumnMaker.lay_out`), and may finish the column after the native parser has filled it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schema.image_spec import ImageFeature
from ...schema.specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
    keys_of,
)
from ...schema.stored_specs import RawFeature, SequenceFeature, SerializedTensorFeature
from ...schema.valid_range import Limits
from ..layout import (
    BytesColumn,
    Column,
    DenseColumns,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
)
from .base import (
    ASIDE,
    FIXED,
    FLAT,
    PADDED,
    RAGGED,
    Arena,
    ColumnMaker,
    Held,
    Ints,
    native_spec,
    view_of,
)
from .image import make_image
from .parting import Units, part_units
from .partitions import offsets_of
from .raw import make_raw
from .sequence import make_sequence
from .tensor import Tensors

if TYPE_CHECKING:
    from ..parser import LocatedBlock


def maker_of(name: str, feature: Any, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of a feature; ``in_lists``: of a feature list."""
    maker: ColumnMaker = _MAKERS[type(feature)](name, feature, in_lists=in_lists)
    spec = getattr(feature, "element", feature)
    if (valid := getattr(spec, "valid_range", None)) is not None:
        maker.limits = Limits.of(valid, getattr(spec, "column_dtype", spec.dtype))
    return maker


# ---- fixed shapes ----


class _Fixed(ColumnMaker):
    def __init__(self, name: str, feature: FixedLenFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        default = feature.default_value
        native = native_spec(
            name,
            feature.dtype,
            FIXED,
            count=feature.count,
            optional=default is not None,
            default=default,
            bitcast=feature.bitcast,
        )
        super().__init__(name, [native])
        self._shape = feature.shape
        if feature.dtype != "string":
            self.dense = feature.dtype, feature.shape

    def lay_out(self, batch: LocatedBlock) -> list[Column]:  # of bytes: the others are `dense`
        texts = batch.room.take_texts((len(batch), *self._shape), batch.sizes(self.first).bytes)
        batch.place(self.first, texts)
        return [BytesColumn(self.name, texts)]

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        assert self.dense is not None  # as of all specs with a range
        return Held.of_dense(batch, arena, self.first, self.dense)


class Padded(ColumnMaker):
    """FixedLenSequenceFeature."""

    def __init__(self, name: str, feature: FixedLenSequenceFeature, *, in_lists: bool) -> None:
        nothing = b"" if feature.dtype == "string" else 0
        native = native_spec(
            name,
            feature.dtype,
            PADDED,
            count=feature.count,
            in_lists=in_lists,
            optional=feature.allow_missing,
            default=feature.default_value or (nothing,),
        )
        super().__init__(name, [native])
        self._feature = feature
        fill = (feature.default_value or (nothing,))[0]
        self.padding: Padding = Padding(f"{name}\0lengths", fill)

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        sizes = batch.sizes(self.first)
        shape = (len(batch), sizes.longest, *self._feature.shape)
        lengths = batch.room.take_dense((self.padding.lengths,), "int64", (len(batch),))
        column: BytesColumn | DenseColumns
        if self._feature.dtype == "string":
            texts = batch.room.take_texts(shape, sizes.bytes)
            batch.place(self.first, texts, rows=lengths.at)
            column = BytesColumn(self.name, texts)
        else:
            column = batch.room.take_dense((self.name,), self._feature.dtype, shape)
            batch.place(self.first, Numbers(column.dtype, shape, column.at), rows=lengths.at)
        batch.keep(self, Numbers("int64", (len(batch),), lengths.at))
        return [lengths, column]

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        column = batch.placed(self.first)
        assert isinstance(column, Numbers)  # as of all specs with a range
        lengths = view_of(arena, batch.kept(self))
        is_stored = np.arange(column.shape[1]) < lengths[:, np.newaxis]
        values = view_of(arena, column)[is_stored]
        return Held(column.dtype, values, offsets_of(lengths * self._feature.count))


# ---- rows of any length ----


class _Ragged(ColumnMaker):
    """VarLenFeature, and RaggedFeature without partitions: the native parser does it all."""

    def __init__(
        self, name: str, feature: VarLenFeature | RaggedFeature, *, in_lists: bool
    ) -> None:
        key = (feature.value_key if isinstance(feature, RaggedFeature) else None) or name
        self._splits_dtype = "int64"
        if isinstance(feature, RaggedFeature):
            self._splits_dtype = feature.row_splits_dtype
        native = native_spec(
            key,
            feature.dtype,
            RAGGED,
            in_lists=in_lists,
            narrow_splits=self._splits_dtype == "int32",
            bitcast=feature.bitcast,
        )
        super().__init__(name, [native])
        self._dtype = feature.dtype
        self._in_lists = in_lists

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        sizes = batch.sizes(self.first)
        levels = [len(batch), sizes.steps] if self._in_lists else [len(batch)]
        splits = batch.room.take_splits(levels, self._splits_dtype)
        values = batch.room.take_values(self._dtype, (sizes.values,), sizes.bytes)
        batch.place(self.first, values, rows=splits[0].at, steps=splits[-1].at)
        return [RaggedColumn(self.name, splits, values)]

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        return Held.of_rows(batch, arena, self.first)


class _Partitioned(ColumnMaker):
    """RaggedFeature with partitions."""

    def __init__(self, name: str, feature: RaggedFeature, *, in_lists: bool) -> None:
        keys = keys_of(feature.partitions)
        native = [native_spec(key, "int64", ASIDE, in_lists=in_lists) for key in keys]
        values = native_spec(
            feature.value_key or name,
            feature.dtype,
            FLAT,
            in_lists=in_lists,
            bitcast=feature.bitcast,
        )
        super().__init__(name, [values, *native])
        self._feature = feature
        self._in_lists = in_lists

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        offsets, record_units = batch.counts(self.first)
        rows = part_units(
            batch,
            self.first,
            self._feature.partitions,
            Units(offsets, record_units),
            self._feature.row_splits_dtype,
            validate=self._feature.validate,
        )
        if rows is None:
            return []
        levels = [record_units, *rows.splits] if self._in_lists else rows.splits
        dtype = self._feature.row_splits_dtype
        splits = batch.room.take_splits([len(level) - 1 for level in levels], dtype)
        sizes = batch.sizes(self.first)
        shape = (sizes.values // math.prod(rows.inner), *rows.inner)
        values = batch.room.take_values(self._feature.dtype, shape, sizes.bytes)
        batch.place(self.first, values)
        for place, level in zip(splits, levels, strict=True):
            batch.write(place, level)
        return [RaggedColumn(self.name, splits, values)]

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        return Held.of_rows(batch, arena, self.first)


# ---- sparse ----


class _Sparse(ColumnMaker):
    def __init__(self, name: str, feature: SparseFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        indices = [native_spec(key, "int64", ASIDE) for key in feature.index_key]
        super().__init__(name, [native_spec(feature.value_key, feature.dtype, FLAT), *indices])
        self._feature = feature

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        offsets, _ = batch.counts(self.first)
        records = np.repeat(np.arange(len(batch)), np.diff(offsets))
        indices = [records]
        for number, (key, size) in enumerate(
            zip(self._feature.index_key, self._feature.size, strict=True), 1
        ):
            values, starts, _ = batch.integers(self.first + number)
            self._check_counts(batch, key, np.diff(starts), np.diff(offsets))
            if batch.failures:
                return []
            self._check_range(batch, key, values, size, records)
            indices.append(values)
        if batch.failures:
            return []
        order = self._order(indices)
        batch.keep(self, order)
        sizes = batch.sizes(self.first)
        places = batch.room.take_numbers("int64", (sizes.values, len(indices)))
        values_at = batch.room.take_values(self._feature.dtype, (sizes.values,), sizes.bytes)
        batch.place(self.first, values_at)
        together = np.stack(indices, axis=1)
        batch.write(places, together if order is None else together[order])
        shape = (len(batch), *self._feature.size)
        return [SparseColumn(self.name, shape, places, values_at)]

    def _check_counts(self, batch: LocatedBlock, key: str, found: Ints, wanted: Ints) -> None:
        for record in np.flatnonzero(found != wanted).tolist():
            reason = f"it has {wanted[record]} values, but {key!r} has {found[record]} indices"
            batch.fail(record, self.first, reason)

    def _check_range(
        self, batch: LocatedBlock, key: str, values: Ints, size: int, records: Ints
    ) -> None:
        for place in np.flatnonzero((values < 0) | (values >= size)).tolist():
            reason = f"the index {values[place]} in {key!r} lies outside of the size {size}"
            batch.fail(int(records[place]), self.first, reason)

    def _order(self, indices: list[Ints]) -> Ints | None:
        """Where each entry comes from once they are sorted; None if they are already."""
        if self._feature.already_sorted:
            return None
        order = np.lexsort(indices[::-1])  # the last key counts first; equal ones keep their order
        return None if np.array_equal(order, np.arange(len(order))) else order

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        order = batch.kept(self)
        if order is None:
            return
        values = batch.placed(self.first)
        if isinstance(values, Texts):
            _reorder_texts(arena, values, order)
        else:
            view = view_of(arena, values)
            view[...] = view[order]

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        # Sorted or not, the values of each record are where they were.
        return Held.of_rows(batch, arena, self.first)


def _reorder_texts(arena: Arena, texts: Texts, order: Ints) -> None:
    offsets = view_of(arena, Numbers("int64", (len(order) + 1,), texts.offsets_at))
    data = arena[texts.data_at : texts.data_at + texts.data_bytes]
    sizes = np.diff(offsets)[order]
    starts = offsets[:-1][order]
    ends = offsets_of(sizes)
    data[...] = data[np.arange(texts.data_bytes) + np.repeat(starts - ends[:-1], sizes)]
    offsets[...] = ends


def _make_ragged(name: str, feature: RaggedFeature, *, in_lists: bool) -> ColumnMaker:
    make = _Partitioned if feature.partitions else _Ragged
    return make(name, feature, in_lists=in_lists)


_MAKERS: dict[type[Feature], Any] = {
    FixedLenFeature: _Fixed,
    FixedLenSequenceFeature: Padded,
    ImageFeature: make_image,
    RaggedFeature: _make_ragged,
    RawFeature: make_raw,
    SequenceFeature: make_sequence,
    SerializedTensorFeature: Tensors,
    SparseFeature: _Sparse,
    VarLenFeature: _Ragged,
}
