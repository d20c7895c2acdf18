"""Arrays that are stored as bytes: RawFeature, and elements of sequences that are such arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...images.bad_value import BadValueError
from ...images.inflate import inflate
from ...schema.dtypes import MOST_VALUES, item_bytes
from ...schema.stored_specs import RawFeature
from ..layout import Column, ListColumn, Numbers
from .base import (
    ASIDE,
    RAW,
    RESIZED,
    SPAN,
    Arena,
    ColumnMaker,
    Held,
    flat_view_of,
    native_spec,
    view_of,
)
from .byte_values import Elements
from .partitions import offsets_of

if TYPE_CHECKING:
    from ..parser import LocatedBlock


BAD_BOOL = "a byte of a bool array is neither 0 nor 1"


class RawArray(NamedTuple):
    """An array that is still as it was stored, but for its compression."""

    shape: tuple[int, ...]
    content: bytes | memoryview


class RawValues:
    """Makes arrays of bytes values, as a RawFeature says.

    Attributes:
        dtype: Of the column.
        known_shape: Of every array, if it is known.
        empty_shape: Of an array that is not there: zeros for unknown sizes. Without even their
            number it has no dimensions.
        shape_key: The stored feature that has the shapes.
    """

    def __init__(self, feature: RawFeature) -> None:
        self.dtype = feature.column_dtype
        self.known_shape = feature.known_shape
        self.empty_shape = tuple(size or 0 for size in feature.shape or ())
        self.shape_key = feature.shape_key
        self._feature = feature
        self._item_bytes = item_bytes(feature.dtype)
        self._steps = None if feature.dequantize is None else _steps_of(*feature.dequantize)

    # ---- arrays of one known shape ----

    def fill(
        self, batch: LocatedBlock, position: int, elements: Elements, out: npt.NDArray[Any]
    ) -> None:
        """Writes arrays of the known shape into ``[n, *shape]``; fails records with others."""
        assert self.known_shape is not None
        size = self._bytes_of(self.known_shape)
        rows = out.reshape(len(out), math.prod(self.known_shape))
        is_there = self._steps is None and size > 0
        stored = rows.view(np.uint8) if is_there else np.empty((len(out), size), np.uint8)
        if self._feature.compression is None:
            for number in np.flatnonzero(elements.sizes != size).tolist():
                reason = self._misfit(int(elements.sizes[number]), self.known_shape)
                batch.fail(int(elements.records[number]), position, reason)
            if batch.failures:
                return
            batch.records.copy_parts(elements.records, elements.offsets, size, stored.reshape(-1))
        else:
            self._inflate_rows(batch, position, elements, stored)
        self._finish(stored, rows)
        for number in self.bad_bools(stored):
            batch.fail(int(elements.records[number]), position, BAD_BOOL)

    def _inflate_rows(
        self,
        batch: LocatedBlock,
        position: int,
        elements: Elements,
        rows: npt.NDArray[np.uint8],
    ) -> None:
        values = elements.values(batch)

        def work(number: int) -> None:
            content = self.array_of(values[number], None).content
            rows[number] = np.frombuffer(content, np.uint8)

        elements.each(batch, position, work)

    def bad_bools(self, rows: npt.NDArray[np.uint8]) -> list[int]:
        """Which rows have a byte that is no bool, if they should have none."""
        if self._feature.dtype != "bool":
            return []
        found: list[int] = np.flatnonzero((rows > 1).any(axis=1)).tolist()
        return found

    def _finish(self, stored: npt.NDArray[np.uint8], rows: npt.NDArray[Any]) -> None:
        """Makes numbers of bytes; those that stay as they are stand in the column already."""
        if self._steps is not None:
            np.take(self._steps, stored, out=rows, mode="clip")  # no byte is out of range
        else:
            swap(stored, self._feature)

    # ---- arrays of any shape ----

    def array_of(self, value: memoryview, sizes: Sequence[int] | None) -> RawArray:
        """One array; ``sizes``: its shape, as it is stored, where there is a ``shape_key``.

        Raises:
            BadValueError: it is of another shape or size, or damaged.
        """
        shape = self.known_shape
        if sizes is not None:
            shape = self._checked(sizes)
        feature = self._feature
        if feature.compression is not None:
            most, bound = feature.max_bytes, f"max_bytes={feature.max_bytes}"
            if shape is not None:
                size = self._bytes_of(shape)
                if sizes is not None and size > most:
                    raise BadValueError(f"its shape {list(shape)} has {size} bytes, over {bound}")
                most, bound = size, f"as many as its shape {list(shape)} of {feature.dtype} needs"
            value = memoryview(inflate(value, most, bound))
        if shape is None:
            shape = self._found(len(value))
        if self._bytes_of(shape) != len(value):
            raise BadValueError(self._misfit(len(value), shape))
        return RawArray(shape, value)

    def store(self, array: RawArray, out: npt.NDArray[Any]) -> None:
        """Writes an array to its place, of one dimension: arrays may have more than NumPy's.

        Raises:
            BadValueError: a byte of a bool array is none.
        """
        stored = np.frombuffer(array.content, np.uint8)
        if self._steps is not None:
            np.take(self._steps, stored, out=out, mode="clip")
            return
        data = out.view(np.uint8)
        data[...] = stored
        swap(data, self._feature)
        if self._feature.dtype == "bool" and data.size and data.max() > 1:
            raise BadValueError(BAD_BOOL)

    def _checked(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """A stored shape, checked."""
        most = 1  # strides are products of sizes, also where one of the others is 0
        for extent in sizes:
            if extent < 0:
                raise BadValueError(f"its shape {list(sizes)} has a negative size")
            most *= max(1, extent)
            if most >= MOST_VALUES:
                raise BadValueError(f"its shape {list(sizes)} is larger than any memory")
        wanted = self._feature.shape
        if wanted is not None and (
            len(wanted) != len(sizes)
            or any(size not in (None, found) for size, found in zip(wanted, sizes, strict=True))
        ):
            raise BadValueError(f"its shape is {list(sizes)}, not {list(wanted)}")
        return tuple(sizes)

    def _found(self, size: int) -> tuple[int, ...]:
        """The shape of so many bytes, of which one size is not known."""
        shape = self._feature.shape
        assert shape is not None
        step = self._bytes_of([extent for extent in shape if extent is not None])
        if size % step:
            raise BadValueError(
                f"it has {size} bytes, its shape {list(shape)} of {self._feature.dtype} needs a "
                f"multiple of {step}"
            )
        return tuple(size // step if extent is None else extent for extent in shape)

    def _bytes_of(self, shape: Sequence[int]) -> int:
        return math.prod(shape) * self._item_bytes

    def _misfit(self, size: int, shape: Sequence[int]) -> str:
        return (
            f"it has {size} bytes, its shape {list(shape)} of {self._feature.dtype} needs "
            f"{self._bytes_of(shape)}"
        )

    # ---- what list columns ask for ----

    def open(self, batch: LocatedBlock, position: int, elements: Elements) -> list[RawArray]:
        """The arrays of elements, of any shape; of no use if the batch has failures then."""
        shapes = self._stored_shapes(batch, position, elements)
        values = elements.values(batch)
        arrays: list[Any] = [None] * len(values)
        if batch.failures:
            return arrays

        def work(number: int) -> None:
            arrays[number] = self.array_of(values[number], shapes[number])

        if self._feature.compression is not None:
            elements.each(batch, position, work)
            return arrays
        for number in range(len(values)):  # so little that it is not worth handing on
            try:
                work(number)
            except BadValueError as error:
                batch.fail(int(elements.records[number]), position, str(error))
        return arrays

    def _stored_shapes(
        self, batch: LocatedBlock, position: int, elements: Elements
    ) -> list[list[int] | None]:
        """The stored shape of each element; None without a ``shape_key``."""
        if self.shape_key is None:
            return [None] * len(elements.sizes)
        sizes, offsets, rows = batch.integers(position + 1)
        begins = offsets[rows]
        stored = np.diff(elements.stored)
        ranks = np.diff(begins) // np.maximum(stored, 1)
        for record in np.flatnonzero(ranks * stored != np.diff(begins)).tolist():
            reason = (
                f"{self.shape_key!r} holds {begins[record + 1] - begins[record]} values, which are "
                f"no shapes of {stored[record]} arrays"
            )
            batch.fail(record, position, reason)
        each = ranks[elements.records]
        firsts = begins[elements.records]
        firsts += (elements.numbers - elements.stored[elements.records]) * each
        pairs = zip(firsts.tolist(), each.tolist(), strict=True)
        numbers = sizes.tolist()
        return [numbers[first : first + rank] for first, rank in pairs]


def swap(data: npt.NDArray[np.uint8], feature: RawFeature) -> None:
    """Turns elements that were stored big-endian; of a complex number each half."""
    size = item_bytes(feature.dtype) // (2 if feature.dtype.startswith("complex") else 1)
    if not feature.little_endian and size > 1 and data.size:
        data.view(f"u{size}").byteswap(inplace=True)


def _steps_of(low: float, high: float) -> npt.NDArray[np.float32]:
    """The number that each byte stands for, computed as TensorFlow does: in float32."""
    scale = np.float32((high - low) / 255.0)
    bias = np.float32((high - low) / 512.0 + low)
    return np.arange(256, dtype=np.float32) * scale + bias


# ---- makers ----


class _Stored(ColumnMaker):
    """RawFeature of a known shape, whose bytes are copied as they are by the native parser."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        shape = feature.known_shape
        assert shape is not None
        size = math.prod(shape) * item_bytes(feature.dtype)
        code = RAW if feature.fixed_length is None else RESIZED
        super().__init__(name, [native_spec(feature.value_key or name, "string", code, count=size)])
        self._feature = feature
        self._values = RawValues(feature)
        self.dense = feature.dtype, shape

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        if not len(batch):
            return  # no array, even of no rows, is as large as a row may be
        assert self.dense is not None
        size = math.prod(self.dense[1]) * item_bytes(self._feature.dtype)
        at = batch.data_at(self.first)
        rows = arena[at : at + len(batch) * size].reshape(len(batch), size)
        swap(rows, self._feature)
        # They are copied as they are; a byte other than 0 and 1 is no bool.
        for record in self._values.bad_bools(rows):
            batch.fail(record, self.first, BAD_BOOL)

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        assert self.dense is not None
        return Held.of_dense(batch, arena, self.first, self.dense)


