"""Columns of bytes values that Python decodes: one in each record, or any number of them."""

from __future__ import annotations

import itertools
import math
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._schema.dtypes import item_bytes
from ..._schema.feature import Feature
from ..._schema.stored_keys import StoredKey
from ..._schema.stored_specs import SequenceFeature
from ...checks import counted
from ..arrays import Ints
from ..layout import Column, ListColumn, Numbers, RaggedColumn
from .base import ColumnBuilder, LocatedBlock
from .elements import ElementDecoder, Elements
from .partitions import RowDivision, divide_rows


class DecodedBuilder(ColumnBuilder):
    """Builder of a column of decoded values of one known shape, which go straight into it.

    A record has one value, or any number of elements if the feature is a SequenceFeature.

    Attributes:
        decoder: Decoder of the values.
        sequence: The feature, if it is a SequenceFeature.
    """

    def __init__(self, name: str, feature: Any, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        self.sequence = feature if isinstance(feature, SequenceFeature) else None
        element = feature if self.sequence is None else self.sequence.element
        self.decoder: ElementDecoder = pkgutil.resolve_name(element.element_decoder)(name, element)

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        if stored.kind != "dense":
            return super().value_spec(stored)
        return self.native_spec(stored, _core.ColumnType.span)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements, rows = self.find_elements(block)
        if block.failures:
            return []
        dtype, shape = self.decoder.dtype, self.decoder.known_shape or ()
        stored = (len(elements.sizes), *shape)
        if rows is None:
            length = () if self.sequence is None else (self.sequence.length or 0,)
            dense = (len(block), *length, *shape)
            column = block.layout.reserve_dense((self.name,), dtype, dense)
            self._fill_later(block, elements, Numbers(dtype, stored, column.at))
            return [column]
        splits = block.reserve_splits(rows.splits, self.feature.row_splits_dtype)
        values = block.layout.reserve_numbers(dtype, _divided(stored, rows))
        self._fill_later(block, elements, values._replace(shape=stored))
        return [RaggedColumn(self.name, splits, values)]

    def _fill_later(self, block: LocatedBlock, elements: Elements, numbers: Numbers) -> None:
        if len(elements.sizes):  # NumPy may refuse the shape of no elements
            self.decoder.fill_later(block, self.first_spec, elements, numbers)

    def find_elements(self, block: LocatedBlock) -> tuple[Elements, RowDivision | None]:
        """Return the values to decode, and their rows; not valid if the block has failures then.

        The rows are None if each record has the same number of values: one, or the ``length`` of
        the sequence.
        """
        spec, sequence = self.first_spec, self.sequence
        elements = Elements.of(block, spec, in_lists=self.in_lists)
        if sequence is None:
            return elements, None
        if sequence.length is not None:
            counts = np.diff(elements.stored)
            for record in np.flatnonzero(counts != sequence.length).tolist():
                found = counted(int(counts[record]), "element")
                block.fail(record, spec, f"it has {found}, the schema wants {sequence.length}")
        if sequence.partitions:
            # The keys of partitions follow those of the elements.
            first_key = len(sequence.element.stored_keys(self.name))
            return elements, divide_rows(block, self, first_key)
        selection = block.selections.get(self.name)
        if selection is not None:
            elements = elements.selected(block, spec, selection)
        elif sequence.length is not None:
            return elements, None
        return elements, RowDivision([elements.starts])


class DecodedListBuilder(DecodedBuilder):
    """Builder of a column of one array for each record, each of its own shape.

    The shapes are found before the arena is laid out. The elements of a record's sequence have one
    shape.
    """

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements, rows = self.find_elements(block)
        if block.failures:
            return []
        found, store_later = self.decoder.plan_each(block, self.first_spec, elements)
        if block.failures:
            return []
        shapes = self._shapes(block, elements, found)
        if block.failures:
            return []
        arrays = [block.layout.reserve_numbers(self.decoder.dtype, shape) for shape in shapes]
        if found:
            firsts = np.array([each.at for each in arrays])[elements.records]
            sizes = [math.prod(shape) * item_bytes(self.decoder.dtype) for shape in found]
            places = np.arange(len(found)) - elements.starts[elements.records]
            store_later(firsts + places * np.array(sizes))
        if rows is None:
            return [ListColumn(self.name, tuple(arrays))]
        divided = [self._divide(block, rows, *each) for each in enumerate(arrays)]
        return [ListColumn(self.name, tuple(divided))]

    def _shapes(
        self, block: LocatedBlock, elements: Elements, found: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """Return the shape of each record's array; fail records whose elements differ in shape."""
        if self.sequence is None:
            return list(found)
        shapes: list[tuple[int, ...]] = []
        for record, (begin, end) in enumerate(itertools.pairwise(elements.starts.tolist())):
            own = found[begin:end] or [self.decoder.empty_shape]
            for number, shape in enumerate(own):
                if shape != own[0]:
                    reason = (
                        f"its elements are of different shapes: {list(own[0])}, but "
                        f"{list(shape)} of element {number}"
                    )
                    block.fail(record, self.first_spec, reason)
                    break
            shapes.append((end - begin, *own[0]))
        return shapes

    def _divide(
        self, block: LocatedBlock, rows: RowDivision, record: int, array: Numbers
    ) -> Numbers | RaggedColumn:
        """Return the array of a record, divided into rows as its partitions say."""
        values = array._replace(shape=_divided(array.shape, rows))
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


def _divided(shape: tuple[int, ...], rows: RowDivision) -> tuple[int, ...]:
    """Return the shape of an array of values after its innermost rows are divided off."""
    count, *value_shape = shape
    return (count // math.prod(rows.inner), *rows.inner, *value_shape)


def build_decoded(name: str, feature: Feature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of a column of decoded values."""
    element = feature.element if isinstance(feature, SequenceFeature) else feature
    builder = DecodedListBuilder if element.known_shape is None else DecodedBuilder
    return builder(name, feature, in_lists=in_lists)
