"""Columns of SequenceFeature: any number of images or arrays in each record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._schema.stored_specs import SequenceFeature
from ...checks import counted
from ..arrays import Ints
from ..layout import Column, ListColumn, Numbers, RaggedColumn
from .base import ColumnBuilder, ElementSelection, LocatedBlock
from .decoded import DecodedBuilder, DecodedListBuilder, Elements
from .partitions import RowDivision, Units, partition_units


class _SameShapeBuilder(DecodedBuilder):
    """Builder of elements of one known shape."""

    feature: SequenceFeature

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements, rows = _find(self, block)
        if block.failures:
            return []
        count, shape = len(elements.sizes), self.decoder.known_shape or ()
        dtype = self.decoder.dtype
        if (length := self.feature.length) is not None and _selection(self, block) is None:
            dense = (len(block), length, *shape)
            column = block.layout.reserve_dense((self.name,), dtype, dense)
            block.save(self, (elements, Numbers(dtype, (count, *shape), column.at)))
            return [column]
        splits = block.reserve_splits(rows.splits, self.feature.row_splits_dtype)
        divided = (count // math.prod(rows.inner), *rows.inner, *shape)
        values = block.layout.reserve_numbers(dtype, divided)
        block.save(self, (elements, values._replace(shape=(count, *shape))))
        return [RaggedColumn(self.name, splits, values)]


class _AnyShapeBuilder(DecodedListBuilder):
    """Builder of elements of different shapes; those of one record have one shape."""

    feature: SequenceFeature

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements, rows = _find(self, block)
        if block.failures:
            return []
        decoded = self.decoder.decode_all(block, self.first_spec, elements)
        if block.failures:
            return []
        shapes = self._shapes(block, elements, decoded)
        if block.failures:
            return []
        counts = np.diff(elements.starts).tolist()
        arrays = [
            block.layout.reserve_numbers(self.decoder.dtype, (count, *shape))
            for count, shape in zip(counts, shapes, strict=True)
        ]
        block.save(self, (elements, decoded, arrays))
        divided = [self._divided(block, rows, *each) for each in enumerate(arrays)]
        return [ListColumn(self.name, tuple(divided))]

    def _shapes(
        self, block: LocatedBlock, elements: Elements, decoded: list[Any]
    ) -> list[tuple[int, ...]]:
        """Return the shape of each record's elements; fail records whose elements differ in it."""
        shapes: list[tuple[int, ...]] = []
        for record, (begin, end) in enumerate(
            zip(elements.starts[:-1].tolist(), elements.starts[1:].tolist(), strict=True)
        ):
            found = [item.shape for item in decoded[begin:end]] or [self.decoder.empty_shape]
            for number, shape in enumerate(found):
                if shape != found[0]:
                    reason = (
                        f"its elements are of different shapes: {list(found[0])}, but "
                        f"{list(shape)} of element {number}"
                    )
                    block.fail(record, self.first_spec, reason)
                    break
            shapes.append(found[0])
        return shapes

    def _divided(
        self, block: LocatedBlock, rows: RowDivision, record: int, array: Numbers
    ) -> Numbers | RaggedColumn:
        """Return the array of a record, divided into rows as its partitions say."""
        if not self.feature.partitions:
            return array
        count, *shape = array.shape
        values = array._replace(shape=(count // math.prod(rows.inner), *rows.inner, *shape))
        outermost, *others = rows.splits
        begin, end = outermost[record : record + 2].tolist()
        levels: list[Ints] = []
        for level in others:
            levels.append(level[begin : end + 1] - level[begin])
            begin, end = int(level[begin]), int(level[end])
        if not levels:
            return values
        splits = block.reserve_splits(levels, self.feature.row_splits_dtype)
        return RaggedColumn(self.name, splits, values)


def _selection(builder: ColumnBuilder, block: LocatedBlock) -> ElementSelection | None:
    """Return the elements to decode; None for all."""
    selection = block.selection
    return selection if selection is not None and builder.name in selection.names else None


def _find(builder: ColumnBuilder, block: LocatedBlock) -> tuple[Elements, RowDivision]:
    """Return the elements and their rows; not valid if the block has failures afterwards."""
    feature, spec = builder.feature, builder.first_spec
    elements = Elements.of(block, spec, in_lists=builder.in_lists)
    if feature.length is not None:
        counts = np.diff(elements.stored)
        for record in np.flatnonzero(counts != feature.length).tolist():
            found = counted(int(counts[record]), "element")
            reason = f"it has {found}, the schema wants {feature.length}"
            block.fail(record, spec, reason)
    if not feature.partitions:
        if (selection := _selection(builder, block)) is not None:
            elements = elements.selected(block, spec, selection)
        return elements, RowDivision([elements.starts], (), [])
    rows = partition_units(
        block,
        spec,
        feature.partitions,
        Units(elements.starts, np.arange(len(block) + 1)),
        feature.row_splits_dtype,
        # The keys of partitions follow those of the elements.
        first_key=spec + len(feature.element.stored_keys(builder.name)),
    )
    return elements, rows or RowDivision([elements.starts], (), [])


def build_sequence(name: str, feature: SequenceFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of a SequenceFeature."""
    same_shape = feature.element.known_shape is not None
    kind = _SameShapeBuilder if same_shape else _AnyShapeBuilder
    builder = kind(name, feature, in_lists=in_lists)
    builder.takes_selection = not feature.partitions
    return builder
