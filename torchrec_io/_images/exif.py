"""Rotation of images as their EXIF data asks for."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy.typing as npt
from PIL import ExifTags, Image

from .geometry import View


class Rotation(NamedTuple):
    """A rotation or reflection of an image.

    Attributes:
        method: Pillow's name for it.
        swaps: Whether rows become columns first.
        reverses: Whether the order of columns, and of rows, is then reversed.
    """

    method: Image.Transpose
    swaps: bool
    reverses: tuple[bool, bool]

    def apply(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the rotated view of an array ``[H, W, C]``."""
        return self._reverse(pixels.transpose(1, 0, 2) if self.swaps else pixels)

    def undo(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the view of a rotated array ``[H, W, C]`` as it was before."""
        stored = self._reverse(pixels)
        return stored.transpose(1, 0, 2) if self.swaps else stored

    def undo_view(self, view: View, size: tuple[int, int]) -> View:
        """Return a view of the rotated image as a view of the image before.

        Args:
            view: View of the rotated image.
            size: Height and width of the rotated image.
        """
        left, top, right, bottom = view.box
        part = view.resized_box
        box = left, top, right, bottom
        columns, rows = self.reverses
        if columns:
            part = right - left - part[2], part[1], right - left - part[0], part[3]
            box = size[1] - right, box[1], size[1] - left, box[3]
        if rows:
            part = part[0], bottom - top - part[3], part[2], bottom - top - part[1]
            box = box[0], size[0] - bottom, box[2], size[0] - top
        height, width = view.size
        if self.swaps:
            box = box[1], box[0], box[3], box[2]
            part = part[1], part[0], part[3], part[2]
            height, width = width, height
        return view._replace(box=box, resized_box=part, size=(height, width))

    def _reverse(self, pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        columns, rows = self.reverses
        return pixels[:: -1 if rows else 1, :: -1 if columns else 1]


_ROTATIONS = {
    2: Rotation(Image.Transpose.FLIP_LEFT_RIGHT, swaps=False, reverses=(True, False)),
    3: Rotation(Image.Transpose.ROTATE_180, swaps=False, reverses=(True, True)),
    4: Rotation(Image.Transpose.FLIP_TOP_BOTTOM, swaps=False, reverses=(False, True)),
    5: Rotation(Image.Transpose.TRANSPOSE, swaps=True, reverses=(False, False)),
    6: Rotation(Image.Transpose.ROTATE_270, swaps=True, reverses=(True, False)),
    7: Rotation(Image.Transpose.TRANSVERSE, swaps=True, reverses=(True, True)),
    8: Rotation(Image.Transpose.ROTATE_90, swaps=True, reverses=(False, True)),
}


def exif_rotation(image: Image.Image) -> Rotation | None:
    """Return the rotation that an image's EXIF data asks for, if any."""
    return _ROTATIONS.get(image.getexif().get(ExifTags.Base.Orientation, 1))


def rotation_of(data: memoryview) -> Rotation | None:
    """Return the rotation that the EXIF data of a JPEG asks for, if any."""
    with Image.open(io.BytesIO(data), formats=["JPEG", "MPO"]) as image:
        return exif_rotation(image)
