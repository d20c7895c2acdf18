"""The range that a spec declares for its values, and the values outside of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checks import is_integer
from ..errors import SchemaError
from .dtypes import DTYPES, FLOAT_ENDS, integer_range, is_integer_dtype, numeric_bytes

Bound: TypeAlias = "int | float | None"
Range: TypeAlias = "tuple[Bound, Bound] | None"

# The largest finite bfloat16; NumPy has no such dtype.
_MAX_BFLOAT16 = 2.0**128 - 2.0**120


class Limits(NamedTuple):
    """A valid range whose bounds are rounded to the dtype of a column.

    Attributes:
        low: The smallest valid value.
        high: The largest valid value.
        text: The range as it was declared.
    """

    low: Any
    high: Any
    text: str

    @classmethod
    def of(cls, valid_range: tuple[Bound, Bound], dtype: str) -> Limits:
        """Return the limits of a column of a dtype."""
        low = -math.inf if valid_range[0] is None else valid_range[0]
        high = math.inf if valid_range[1] is None else valid_range[1]
        return cls(*_rounded(low, high, dtype), f"[{low}, {high}]")

    def outside(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the positions of the values that are not valid, in a one-dimensional array."""
        # The negation makes NaN invalid: it compares as False with both bounds.
        return np.flatnonzero(~((values >= self.low) & (values <= self.high)))

    def reason(self, value: Any) -> str:
        """Return the error message for a value that is not valid."""
        return f"the value {value!s} is outside the valid range {self.text}"


def check_range(valid_range: Any, dtype: str) -> Range:
    """Return the argument ``valid_range`` of a spec as a tuple.

    Raises:
        SchemaError: If this is not a range, or no value of the dtype is in it.
    """
    if valid_range is None:
        return None
    if dtype not in DTYPES or dtype == "string":
        raise SchemaError(f"valid_range needs a dtype whose values have an order, got {dtype}")
    if not isinstance(valid_range, (tuple, list)) or len(valid_range) != 2:
        raise SchemaError(f"valid_range must be (low, high), got {valid_range!r}")
    low, high = (_check_bound(bound) for bound in valid_range)
    limits = Limits.of((low, high), dtype)
    if limits.low > limits.high:
        raise SchemaError(f"valid_range must contain a value of {dtype}, got {limits.text}")
    return low, high


def check_default_range(default: tuple[Any, ...] | None, dtype: str, valid_range: Range) -> None:
    """Check that the values of a default are in a range.

    Raises:
        SchemaError: If they are not.
    """
    if default is None or valid_range is None:
        return
    limits = Limits.of(valid_range, dtype)
    values = as_numbers(np.frombuffer(numeric_bytes(default, dtype), _bits_of(dtype)), dtype)
    for position in limits.outside(values)[:1]:
        raise SchemaError(
            f"default_value must be in the valid_range {limits.text}, got {values[position]!s}"
        )


def as_numbers(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return values of a column as numbers that NumPy can compare; it lacks bfloat16."""
    if dtype == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.view(np.uint8) if dtype == "bool" else values


def _bits_of(dtype: str) -> str:
    return {"bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype)


def _check_bound(bound: Any) -> Bound:
    if bound is None:
        return None
    if is_integer(bound):
        return int(bound)
    if not isinstance(bound, (float, np.floating)) or math.isnan(bound):
        raise SchemaError(f"a bound of valid_range must be a number or None, got {bound!r}")
    return float(bound)


def _rounded(low: float, high: float, dtype: str) -> tuple[Any, Any]:
    """Return the bounds of a range, rounded to a dtype."""
    if low > high:  # compared before rounding, which may make them equal
        raise SchemaError(f"valid_range must have low <= high, got [{low}, {high}]")
    if is_integer_dtype(dtype):
        smallest, largest = integer_range(dtype)
        # A bound beyond the dtype leaves no valid value: low is then greater than high.
        low, high = min(max(low, smallest), largest + 1), max(min(high, largest), smallest - 1)
        return math.ceil(low), math.floor(high)
    return _round_float(low, dtype, inward=1), _round_float(high, dtype, inward=-1)


def _round_float(bound: float, dtype: str, *, inward: int) -> Any:
    """Return a bound rounded to a dtype in the same way as values are that are written as it."""
    is_infinite = isinstance(bound, float) and math.isinf(bound)
    if not is_infinite and abs(bound) >= FLOAT_ENDS[dtype]:
        # Beyond it the dtype has only an infinity.
        sign = 1 if bound > 0 else -1
        bound = math.inf * sign if sign == inward else sign * _largest(dtype)
    rounded = np.frombuffer(numeric_bytes([float(bound)], dtype), _bits_of(dtype))
    return as_numbers(rounded, dtype)[0]


def _largest(dtype: str) -> float:
    return _MAX_BFLOAT16 if dtype == "bfloat16" else float(np.finfo(dtype).max)
