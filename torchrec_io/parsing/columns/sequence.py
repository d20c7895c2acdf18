"""Columns of SequenceFeature: any number of images or arrays in each record."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schema.image_spec import ImageFeature
from ...schema.specs import keys_of
from ...schema.stored_specs import SequenceFeature
from ..layout import Column, ListColumn, Numbers, RaggedColumn
from .base import ASIDE, Arena, ColumnMaker, Held, Ints, flat_view_of, native_spec, view_of
from .byte_values import Elements
from .image import ImageValues
from .parting import Units, part_units
from .partitions import Rows
from .raw import RawValues, held_of_list

if TYPE_CHECKING:
    from ..parser import LocatedBlock, Picks


class _Sequence(ColumnMaker):
    """What both makers share: finding the elements, and parting them."""

    def __init__(self, name: str, feature: SequenceFeature, *, in_lists: bool) -> None:
        element = feature.element
        self._values: Any = (
            ImageValues(name, element) if isinstance(element, ImageFeature) else RawValues(element)
        )
        keys = [] if self._values.shape_key is None else [self._values.shape_key]
        super().__init__(
            name,
            [
                native_spec(feature.value_key or name, "string", ASIDE, in_lists=in_lists),
                *(
                    native_spec(key, "int64", ASIDE, in_lists=in_lists)
                    for key in (*keys, *keys_of(feature.partitions))
                ),
            ],
        )
        self._feature = feature
        self._in_lists = in_lists
        self._partitions_at = 1 + len(keys)  # behind `first`

    def _picks(self, batch: LocatedBlock) -> Picks | None:
        """Which elements are decoded; None: all."""
        return batch.picks if batch.picks is not None and self.name in batch.picks.names else None

    def _found(self, batch: LocatedBlock) -> tuple[Elements, Rows]:
        """The elements, and the rows they are in; of no use if the batch has failures then."""
        elements = Elements.of(batch, self.first, in_lists=self._in_lists)
        length = self._feature.length
        if length is not None:
            counts = np.diff(elements.stored)
            for record in np.flatnonzero(counts != length).tolist():
                reason = f"it has {counts[record]} elements, the schema wants {length}"
                batch.fail(record, self.first, reason)
        if not self._feature.partitions:
            if (picks := self._picks(batch)) is not None:
                elements = elements.picked(batch, self.first, picks)
            return elements, Rows([elements.starts], (), [])
        rows = part_units(
            batch,
            self.first,
            self._feature.partitions,
            Units(elements.starts, np.arange(len(batch) + 1)),
            self._feature.row_splits_dtype,
            keys_at=self.first + self._partitions_at,
        )
        return elements, rows or Rows([elements.starts], (), [])


class _Alike(_Sequence):
    """Elements of one known shape: decoded straight into one column."""

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        elements, rows = self._found(batch)
        if batch.failures:
            return []
        count, shape = len(elements.sizes), self._values.known_shape
        dtype = self._values.dtype
        if (length := self._feature.length) is not None and self._picks(batch) is None:
            column = batch.room.take_dense((self.name,), dtype, (len(batch), length, *shape))
            batch.keep(self, (elements, Numbers(dtype, (count, *shape), column.at)))
            return [column]
        splits = batch.room.take_splits(
            [len(level) - 1 for level in rows.splits], self._feature.row_splits_dtype
        )
        for place, level in zip(splits, rows.splits, strict=True):
            batch.write(place, level)
        parted = (count // math.prod(rows.inner), *rows.inner, *shape)
        values = batch.room.take_numbers(dtype, parted)
        batch.keep(self, (elements, values._replace(shape=(count, *shape))))
        return [RaggedColumn(self.name, splits, values)]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        elements, place = batch.kept(self)
        if len(elements.sizes):  # of none, NumPy may refuse the shape
            self._values.fill(batch, self.first, elements, view_of(arena, place))

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        elements, place = batch.kept(self)
        starts = elements.starts * math.prod(self._values.known_shape)
        return Held(self._values.dtype, flat_view_of(arena, place), starts)


class _Unlike(_Sequence):
    """Elements of shapes that only they tell: decoded before the arena is sized."""

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        elements, rows = self._found(batch)
        if batch.failures:
            return []
        opened = self._values.open(batch, self.first, elements)
        if batch.failures:
            return []
        shapes = self._shapes(batch, elements, opened)
        if batch.failures:
            return []
        counts = np.diff(elements.starts).tolist()
        places = [
            batch.room.take_numbers(self._values.dtype, (count, *shape))
            for count, shape in zip(counts, shapes, strict=True)
        ]
        batch.keep(self, (elements, opened, places))
        arrays = [self._rows_of(batch, rows, *each) for each in enumerate(places)]
        return [ListColumn(self.name, tuple(arrays))]

    def _shapes(
        self, batch: LocatedBlock, elements: Elements, opened: list[Any]
    ) -> list[tuple[int, ...]]:
        """The shape of each record's elements; fails records whose elements differ in it."""
        shapes: list[tuple[int, ...]] = []
        for record, (begin, end) in enumerate(
            zip(elements.starts[:-1].tolist(), elements.starts[1:].tolist(), strict=True)
        ):
            found = [item.shape for item in opened[begin:end]] or [self._values.empty_shape]
            for number, shape in enumerate(found):
                if shape != found[0]:
                    reason = (
                        f"its elements are of different shapes: {list(found[0])}, but "
                        f"{list(shape)} of element {number}"
                    )
                    batch.fail(record, self.first, reason)
                    break
            shapes.append(found[0])
        return shapes

    def _rows_of(
        self, batch: LocatedBlock, rows: Rows, record: int, place: Numbers
    ) -> Numbers | RaggedColumn:
        """The array of a record, parted as its partitions say."""
        if not self._feature.partitions:
            return place
        count, *shape = place.shape
        values = place._replace(shape=(count // math.prod(rows.inner), *rows.inner, *shape))
        outermost, *others = rows.splits
        begin, end = outermost[record : record + 2].tolist()
        levels: list[Ints] = []
        for level in others:
            levels.append(level[begin : end + 1] - level[begin])
            begin, end = int(level[begin]), int(level[end])
        if not levels:
            return values
        dtype = self._feature.row_splits_dtype
        splits = batch.room.take_splits([len(level) - 1 for level in levels], dtype)
        for at, level in zip(splits, levels, strict=True):
            batch.write(at, level)
        return RaggedColumn(self.name, splits, values)

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        elements, opened, places = batch.kept(self)
        flat = [flat_view_of(arena, place) for place in places]

        def store(number: int) -> None:
            record = int(elements.records[number])
            step = math.prod(opened[number].shape)
            at = (number - int(elements.starts[record])) * step
            self._values.store(opened[number], flat[record][at : at + step])

        elements.each(batch, self.first, store)

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        _, _, places = batch.kept(self)
        return held_of_list(arena, self._values.dtype, places)


def make_sequence(name: str, feature: SequenceFeature, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of a SequenceFeature."""
    make = _Unlike if feature.element_shape is None else _Alike
    return make(name, feature, in_lists=in_lists)
