"""Rotation of images as their EXIF data asks for."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy.typing as npt
from PIL import ExifTags, Image


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

    def undo_box(
        self, box: tuple[int, int, int, int], size: tuple[int, int]
    ) -> tuple[int, int, int, int]:
        """Return a box of the rotated image as a box of the image before.

        Args:
            box: Left, top, right and bottom.
            size: Height and width of the rotated image.
        """
        left, top, right, bottom = box
        columns, rows = self.reverses
        if columns:
            left, right = size[1] - right, size[1] - left
        if rows:
            top, bottom = size[0] - bottom, size[0] - top
        return (top, left, bottom, right) if self.swaps else (left, top, right, bottom)

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
