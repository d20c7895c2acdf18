"""Numbers as text, read as TensorFlow's ``strings::safe_strto*`` read them.

Python reads the same from ASCII, but that it also takes underscores, and takes neither hexadecimal
floats nor "nan(...)".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

_HEXADECIMAL = re.compile(
    rb"\s*([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?[0-9]+))?\s*", re.ASCII
)
_NAN = re.compile(rb"\s*[+-]?nan\(\w*\)\s*", re.ASCII | re.IGNORECASE)
_SHOWN_BYTES = 40


def integers_of(
    texts: list[bytes], dtype: str, ends: tuple[int, int]
) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Integers within ``ends``; and for each text that is none, why."""
    numbers, wrong = _each(texts, int, _no_number, f"is no {dtype}")
    low, high = ends
    if numbers and not (low <= min(numbers) and max(numbers) <= high):
        for row, number in enumerate(numbers):
            if not low <= number <= high:
                wrong[row] = f"{_shown(texts[row])} does not fit in {dtype}"
                numbers[row] = 0
    return np.array(numbers, dtype), wrong


def floats_of(texts: list[bytes], dtype: str) -> tuple[npt.NDArray[Any], dict[int, str]]:
    """Floats, infinite where the dtype has no such number; and for each text that is none, why."""
    numbers, wrong = _each(texts, float, _rare_float, f"is no {dtype}")
    values = np.array(numbers, np.float64)
    return (_narrowed(values, texts) if dtype == "float32" else values), wrong


def _each(
    texts: list[bytes], convert: Callable[[bytes], Any], rare: Callable[[bytes], Any], reason: str
) -> tuple[list[Any], dict[int, str]]:
    if b"_" not in b"".join(texts):
        try:
            return [*map(convert, texts)], {}
        except ValueError:
            pass
    numbers: list[Any] = []
    wrong: dict[int, str] = {}
    for row, text in enumerate(texts):
        try:
            numbers.append(rare(text) if b"_" in text else convert(text))
        except ValueError:
            try:
                numbers.append(rare(text))
            except ValueError:
                numbers.append(0)
                wrong[row] = f"{_shown(text)} {reason}"
    return numbers, wrong


def _no_number(text: bytes) -> Any:
    raise ValueError(text)


def _rare_float(text: bytes) -> float:
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return -np.inf if text.lstrip().startswith(b"-") else np.inf
    if _NAN.fullmatch(text):
        return np.nan
    raise ValueError(text)


def _narrowed(values: npt.NDArray[np.float64], texts: list[bytes]) -> npt.NDArray[np.float32]:
    """The float32 next to each text, of which ``values`` are the float64s next to it.

    Rounding twice goes wrong where the first rounding ends half-way between two float32s.
    """
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
        other = np.nextafter(near, np.where(values > near, np.inf, -np.inf).astype(np.float32))
    # The float32 behind the greatest one would be 2**128.
    ends = [np.clip(part.astype(np.float64), -(2.0**128), 2.0**128) for part in (near, other)]
    halfway = (values == (ends[0] + ends[1]) / 2) & (near != values)
    for row in np.flatnonzero(halfway & np.isfinite(values)).tolist():
        exact = _exact(texts[row])
        value = float(values[row])
        if exact != value:
            near[row] = (max if exact > value else min)(near[row], other[row])
    return near


def _exact(text: bytes) -> Decimal | Fraction:
    """A number of any count of digits; int() takes no more than 4300 of them."""
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        return Decimal(text.decode().strip())
    sign, whole, part, exponent = (group or b"" for group in found.groups())
    digits = Fraction(int(sign + whole + part, 16))
    return digits * Fraction(2) ** (int(Decimal((exponent or b"0").decode())) - 4 * len(part))


def _shown(text: bytes) -> str:
    shown = text if len(text) <= _SHOWN_BYTES else text[:_SHOWN_BYTES] + b"..."
    return repr(shown)[1:]
