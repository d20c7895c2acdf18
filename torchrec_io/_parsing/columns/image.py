"""Columns of images, which several threads decode, straight into the arena if sizes are known."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.bad_value import BadValueError
from ..._images.decode import DecodedImage, decode_image, read_size, read_stored_size
from ..._images.geometry import CropKey, KeyFactory, find_view
from ..._images.levels import fill_values, inner_part, value_tables, write_levels
from ..._images.native import StoredImages, column_rule, decode_column, decode_into, is_native
from ..._images.views import VIEW, Views
from ..._schema.crops import group_of
from ..._schema.image_spec import ImageFeature
from ..._schema.specs import FixedLenFeature
from ..arrays import Arena, view_of
from ..layout import Column, Numbers, Padding
from .base import ColumnBuilder, LocatedBlock
from .decoded import DecodedBuilder, build_decoded
from .elements import ElementDecoder, Elements
from .plain import FixedBuilder

Pixels: TypeAlias = npt.NDArray[Any]

# Loaded with the first feature that a device decodes.
_ENCODED = "torchrec_io._parsing.columns.encoded_image:EncodedImageBuilder"
# Images that one native call decodes: enough to make the call cheap, few enough to share them out.
_MOST_IN_CALL = 8


class _ImageValue(NamedTuple):
    """A decoded image, and the shape of its value in the column."""

    shape: tuple[int, ...]
    image: DecodedImage


class ImageDecoder(ElementDecoder):
    """Decoder of the values of an ImageFeature."""

    feature: ImageFeature

    def __init__(self, name: str, feature: ImageFeature) -> None:
        super().__init__(name, feature)
        shape = feature.shape_of(*(feature.size or (0, 0)))
        self.empty_shape = (0, *shape) if feature.animated else shape

        self.group = group_of(feature.augment)
        self.random_name = self.group or name
        self.tables = value_tables(feature)
        self.rule = column_rule(feature)

    def decode(self, value: memoryview, block: LocatedBlock, record: int) -> _ImageValue:
        image = decode_image(value, self.feature, self._key(block, record))
        *frames, height, width, channels = image.pixels.shape
        height, width = self.feature.size or (height, width)
        return _ImageValue((*frames, *self.feature.shape_of(height, width, channels)), image)

    def store(self, decoded: _ImageValue, out: Pixels) -> None:
        store_image(decoded.image, self.feature, out.reshape(decoded.shape), self.tables)

    def fill(self, block: LocatedBlock, spec: int, elements: Elements, out: Pixels) -> None:
        """Decode elements into ``[n, *shape]``, natively several in each call."""
        left: Sequence[int] = range(len(elements.sizes))
        if self.rule is not None and self._first_of_group(block) is None:
            left = self._fill_by_rule(self.rule, block, spec, elements, out)
        if left:
            self._fill_left(block, spec, elements, out, left)

    def _fill_by_rule(
        self,
        rule: _core.ViewRule,
        block: LocatedBlock,
        spec: int,
        elements: Elements,
        out: Pixels,
    ) -> list[int]:
        """Decode the images that a rule can decode; return the positions of the rest."""
        left: list[int] = []

        def decode(group: Sequence[int]) -> list[tuple[int, str]]:
            part = slice(group[0], group[-1] + 1)
            which = elements.records[part]
            keys = None
            if self.feature.augment is not None:
                keys = b"".join(block.random_key(each, self.random_name) for each in which.tolist())
            offsets, sizes = elements.offsets[part], elements.sizes[part]
            images = StoredImages(block.records, which, offsets, sizes, keys)
            values = _channels_last(out[part], self.feature)
            missed = decode_column(rule, self.feature, images, values, self.tables)
            left.extend([group[at] for at in missed])
            return []

        threads = self.threads(block)
        groups = _groups(range(len(elements.sizes)), threads)
        elements.each_group(block, spec, decode, groups, threads)
        return sorted(left)

    def _fill_left(
        self,
        block: LocatedBlock,
        spec: int,
        elements: Elements,
        out: Pixels,
        left: Sequence[int],
    ) -> None:
        """Decode the elements at some positions, each with its own view."""
        values = elements.values(block)
        records = elements.records.tolist()
        native = [at for at in left if is_native(values[at], self.feature)]
        others = sorted(set(left).difference(native))

        def decode_natively(positions: Sequence[int]) -> list[tuple[int, str]]:
            failures = decode_into(
                [values[at] for at in positions],
                self.feature,
                [self._key(block, records[at]) for at in positions],
                [_channels_last(out[at], self.feature) for at in positions],
                self.tables,
            )
            return [(positions[at], reason) for at, reason in failures]

        def decode_other(position: int) -> None:
            self.decode_into(values[position], block, records[position], out[position])

        threads = self.threads(block)
        elements.each_group(block, spec, decode_natively, _groups(native, threads), threads)
        elements.each(block, spec, decode_other, threads, others)

    def find_views(self, block: LocatedBlock, spec: int, elements: Elements) -> Views:
        """Return the view of each element; fail the records of those that have none."""
        values, records = elements.values(block), elements.records.tolist()
        views = np.zeros(len(values), VIEW)

        def find(at: int) -> None:
            height, width = read_stored_size(values[at], self.feature)
            view = find_view(self.feature, height, width, self._key(block, records[at]))
            views[at] = ((height, width), *view)

        elements.each(block, spec, find, self.threads(block))
        return views

    def _key(self, block: LocatedBlock, record: int) -> KeyFactory:
        def make_key() -> CropKey:
            key = block.random_key(record, self.random_name)
            first = self._first_of_group(block)
            if first is None:
                return CropKey(key)
            spans = block.located.spans(first.first_spec)
            at, size = spans.offsets[record], spans.sizes[record]
            value = block.block.view(record)[at : at + size]
            try:
                return CropKey(key, read_size(value, first.feature))
            except BadValueError as error:
                reason = f"the image of {first.name!r}, whose crop it shares: {error}"
                raise BadValueError(reason) from error

        return make_key

    def _first_of_group(self, block: LocatedBlock) -> ColumnBuilder | None:
        """Return the builder of the image that the crop is chosen for; None for this one."""
        if self.group is None:
            return None
        images = (each for each in block.builders if isinstance(each.feature, ImageFeature))
        first = next(each for each in images if group_of(each.feature.augment) == self.group)
        return None if first.name == self.name else first


def views_of_group(block: LocatedBlock, group: str) -> Views:
    """Return the view of the image of each record that the crop of a group is chosen for.

    Records without one fail.
    """
    images = (each for each in block.builders if isinstance(each.feature, ImageFeature))
    first = next(each for each in images if group_of(each.feature.augment) == group)
    elements = Elements.of(block, first.first_spec)
    decoder = ImageDecoder(first.name, first.feature)
    return decoder.find_views(block, first.first_spec, elements)


def _groups(positions: Sequence[int], threads: int) -> list[Sequence[int]]:
    """Split positions into groups for one native call each, smaller and smaller ones at the end.

    Small ones let the threads end at about the same time.
    """
    groups: list[Sequence[int]] = []
    at = 0
    while at < len(positions):
        size = max(1, min(_MOST_IN_CALL, (len(positions) - at) // (2 * threads)))
        groups.append(positions[at : at + size])
        at += size
    return groups


class _PaddedImageBuilder(DecodedBuilder):
    """Builder of one column of images of different sizes, padded to the largest."""

    feature: ImageFeature
    decoder: ImageDecoder

    def __init__(self, name: str, feature: ImageFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        axes = (1, 2) if feature.layout == "CHW" else (0, 1)
        fill = fill_values(feature, value_tables(feature))[0].item()
        self.padding: Padding = Padding(f"{name}\0lengths", fill, axes)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        elements = Elements.of(block, self.first_spec)
        images = self.decoder.decode_all(block, self.first_spec, elements)
        if block.failures:
            return []
        sizes = [each.image.pixels.shape[:2] for each in images]
        sides = np.array(sizes, np.int64).reshape(-1, 2)
        height, width = sides.max(axis=0, initial=0).tolist()
        lengths = block.layout.reserve_dense((self.padding.lengths,), "int64", sides.shape)
        block.write_later(Numbers("int64", lengths.shape, lengths.at), sides)
        shape = (len(images), *self.feature.shape_of(height, width))
        column = block.layout.reserve_dense((self.name,), self.decoder.dtype, shape)

        def store(block: LocatedBlock, arena: Arena) -> None:
            values = view_of(arena, Numbers(column.dtype, column.shape, column.at))

            def store_one(record: int) -> None:
                image = images[record].image
                store_image(image, self.feature, values[record], self.decoder.tables)

            elements.each(block, self.first_spec, store_one, block.threads)

        block.finishers.append(store)
        return [lengths, column]


def build_image(name: str, feature: ImageFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of an ImageFeature."""
    if feature.decoder is None:
        return FixedBuilder(name, FixedLenFeature([], "string", key=feature.key))
    if feature.decoder == "cuda":
        builder: type[ColumnBuilder] = pkgutil.resolve_name(_ENCODED)
        return builder(name, feature, in_lists=in_lists)
    if feature.mixed == "pad":
        return _PaddedImageBuilder(name, feature, in_lists=in_lists)
    return build_decoded(name, feature, in_lists=in_lists)


def store_image(
    image: DecodedImage, feature: ImageFeature, out: Pixels, tables: Pixels | None
) -> None:
    """Write an image to its record's value in the layout, dtype and scale of the feature."""
    inner = inner_part(
        _channels_last(out, feature),
        image.position,
        image.pixels.shape[-3:-1],
        fill_values(feature, tables),
    )
    write_levels(image.pixels, inner, tables)


def _channels_last(value: Pixels, feature: ImageFeature) -> Pixels:
    """Return a value in the layout HWC, in the same memory."""
    return value.transpose(_CHANNELS_LAST[value.ndim]) if feature.layout == "CHW" else value


# Axes of "CHW" in the order of "HWC", by the number of dimensions.
_CHANNELS_LAST = {3: (1, 2, 0), 4: (0, 2, 3, 1)}
