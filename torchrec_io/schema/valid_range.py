"""The range that a spec may declare for its values, and which values lie outside of it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .checks import is_whole
from .dtypes import DTYPES, FLOAT_ENDS, integer_range, is_integer, numeric_bytes

Bound: TypeAlias = "int | float | None"
Range: TypeAlias = "tuple[Bound, Bound] | None"

# The greatest finite bfloat16, which NumPy has no word for.
_MOST_BFLOAT16 = 2.0**128 - 2.0**120


class Limits(NamedTuple):
    """A range in the terms of a column: both ends are numbers that the column can hold.

    Attributes:
        low: The least that is valid.
        high: The greatest that is valid.
        text: The range as it was declared.
    """

    low: Any
    high: Any
    text: str

    @classmethod
    def of(cls, valid: Range, dtype: str) -> Limits | None:
        """Those of a spec with columns of a dtype; None if it declares no range."""
        if valid is None:
            return None
        low = -math.inf if valid[0] is None else valid[0]
        high = math.inf if valid[1] is None else valid[1]
        return cls(*_ends_of(low, high, dtype), f"[{low}, {high}]")

    def outside(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The places of the values that are not valid, in an array of one dimension."""
        # This way round, nan is outside.
        return np.flatnonzero(~((values >= self.low) & (values <= self.high)))

    def reason(self, value: Any) -> str:
        """What is wrong with a value that is not valid."""
        return f"the value {value!s} is outside the valid range {self.text}"


def check_range(valid: Any, dtype: str, default: tuple[Any, ...] | None = None) -> Range:
    """What a spec is given as ``valid_range``, checked.

    Args:
        valid: What it is given.
        dtype: Of the spec.
        default: Values that take the place of missing ones, which have to be valid, too.

    Raises:
        SchemaError: it is no range, no value of the dtype lies in it, or a default does not.
    """
    if valid is None:
        return None
    if dtype not in DTYPES or dtype == "string":
        raise SchemaError(f"values of {dtype} have no order: there is no valid_range")
    if not isinstance(valid, (tuple, list)) or len(valid) != 2:
        raise SchemaError(f"valid_range must be (low, high), not {valid!r}")
    low, high = (_check_bound(bound) for bound in valid)
    limits = Limits.of((low, high), dtype)
    assert limits is not None
    if limits.low > limits.high:
        raise SchemaError(f"no {dtype} lies in the valid_range {limits.text}")
    if default is not None:
        values = as_numbers(np.frombuffer(numeric_bytes(default, dtype), _bits_of(dtype)), dtype)
        for place in limits.outside(values)[:1]:
            raise SchemaError(f"default_value: {limits.reason(values[place])}")
    return low, high


def as_numbers(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values of a column as numbers that can be compared: bfloat16 is held as its bits."""
    if dtype == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.view(np.uint8) if dtype == "bool" else values


def _bits_of(dtype: str) -> str:
    return {"bfloat16": "uint16", "bool": "uint8"}.get(dtype, dtype)


def _check_bound(bound: Any) -> Bound:
    if bound is None:
        return None
    if is_whole(bound):
        return int(bound)
    if not isinstance(bound, (float, np.floating)) or math.isnan(bound):
        raise SchemaError(f"a bound of valid_range must be a number or None, not {bound!r}")
    return float(bound)


def _ends_of(low: float, high: float, dtype: str) -> tuple[Any, Any]:
    if low > high:  # as they are given: rounded they may be equal
        raise SchemaError(f"no number lies in the valid_range [{low}, {high}]")
    if is_integer(dtype):
        least, greatest = integer_range(dtype)
        # Ends that the dtype lacks, on the wrong side, leave no value between the two.
        first = greatest + 1 if low == math.inf else max(least, _whole(math.ceil, low, least))
        last = least - 1 if high == -math.inf else min(greatest, _whole(math.floor, high, greatest))
        return first, last
    return _float_end(low, dtype, inward=1), _float_end(high, dtype, inward=-1)


def _whole(rounded: Any, bound: float, if_infinite: int) -> int:
    return if_infinite if math.isinf(bound) else int(rounded(bound))


def _float_end(bound: float, dtype: str, *, inward: int) -> Any:
    """A bound rounded to a dtype, as the values are that were once written as the same number."""
    is_infinite = isinstance(bound, float) and math.isinf(bound)
    if not is_infinite and abs(bound) >= FLOAT_ENDS[dtype]:
        # Between it and the next finite number of the dtype lies none, only an infinity beyond.
        sign = 1 if bound > 0 else -1
        bound = math.inf * sign if sign == inward else sign * _greatest(dtype)
    held = np.frombuffer(numeric_bytes([float(bound)], dtype), _bits_of(dtype))
    return as_numbers(held, dtype)[0]


def _greatest(dtype: str) -> float:
    return _MOST_BFLOAT16 if dtype == "bfloat16" else float(np.finfo(dtype).max)
