"""Conversion of text to numbers by the rules of TensorFlow's ``strings::safe_strto*``.

For ASCII text, Python's ``int`` and ``float`` follow the same rules, but accept underscores, which
are rejected here. Hexadecimal floats ("0x1.8p3") and "nan(...)", which TensorFlow's ``decode_csv``
accepts, are rejected as well, because no data needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from .._schema.dtypes import integer_range

_MOST_SHOWN_BYTES = 40


def parse_integers(texts: list[bytes], dtype: str) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Convert texts to integers.

    Args:
        texts: Texts to convert.
        dtype: NumPy dtype of the result.

    Returns:
        An array of the dtype, and the reason for each text that is not such an integer, by its
        position. The array holds 0 at these positions.
    """
    numbers, faults = _parse_all(texts, int, dtype)
    low, high = integer_range(dtype)
    if numbers and not (low <= min(numbers) and max(numbers) <= high):
        for row, number in enumerate(numbers):
            if not low <= number <= high:
                faults[row] = f"{_shorten(texts[row])} does not fit in {dtype}"
                numbers[row] = 0
    return np.array(numbers, dtype), faults


def parse_floats(texts: list[bytes], dtype: str) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Convert texts to floats.

    Args:
        texts: Texts to convert.
        dtype: "float32" or "float64". A number beyond the range of the dtype becomes infinity.

    Returns:
        An array of the dtype, and the reason for each text that is not a number, by its position.
        The array holds 0 at these positions.
    """
    numbers, faults = _parse_all(texts, float, dtype)
    values = np.array(numbers, np.float64)
    return (_round_to_float32(values, texts) if dtype == "float32" else values), faults


def _parse_all(
    texts: list[bytes], convert: Callable[[bytes], Any], dtype: str
) -> tuple[list[Any], dict[int, str]]:
    """Convert all texts at once, or one by one if some of them are no numbers."""
    if b"_" not in b"".join(texts):
        try:
            return [*map(convert, texts)], {}
        except ValueError:
            pass
    numbers: list[Any] = []
    faults: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            numbers.append(convert(text.replace(b"_", b"no digit")))
        except ValueError:
            numbers.append(0)
            faults[row] = f"{_shorten(text)} is not a valid {dtype}"
    return numbers, faults


def _round_to_float32(
    values: npt.NDArray[np.float64], texts: list[bytes]
) -> npt.NDArray[np.float32]:
    """Return the float32 nearest to each text, given the float64 nearest to it.

    Rounding ``values`` again would be wrong where a float64 lies exactly half-way between two
    float32s but its text does not. The texts decide in these cases.
    """
    with np.errstate(over="ignore"):
        nearest = values.astype(np.float32)
        other = np.nextafter(nearest, np.where(values > nearest, np.inf, -np.inf).astype("f4"))
    # 2**128 would be the next float32 after the largest one.
    ends = [np.clip(end.astype(np.float64), -(2.0**128), 2.0**128) for end in (nearest, other)]
    is_halfway = (values == (ends[0] + ends[1]) / 2) & (nearest != values)
    for row in np.flatnonzero(is_halfway & np.isfinite(values)).tolist():
        exact = Decimal(texts[row].decode().strip())  # of any number of digits
        value = float(values[row])
        if exact != value:
            nearest[row] = (max if exact > value else min)(nearest[row], other[row])
    return nearest


def _shorten(text: bytes) -> str:
    """Return the text as an error message quotes it."""
    shown = text if len(text) <= _MOST_SHOWN_BYTES else text[:_MOST_SHOWN_BYTES] + b"..."
    return repr(shown)[1:]
