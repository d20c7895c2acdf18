"""Tables of views: which part of each image of a column is used, and where it goes."""

from __future__ import annotations

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
