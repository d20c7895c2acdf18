"""Tables of views: which part of each image of a column is used, and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# One row for each image.
VIEW = np.dtype(
    [
        ("image", "i8", 2),  # height and width of the image after its rotation; 0: not known
        ("box", "i8", 4),  # left, top, right, bottom of what is cut out, in whole pixels
        ("part", "f8", 4),  # left, top, right, bottom of what is resized, relative to the box
        ("size", "i8", 2),  # height and width after resizing
        ("position", "i8", 2),  # top and left in the value, which may be larger
        ("flip", "i8"),  # 1: mirrored left to right
    ]
)
Views: TypeAlias = npt.NDArray[Any]


def shared_crops(views: Views, crop: Sequence[int] | None) -> npt.NDArray[np.uint8]:
    """Return the random crops of images for images that share them, as native code takes them.

    Args:
        views: Views of the images; ``[n]``.
        crop: Box that was cut out of every image before; see :class:`ImageFeature`.
    """
    left, top, right, bottom = views["box"].T
    size, start = views["image"], np.zeros(2, np.int64)
    if crop is not None:
        start, size = np.array(crop[:2]), np.broadcast_to(np.array(crop[2:]), size.shape)
    rows = (*size.T, top - start[0], left - start[1], bottom - top, right - left, views["flip"])
    return np.stack(rows, axis=1).astype(np.int64).reshape(-1).view(np.uint8)
