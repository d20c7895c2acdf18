"""What is checked of values that are decoded after parsing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .dtypes import MOST_VALUES, item_bytes
from .stored_specs import RawFeature

BAD_BOOL = "a byte of a bool array is neither 0 nor 1"


class BadValueError(ValueError):
    """A value cannot be decoded; the message says why. Becomes a DecodeError with its place."""


def check_raw_shape(shape: Sequence[int], size: int, feature: RawFeature) -> tuple[int, ...]:
    """The shape of one raw array of ``size`` bytes.

    Raises:
        BadValueError: the shape has a negative size, is too large even for an empty array, or does
            not hold that many bytes.
    """
    most = 1  # strides are products of sizes, also where one of the others is 0
    for extent in shape:
        if extent < 0:
            raise BadValueError(f"its shape {list(shape)} has a negative size")
        most *= max(1, extent)
        if most >= MOST_VALUES:
            raise BadValueError(f"its shape {list(shape)} is larger than any memory")
    if math.prod(shape) * item_bytes(feature.dtype) != size:
        raise BadValueError(
            f"it has {size} bytes, its shape {list(shape)} of {feature.dtype} needs "
            f"{math.prod(shape) * item_bytes(feature.dtype)}"
        )
    return tuple(shape)
