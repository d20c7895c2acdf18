"""How each kind of feature becomes a column.

For every feature of a schema there is a maker. It says what the native parser is to do
(:attr:`ColumnMaker.specs`), reserves room once the values of a batch are located
(:meth:`ColumnMaker.lay_out`), and may finish the column after the native parser has filled it.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .decode import BAD_BOOL, BadValueError, check_raw_shape, decode_image, store_image
from .dtypes import DTYPES, MOST_VALUES, item_bytes, numeric_bytes
from .layout import (
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from .partitions import Rows, Stored, offsets_of, part
from .specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    ImageFeature,
    RaggedFeature,
    RawFeature,
    SerializedTensorFeature,
    SparseFeature,
    UniformRowLength,
    VarLenFeature,
)

if TYPE_CHECKING:
    from .parse import LocatedBlock

Arena: TypeAlias = npt.NDArray[np.uint8]
_Ints: TypeAlias = npt.NDArray[np.int64]

# Codes of Shape in _core/example.h.
_FIXED, _RAGGED, _FLAT, _PADDED, _RAW, _RESIZED, _SPAN, _ASIDE = range(8)
_BYTES = DTYPES.index("string")
_INT64 = DTYPES.index("int64")


def maker_of(name: str, feature: Feature, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of a feature; ``in_lists``: of a feature list."""
    maker: ColumnMaker = _MAKERS[type(feature)](name, feature, in_lists=in_lists)
    return maker


class ColumnMaker:
    """Base of makers.

    Attributes:
        name: Of the column.
        specs: What the native parser is told; the first is the one that has the values.
        first: Position of the first one among those of all makers.
        dense: Dtype and shape of a record's value, if that is all there is to know: such columns
            are laid out together, before anything is located.
    """

    dense: tuple[str, tuple[int, ...]] | None = None

    def __init__(self, name: str, specs: list[_core.FeatureSpec]) -> None:
        self.name = name
        self.specs = specs
        self.first = 0

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        """Reserves room; calls ``batch.fail`` for records that cannot be parsed."""
        raise NotImplementedError

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        """Does what is left after the native parser has filled the arena."""


def _native(
    key: str,
    dtype: str,
    shape: int,
    *,
    count: int = 0,
    in_lists: bool = False,
    optional: bool = False,
    narrow_splits: bool = False,
    default: tuple[Any, ...] | None = None,
) -> _core.FeatureSpec:
    """A spec for the native parser."""
    data, sizes = b"", []
    if default is not None:
        is_text = dtype == "string"
        data = b"".join(default) if is_text else numeric_bytes(default, dtype)
        sizes = [len(value) for value in default] if is_text else []
    return _core.FeatureSpec(
        key.encode(),
        in_lists=in_lists,
        element=DTYPES.index(dtype),
        shape=shape,
        count=count,
        optional=optional,
        narrow_splits=narrow_splits,
        default_data=data,
        default_sizes=sizes,
    )


# ---- fixed shapes ----