class _Made(ColumnMaker):
    """RawFeature of a known shape, whose bytes have to be made of those that are stored."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        super().__init__(name, [native_spec(feature.value_key or name, "string", SPAN)])
        self._values = RawValues(feature)

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        assert self._values.known_shape is not None
        shape = (len(batch), *self._values.known_shape)
        column = batch.room.take_dense((self.name,), self._values.dtype, shape)
        batch.keep(self, Numbers(column.dtype, column.shape, column.at))
        return [column]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        if not len(batch):
            return  # no array, even of no rows, is as large as a row may be
        elements = Elements.of(batch, self.first)
        self._values.fill(batch, self.first, elements, view_of(arena, batch.kept(self)))

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        assert self._values.known_shape is not None
        column = view_of(arena, batch.kept(self))
        starts = np.arange(len(batch)) * math.prod(self._values.known_shape)
        return Held(self._values.dtype, column, starts)


class _Listed(ColumnMaker):
    """RawFeature whose shape the records tell."""

    def __init__(self, name: str, feature: RawFeature) -> None:
        specs = [native_spec(feature.value_key or name, "string", SPAN)]
        if feature.shape_key is not None:
            specs.append(native_spec(feature.shape_key, "int64", ASIDE))
        super().__init__(name, specs)
        self._values = RawValues(feature)

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        arrays = self._values.open(batch, self.first, Elements.of(batch, self.first))
        if batch.failures:
            return []
        places = [batch.room.take_numbers(self._values.dtype, array.shape) for array in arrays]
        batch.keep(self, (arrays, places))
        return [ListColumn(self.name, tuple(places))]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        for record, (array, place) in enumerate(zip(*batch.kept(self), strict=True)):
            try:
                self._values.store(array, flat_view_of(arena, place))
            except BadValueError as error:
                batch.fail(record, self.first, str(error))

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        _, places = batch.kept(self)
        return held_of_list(arena, self._values.dtype, places)


def held_of_list(arena: Arena, dtype: str, places: Sequence[Numbers]) -> Held:
    """The values of one array a record."""
    nothing = view_of(arena, Numbers(dtype, (0,), 0))
    parts = [flat_view_of(arena, place) for place in places]
    starts = offsets_of(np.array([part.size for part in parts], np.int64))
    return Held(dtype, np.concatenate([nothing, *parts]), starts)


def make_raw(name: str, feature: RawFeature, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of a RawFeature."""
    del in_lists  # a Schema has no such feature list
    if feature.known_shape is None:
        return _Listed(name, feature)
    return _Stored(name, feature) if feature.is_stored_as_it_is else _Made(name, feature)
