"""Columns of images, which several threads decode, straight into the arena if sizes are known."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...images.decode import DecodedImage, decode_image
from ...schema.image_spec import ImageFeature
from ...schema.specs import FixedLenFeature
from ..layout import Column, Numbers, Padding
from .base import Arena, ColumnBuilder, LocatedBlock, view_of
from .decoded import DecodedListBuilder, ElementDecoder, Elements, build_decoded
from .plain import FixedBuilder


class _Image(NamedTuple):
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

    def decode(self, value: memoryview, block: LocatedBlock, record: int) -> _Image:
        image = self._decode(value, block, record, None)
        *frames, height, width, channels = image.pixels.shape
        height, width = self.feature.size or (height, width)
        return _Image((*frames, *self.feature.shape_of(height, width, channels)), image)

    def _decode(
        self, value: memoryview, block: LocatedBlock, record: int, into: npt.NDArray[Any] | None
    ) -> DecodedImage:
        draw = functools.partial(block.generator, record, self.name)
        return decode_image(value, self.feature, draw, into)

    def store(self, decoded: _Image, out: npt.NDArray[Any]) -> None:
        store_image(decoded.image, self.feature, out.reshape(decoded.shape))

    def decode_into(
        self, value: memoryview, block: LocatedBlock, record: int, out: npt.NDArray[Any]
    ) -> None:
        is_direct = self.feature.layout == "HWC" and self.feature.dtype == "uint8"
        image = self._decode(value, block, record, out if is_direct else None)
        store_image(image, self.feature, out)


class _PaddedImageBuilder(DecodedListBuilder):
    """Builder of one column of images of different sizes, padded to the largest."""

    feature: ImageFeature

    def __init__(self, name: str, feature: ImageFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        axes = (1, 2) if feature.layout == "CHW" else (0, 1)
        self.padding: Padding = Padding(f"{name}\0lengths", _fill_of(feature), axes)

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
        block.save(self, (elements, images, Numbers(column.dtype, column.shape, column.at)))
        return [lengths, column]

    def finish(self, block: LocatedBlock, arena: Arena) -> None:
        elements, images, column = block.saved(self)
        values = view_of(arena, column)

        def store(record: int) -> None:
            store_image(images[record].image, self.feature, values[record])

        elements.each(block, self.first_spec, store, block.threads)


def build_image(name: str, feature: ImageFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of an ImageFeature."""
    if feature.decoder is None:
        return FixedBuilder(name, FixedLenFeature([], "string"))
    if feature.mixed == "pad":
        return _PaddedImageBuilder(name, feature, in_lists=in_lists)
    return build_decoded(name, feature, in_lists=in_lists)


def store_image(image: DecodedImage, feature: ImageFeature, out: npt.NDArray[Any]) -> None:
    """Write an image to its record's value in the layout, dtype and scale of the feature."""
    value = out.transpose(_CHANNELS_LAST[out.ndim]) if feature.layout == "CHW" else out
    (top, left), (height, width) = image.position, image.pixels.shape[-3:-1]
    inner = value[..., top : top + height, left : left + width, :]
    if image.pixels.dtype == value.dtype:
        if not np.may_share_memory(inner, image.pixels):  # it was decoded into another array
            inner[...] = image.pixels
    else:
        np.multiply(image.pixels, _UNIT, out=inner, casting="unsafe")
    if inner.shape != value.shape:
        fill = _fill_of(feature)
        value[..., :top, :, :] = fill
        value[..., top + height :, :, :] = fill
        value[..., top : top + height, :left, :] = fill
        value[..., top : top + height, left + width :, :] = fill


# Axes of "CHW" in the order of "HWC", by the number of dimensions.
_CHANNELS_LAST = {3: (1, 2, 0), 4: (0, 2, 3, 1)}
_UNIT = np.float32(1 / 255)


def _fill_of(feature: ImageFeature) -> int | float:
    """Return the value of the pixels around images, in the dtype of the column."""
    if feature.dtype == "uint8":
        return feature.fill
    if feature.dtype == "uint16":
        return feature.fill * 257
    return float(np.float32(feature.fill) * _UNIT)