class _Fixed(ColumnMaker):
    def __init__(self, name: str, feature: FixedLenFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        default = feature.default_value
        native = _native(
            name,
            feature.dtype,
            _FIXED,
            count=feature.count,
            optional=default is not None,
            default=default,
        )
        super().__init__(name, [native])
        self._shape = feature.shape
        if feature.dtype != "string":
            self.dense = feature.dtype, feature.shape

    def lay_out(self, batch: LocatedBlock) -> list[Column]:  # of bytes: the others are `dense`
        texts = batch.room.take_texts((len(batch), *self._shape), batch.sizes(self.first).bytes)
        batch.place(self.first, texts)
        return [BytesColumn(self.name, texts)]


class Padded(ColumnMaker):
    """FixedLenSequenceFeature."""

    def __init__(self, name: str, feature: FixedLenSequenceFeature, *, in_lists: bool) -> None:
        nothing = b"" if feature.dtype == "string" else 0
        native = _native(
            name,
            feature.dtype,
            _PADDED,
            count=feature.count,
            in_lists=in_lists,
            optional=feature.allow_missing,
            default=feature.default_value or (nothing,),
        )
        super().__init__(name, [native])
        self._feature = feature
        fill = (feature.default_value or (nothing,))[0]
        self.padding = Padding(f"{name}\0lengths", fill)

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
        return [lengths, column]


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
        native = _native(
            key,
            feature.dtype,
            _RAGGED,
            in_lists=in_lists,
            narrow_splits=self._splits_dtype == "int32",
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


class _Partitioned(ColumnMaker):
    """RaggedFeature with partitions."""

    def __init__(self, name: str, feature: RaggedFeature, *, in_lists: bool) -> None:
        keys = [p.key for p in feature.partitions if not isinstance(p, UniformRowLength)]
        native = [_native(key, "int64", _ASIDE, in_lists=in_lists) for key in keys]
        value_key = feature.value_key or name
        super().__init__(
            name, [_native(value_key, feature.dtype, _FLAT, in_lists=in_lists), *native]
        )
        self._feature = feature
        self._in_lists = in_lists

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        offsets, record_units = batch.counts(self.first)
        rows = self._part(batch, offsets, record_units)
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

    def _part(self, batch: LocatedBlock, offsets: _Ints, record_units: _Ints) -> Rows | None:
        """Rows of all units; None if some records are not as they should be."""
        partitions: list[tuple[object, Stored | None]] = []
        position = self.first
        good = True
        for partition in self._feature.partitions:
            if isinstance(partition, UniformRowLength):
                partitions.append((partition, None))
                continue
            position += 1
            values, starts, units = batch.integers(position)
            partitions.append((partition, Stored(values, starts)))
            for record in np.flatnonzero(np.diff(units) != np.diff(record_units)).tolist():
                reason = f"its partition {partition.key!r} has not as many steps"
                batch.fail(record, self.first, reason)
                good = False
        if not good or batch.failures:
            return None
        dtype = self._feature.row_splits_dtype
        rows = part(np.diff(offsets), partitions, dtype, validate=self._feature.validate)
        for unit, reason in rows.faults:
            batch.fail(_record_of(unit, record_units), self.first, reason)
        return None if rows.faults else rows


def _record_of(unit: int, record_units: _Ints) -> int:
    return int(np.searchsorted(record_units, unit, "right")) - 1


# ---- sparse ----


class _Sparse(ColumnMaker):
    def __init__(self, name: str, feature: SparseFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        indices = [_native(key, "int64", _ASIDE) for key in feature.index_key]
        super().__init__(name, [_native(feature.value_key, feature.dtype, _FLAT), *indices])
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

    def _check_counts(self, batch: LocatedBlock, key: str, found: _Ints, wanted: _Ints) -> None:
        for record in np.flatnonzero(found != wanted).tolist():
            reason = f"it has {wanted[record]} values, but {key!r} has {found[record]} indices"
            batch.fail(record, self.first, reason)

    def _check_range(
        self, batch: LocatedBlock, key: str, values: _Ints, size: int, records: _Ints
    ) -> None:
        for place in np.flatnonzero((values < 0) | (values >= size)).tolist():
            reason = f"the index {values[place]} in {key!r} lies outside of the size {size}"
            batch.fail(int(records[place]), self.first, reason)

    def _order(self, indices: list[_Ints]) -> _Ints | None:
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


def _reorder_texts(arena: Arena, texts: Texts, order: _Ints) -> None:
    offsets = view_of(arena, Numbers("int64", (len(order) + 1,), texts.offsets_at))
    data = arena[texts.data_at : texts.data_at + texts.data_bytes]
    sizes = np.diff(offsets)[order]
    starts = offsets[:-1][order]
    ends = offsets_of(sizes)
    data[...] = data[np.arange(texts.data_bytes) + np.repeat(starts - ends[:-1], sizes)]
    offsets[...] = ends


# ---- arrays stored as bytes ----


class _Raw(ColumnMaker):
    """RawFeature of a given shape."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        assert feature.shape is not None
        size = math.prod(feature.shape) * item_bytes(feature.dtype)
        code = _RAW if feature.fixed_length is None else _RESIZED
        super().__init__(name, [_native(name, "string", code, count=size)])
        self._feature = feature
        self.dense = feature.dtype, feature.shape

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        assert self._feature.shape is not None
        size = math.prod(self._feature.shape) * item_bytes(self._feature.dtype)
        at = batch.data_at(self.first)
        rows = arena[at : at + len(batch) * size].reshape(len(batch), size)
        _swap(rows, self._feature)
        if self._feature.dtype == "bool":
            # They are copied as they are; a byte other than 0 and 1 is no bool.
            for record in np.flatnonzero((rows > 1).any(axis=1)).tolist():
                batch.fail(record, self.first, BAD_BOOL)


class _RawList(ColumnMaker):
    """RawFeature whose shape stands in another feature."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        assert feature.shape_key is not None
        super().__init__(
            name,
            [_native(name, "string", _SPAN), _native(feature.shape_key, "int64", _ASIDE)],
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


def _make_raw(name: str, feature: RawFeature, *, in_lists: bool) -> ColumnMaker:
    del in_lists  # a Schema has no such feature list
    return _Raw(name, feature) if feature.shape_key is None else _RawList(name, feature)


def _swap(data: Arena, feature: RawFeature) -> None:
    """Turns elements that were stored big-endian; of a complex number each half."""
    size = item_bytes(feature.dtype) // (2 if feature.dtype.startswith("complex") else 1)
    if not feature.little_endian and size > 1:
        data.view(f"u{size}").byteswap(inplace=True)


class _Tensors(ColumnMaker):
    """SerializedTensorFeature."""

    def __init__(self, name: str, feature: SerializedTensorFeature, *, in_lists: bool) -> None:
        del in_lists  # a Schema has no such feature list
        super().__init__(name, [_native(name, "string", _SPAN)])
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


# ---- images ----


class _Image(ColumnMaker):
    """ImageFeature that is resized: decoded straight into its column."""

    def __init__(self, name: str, feature: ImageFeature, shape: tuple[int, ...]) -> None:
        super().__init__(name, [_native(name, "string", _SPAN)])
        self._feature = feature
        self._shape = shape

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        column = batch.room.take_dense(
            (self.name,), self._feature.dtype, (len(batch), *self._shape)
        )
        batch.keep(self, Numbers(column.dtype, column.shape, column.at))
        return [column]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        column = view_of(arena, batch.kept(self))
        for record, value in enumerate(batch.values(self.first)):
            try:
                store_image(decode_image(value, self._feature), self._feature, column[record])
            except BadValueError as error:
                batch.fail(record, self.first, str(error))


class _ImageList(ColumnMaker):
    """ImageFeature of any sizes: decoded before the arena is sized.

    What images turn out to be counts, not what their headers claim.
    """

    def __init__(self, name: str, feature: ImageFeature) -> None:
        super().__init__(name, [_native(name, "string", _SPAN)])
        self._feature = feature

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        images: list[npt.NDArray[np.uint8]] = []
        for record, value in enumerate(batch.values(self.first)):
            try:
                images.append(decode_image(value, self._feature))
            except BadValueError as error:
                batch.fail(record, self.first, str(error))
        arrays = tuple(
            batch.room.take_numbers(self._feature.dtype, self._feature.shape_of(*image.shape[:2]))
            for image in images
        )
        batch.keep(self, list(zip(images, arrays, strict=True)))
        return [ListColumn(self.name, arrays)]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        for image, array in batch.kept(self):
            store_image(image, self._feature, view_of(arena, array))


def _make_image(name: str, feature: ImageFeature, *, in_lists: bool) -> ColumnMaker:
    del in_lists  # a Schema has no such feature list
    if feature.size is None:
        return _ImageList(name, feature)
    return _Image(name, feature, feature.shape_of(*feature.size))


def _make_ragged(name: str, feature: RaggedFeature, *, in_lists: bool) -> ColumnMaker:
    make = _Partitioned if feature.partitions else _Ragged
    return make(name, feature, in_lists=in_lists)


_MAKERS: dict[type[Feature], Any] = {
    FixedLenFeature: _Fixed,
    FixedLenSequenceFeature: Padded,
    ImageFeature: _make_image,
    RaggedFeature: _make_ragged,
    RawFeature: _make_raw,
    SerializedTensorFeature: _Tensors,
    SparseFeature: _Sparse,
    VarLenFeature: _Ragged,
}


# ---- views of an arena ----


def view_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """A numeric array in the arena; bfloat16, which NumPy lacks, as its bits."""
    count = math.prod(numbers.shape)
    dtype = _numpy_dtype(numbers.dtype)
    return np.frombuffer(arena, dtype, count, numbers.at).reshape(numbers.shape)


@functools.cache
def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
