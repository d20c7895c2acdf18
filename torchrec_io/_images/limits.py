"""The limit of the number of pixels, which is checked before an image is decoded."""

from __future__ import annotations

from PIL import Image, TiffImagePlugin

from .bad_value import BadValueError


def check_pixels(
    height: int, width: int, max_pixels: int, *, frames: int = 1, is_wide: bool = False
) -> None:
    """Refuse an image with too many pixels.

    Args:
        height: Height of the image.
        width: Width of the image.
        max_pixels: Maximum number of pixels.
        frames: Number of frames that are decoded.
        is_wide: Whether a channel has more than 8 bits. Each pixel then counts as two.

    Raises:
        BadValueError: If the image has more pixels.
    """
    if width * height * frames * (2 if is_wide else 1) > max_pixels:
        claim = f"{width} x {height}" if frames == 1 else f"{frames} frames of {width} x {height}"
        kind = "pixels of 16 bits, which count twice," if is_wide else "pixels,"
        raise BadValueError(f"the image claims {claim} {kind} more than max_pixels={max_pixels}")


def check_size(image: Image.Image, max_pixels: int, *, is_wide: bool = False) -> None:
    """Refuse an opened image with too many pixels.

    Args:
        image: Image of Pillow, before it is loaded.
        max_pixels: Maximum number of pixels.
        is_wide: Whether the file has more than 8 bits in a channel, even if Pillow drops them.

    Raises:
        BadValueError: If the image has more pixels.
    """
    is_wide = is_wide or image.mode[0] in "IF"
    check_pixels(image.height, image.width, max_pixels, is_wide=is_wide)
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        # Tiles are decoded as a whole, and may be larger than the image.
        tags = (TiffImagePlugin.TILELENGTH, TiffImagePlugin.TILEWIDTH)
        height, width = (image.tag_v2.get(tag, 0) for tag in tags)
        check_pixels(int(height), int(width), max_pixels, is_wide=is_wide)
