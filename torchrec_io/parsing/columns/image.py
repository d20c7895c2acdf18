"""Columns of images: decoded by several threads, straight into the arena where sizes are known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...images.decode import DecodedImage, decode_image
from ...schema.image_spec import ImageFeature
from ..layout import BytesColumn, Column, ListColumn, Numbers, Padding
from ..threads import run_each
from .base import FIXED, SPAN, Arena, ColumnMaker, native_spec, view_of
from .byte_values import Elements

if TYPE_CHECKING:
    from ..parser import LocatedBlock


class OpenedImage(NamedTuple):
    """A decoded image, and the shape of its value."""

    shape: tuple[int, ...]
    image: DecodedImage


class ImageValues:
    """Makes images of bytes values, as an ImageFeature says.

    Attributes:
        dtype: Of the column.
        known_shape: Of every image, if it is known.
        empty_shape: Of an image that is not there: zeros for unknown sizes.
        shape_key: None: images tell their shapes.
    """

    shape_key = None

    def __init__(self, name: str, feature: ImageFeature) -> None:
        self.dtype = str(feature.dtype)
        self.known_shape = feature.known_shape
        shape = feature.shape_of(*(feature.size or (0, 0)))
        self.empty_shape = (0, *shape) if feature.animated else shape
        self._name = name
        self._feature = feature

    def decode(
        self,
        batch: LocatedBlock,
        position: int,
        elements: Elements,
        take: Callable[[int, DecodedImage], None],
        column: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Decodes images, several at a time, and hands them on; fails records with bad ones.

        Args:
            batch: The records.
            position: Of the native spec.
            elements: The images.
            take: Gets the place of each among them, and its pixels.
            column: uint8 ``[n, H, W, C]``, where images may be decoded to at once.
        """
        values = elements.values(batch)
        records = elements.records.tolist()

        def work(number: int) -> None:
            draw = functools.partial(batch.generator, records[number], self._name)
            into = None if column is None else column[number]
            take(number, decode_image(values[number], self._feature, draw, into))

        elements.each(batch, position, work)

    def fill(
        self, batch: LocatedBlock, position: int, elements: Elements, out: npt.NDArray[Any]
    ) -> None:
        """Decodes images of the known shape into ``[n, *shape]``."""
        is_plain = self._feature.layout == "HWC" and self._feature.dtype == "uint8"
        self.decode(
            batch,
            position,
            elements,
            lambda number, image: store_image(image, self._feature, out[number]),
            out if is_plain else None,
        )

    def open(self, batch: LocatedBlock, position: int, elements: Elements) -> list[OpenedImage]:
        """The images of elements, of any shape; of no use if the batch has failures then."""
        images: list[Any] = [None] * len(elements.sizes)
        self.decode(batch, position, elements, images.__setitem__)
        if batch.failures:
            return []
        return [OpenedImage(_shape_of(image, self._feature), image) for image in images]

    def store(self, opened: OpenedImage, out: npt.NDArray[Any]) -> None:
        """Writes an image to its place, of one dimension."""
        store_image(opened.image, self._feature, out.reshape(opened.shape))


class _Decoding(ColumnMaker):
    """Base of the makers that decode."""

    def __init__(self, name: str, feature: ImageFeature) -> None:
        super().__init__(name, [native_spec(name, "string", SPAN)])
        self._feature = feature
        self._images = ImageValues(name, feature)


class _Sized(_Decoding):
    """ImageFeature of one size: decoded straight into its column."""

    def __init__(self, name: str, feature: ImageFeature, shape: tuple[int, ...]) -> None:
        super().__init__(name, feature)
        self._shape = shape

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        shape = (len(batch), *self._shape)
        column = batch.room.take_dense((self.name,), str(self._feature.dtype), shape)
        batch.keep(self, Numbers(column.dtype, column.shape, column.at))
        return [column]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        column = view_of(arena, batch.kept(self))
        self._images.fill(batch, self.first, Elements.of(batch, self.first), column)


