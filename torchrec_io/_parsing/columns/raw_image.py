"""Images that are stored as their pixels, cropped and resized like encoded ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.bad_value import BadValueError
from ..._images.decode import DecodedImage
from ..._images.geometry import find_view
from ..._images.native import resize_pixels
from ..._images.views import Views
from ..._schema.stored_specs import RawFeature
from ..layout import Numbers
from .base import LocatedBlock
from .elements import Elements
from .image import ImageDecoder, ImageValue
from .raw import RawDecoder


class RawImageDecoder(ImageDecoder):
    """Decoder of a RawFeature with ``size`` or ``augment``.

    Its sources are the stored pixels, uint8 ``[H, W, C]``, or the reason why they are not valid.
    """

    def __init__(self, name: str, feature: RawFeature) -> None:
        assert feature.cropped is not None
        super().__init__(name, feature.cropped)
        self.formats = (_core,)
        self._stored = RawDecoder(name, dataclasses.replace(feature, size=None, augment=None))

    # Records without a valid shape fail first: without theirs, the shapes of others are not known.

    def fill_later(
        self, block: LocatedBlock, spec: int, elements: Elements, numbers: Numbers
    ) -> None:
        if self._have_shapes(block, spec, elements):
            super().fill_later(block, spec, elements, numbers)

    def plan_each(
        self, block: LocatedBlock, spec: int, elements: Elements
    ) -> tuple[list[tuple[int, ...]], Callable[..., None]]:
        if self._have_shapes(block, spec, elements):
            return super().plan_each(block, spec, elements)
        return [], lambda _: None

    def find_views(self, block: LocatedBlock, spec: int, elements: Elements) -> Views:
        if self._have_shapes(block, spec, elements):
            return super().find_views(block, spec, elements)
        return self._views(block, spec, elements)

    def _have_shapes(self, block: LocatedBlock, spec: int, elements: Elements) -> bool:
        self._stored.stored_shapes(block, spec, elements)
        return not block.failures

    def sources(self, block: LocatedBlock, spec: int, elements: Elements) -> list[Any]:
        shapes = self._stored.stored_shapes(block, spec, elements)
        return [
            self._source(value, shape)
            for value, shape in zip(elements.values(block), shapes, strict=True)
        ]

    def _source(self, value: memoryview, shape: list[int] | None) -> Any:
        try:
            array = self._stored.array_of(value, shape)
        except BadValueError as error:
            return error
        if 0 in array.shape:
            return BadValueError(f"the image has no pixels, its shape is {list(array.shape)}")
        return np.frombuffer(array.content, np.uint8).reshape(array.shape)

    def images(self, block: LocatedBlock, spec: int, elements: Elements) -> _core.StoredImages:
        shapes = np.zeros((len(elements.sizes), 3), np.int64)
        for at, source in enumerate(self.sources(block, spec, elements)):
            if not isinstance(source, BadValueError):
                shapes[at] = source.shape
        return _core.StoredImages(
            block.records, elements.records, elements.offsets, elements.sizes, shapes
        )

    def stored_size(self, value: Any) -> tuple[int, int]:
        height, width, _ = _valid(value).shape
        return height, width

    def decode(self, value: Any, block: LocatedBlock, record: int) -> ImageValue:
        pixels = _valid(value)
        view = find_view(self.feature, *self.stored_size(value), self._key(block, record))
        left, top, right, bottom = view.box
        part = pixels[top:bottom, left:right]
        if view.is_resized:
            part = resize_pixels(part, view, self.feature)
        part = part[:, ::-1] if view.is_flipped else part
        return ImageValue(part.shape, DecodedImage(part, view.position))


def _valid(source: Any) -> npt.NDArray[np.uint8]:
    """Return a source that is valid; raise the reason of another one."""
    if isinstance(source, BadValueError):
        raise source
    pixels: npt.NDArray[np.uint8] = source
    return pixels
