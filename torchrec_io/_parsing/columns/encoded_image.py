"""Columns of images that are decoded on the device that a batch is moved to."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
from PIL import Image

from ... import _core
from ..._images.bad_value import BadValueError
from ..._images.exif import exif_rotation
from ..._images.jpeg_markers import SIGNATURE, check_jpeg
from ..._images.views import VIEW
from ..._schema.image_spec import ImageFeature
from ..._schema.stored_keys import StoredKey
from ..arrays import Arena
from ..layout import BytesColumn, Column, Numbers
from .base import ColumnBuilder, LocatedBlock
from .elements import Elements
from .image import ImageDecoder


class EncodedImageBuilder(ColumnBuilder):
    """Builder of a column of images that are decoded when a batch is moved to a device.

    Each value is the view of an image, one row of the dtype VIEW, and the JPEG. Images that nvJPEG
    cannot decode are decoded here: the height in their view is 0, and their levels follow, uint8
    ``[H, W, C]`` of the feature's ``size``.
    """

    feature: ImageFeature

    def __init__(self, name: str, feature: ImageFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        # Functions of ``augment`` may not be picklable, and have done their work.
        self.image = dataclasses.replace(feature, augment=None, crop=None, key=None)
        levels = dataclasses.replace(
            feature, decoder="auto", dtype="uint8", layout="HWC", mean=None, std=None
        )
        self.decoder = ImageDecoder(name, levels)

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        return self.native_spec(stored, _core.ColumnType.span)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        spec, decoder = self.first_spec, self.decoder
        elements = Elements.of(block, spec)
        values = elements.values(block)
        is_encoded = np.zeros(len(values), bool)

        def prepare(at: int) -> None:
            is_encoded[at] = _is_for_device(values[at])

        elements.each(block, spec, prepare, block.threads)
        if block.failures:
            return []
        others = np.flatnonzero(~is_encoded)
        levels = dict(
            zip(
                others.tolist(),
                decoder.decode_now(block, spec, elements.at(others)),
                strict=True,
            )
        )
        if block.failures:
            return []
        # Boxes of the group ask for the views of all images, also of those that are marked below.
        views = decoder.find_views(block, spec, elements).copy()
        if block.failures:
            return []
        sizes = elements.sizes.copy()
        for at, decoded in levels.items():
            views["image"][at], sizes[at] = 0, decoded.size
        offsets = np.concatenate(([0], np.cumsum(sizes + VIEW.itemsize)))
        texts = block.layout.reserve_texts((len(values),), int(offsets[-1]))
        block.write_later(Numbers("int64", offsets.shape, texts.offsets_at), offsets)

        def store(block: LocatedBlock, arena: Arena) -> None:
            for at, value in enumerate(elements.values(block)):
                decoded = levels.get(at)
                data = np.frombuffer(value, np.uint8) if decoded is None else decoded.reshape(-1)
                begin, end = texts.data_at + offsets[at], texts.data_at + offsets[at + 1]
                arena[begin : begin + VIEW.itemsize] = views[at : at + 1].view(np.uint8)
                arena[begin + VIEW.itemsize : end] = data

        block.finishers.append(store)
        return [BytesColumn(self.name, texts)]


def _is_for_device(value: memoryview) -> bool:
    """Return whether nvJPEG decodes an image as libjpeg does.

    Raises:
        BadValueError: If the markers of a JPEG show damage.
    """
    if value[:3] != SIGNATURE:
        return False
    try:
        check_jpeg(value)
    except ValueError as error:
        raise BadValueError(f"the image cannot be decoded: {error}") from None
    try:
        with Image.open(io.BytesIO(value), formats=["JPEG", "MPO"]) as image:
            # CMYK, and RGB that is stored without conversion to YCbCr. torchcodec rotates images.
            is_rgb = image.info.get("adobe_transform", 1) == 0 or _letters_of(image) == b"RGB"
            is_plain = image.mode == "L" or (image.mode == "RGB" and not is_rgb)
            return is_plain and exif_rotation(image) is None
    except Exception:  # noqa: BLE001  # the CPU's decoder says what is wrong
        return False


def _letters_of(image: Any) -> bytes:
    """Return the numbers of the components of a JPEG that Pillow has opened."""
    return bytes(layer[0] for layer in image.layer)