class _Mixed(_Decoding):
    """ImageFeature of any sizes: decoded before the arena is sized.

    What images turn out to be counts, not what their headers claim.
    """

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        images: list[Any] = [None] * len(batch)
        elements = Elements.of(batch, self.first)
        self._images.decode(batch, self.first, elements, images.__setitem__)
        if batch.failures:
            return []
        columns, places = self._take_room(batch, images)
        batch.keep(self, (images, places))
        return columns

    def _take_room(
        self, batch: LocatedBlock, images: list[DecodedImage]
    ) -> tuple[list[Column], Any]:
        """Room for images of any sizes; and what :meth:`_values` needs to know."""
        arrays = tuple(
            batch.room.take_numbers(str(self._feature.dtype), _shape_of(image, self._feature))
            for image in images
        )
        return [ListColumn(self.name, arrays)], arrays

    def _values(self, arena: Arena, places: Any) -> list[npt.NDArray[Any]]:
        """Where in the arena each image goes."""
        return [view_of(arena, place) for place in places]

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        images, places = batch.kept(self)
        values = self._values(arena, places)

        def store(record: int) -> None:
            store_image(images[record], self._feature, values[record])

        run_each(store, len(images), batch.threads)


class _Padded(_Mixed):
    """As :class:`_Mixed`, in one padded column."""

    def __init__(self, name: str, feature: ImageFeature) -> None:
        super().__init__(name, feature)
        axes = (1, 2) if feature.layout == "CHW" else (0, 1)
        self.padding = Padding(f"{name}\0lengths", _fill_of(feature), axes)

    def _take_room(
        self, batch: LocatedBlock, images: list[DecodedImage]
    ) -> tuple[list[Column], Any]:
        assert self.padding is not None
        sides = np.array([image.pixels.shape[:2] for image in images], np.int64).reshape(-1, 2)
        height, width = sides.max(axis=0, initial=0).tolist()
        lengths = batch.room.take_dense((self.padding.lengths,), "int64", sides.shape)
        batch.write(Numbers("int64", lengths.shape, lengths.at), sides)
        shape = (len(images), *self._feature.shape_of(height, width))
        column = batch.room.take_dense((self.name,), str(self._feature.dtype), shape)
        return [lengths, column], Numbers(column.dtype, column.shape, column.at)

    def _values(self, arena: Arena, places: Any) -> list[npt.NDArray[Any]]:
        return list(view_of(arena, places))


class _Undecoded(ColumnMaker):
    """ImageFeature that is left as it is stored."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [native_spec(name, "string", FIXED, count=1)])

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        texts = batch.room.take_texts((len(batch),), batch.sizes(self.first).bytes)
        batch.place(self.first, texts)
        return [BytesColumn(self.name, texts)]


def make_image(name: str, feature: ImageFeature, *, in_lists: bool) -> ColumnMaker:
    """What makes the column of an ImageFeature."""
    del in_lists  # a Schema has no such feature list
    if feature.decoder is None:
        return _Undecoded(name)
    if feature.known_shape is not None:
        return _Sized(name, feature, feature.known_shape)
    return _Padded(name, feature) if feature.mixed == "pad" else _Mixed(name, feature)


def store_image(image: DecodedImage, feature: ImageFeature, out: npt.NDArray[Any]) -> None:
    """Writes an image into its record's value: layout, dtype and scale as the feature says."""
    value = out.transpose(_ROWS_FIRST[out.ndim]) if feature.layout == "CHW" else out
    (top, left), (height, width) = image.position, image.pixels.shape[-3:-1]
    inner = value[..., top : top + height, left : left + width, :]
    if image.pixels.dtype == value.dtype:
        if not np.may_share_memory(inner, image.pixels):  # it was decoded there
            inner[...] = image.pixels
    else:
        np.multiply(image.pixels, _UNIT, out=inner, casting="unsafe")
    if inner.shape != value.shape:
        fill = _fill_of(feature)
        value[..., :top, :, :] = fill
        value[..., top + height :, :, :] = fill
        value[..., top : top + height, :left, :] = fill
        value[..., top : top + height, left + width :, :] = fill


def _shape_of(image: DecodedImage, feature: ImageFeature) -> tuple[int, ...]:
    """The shape of an image's value."""
    *frames, height, width, channels = image.pixels.shape
    height, width = feature.size or (height, width)
    return (*frames, *feature.shape_of(height, width, channels))


# Axes by their number: those of "CHW" as "HWC" has them.
_ROWS_FIRST = {3: (1, 2, 0), 4: (0, 2, 3, 1)}
_UNIT = np.float32(1 / 255)


def _fill_of(feature: ImageFeature) -> int | float:
    """What is put around images, as it is in the column."""
    if feature.dtype == "uint8":
        return feature.fill
    if feature.dtype == "uint16":
        return feature.fill * 257
    return float(np.float32(feature.fill) * _UNIT)
