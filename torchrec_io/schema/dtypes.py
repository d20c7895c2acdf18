"""Dtypes of columns: their names, sizes and ranges.

Stored values are int64, float32 or bytes ("string"); every other dtype is a cast of one of these,
checked value by value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError

_INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
_FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES: tuple[str, ...] = (*_INTEGERS, *_FLOATS, "string")
# What arrays of raw bytes and serialized tensors can hold: anything but text, and complex numbers.
RAW_DTYPES: tuple[str, ...] = (*_INTEGERS, *_FLOATS, "complex64", "complex128")

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "bool_": "bool",  # NumPy 1
}
# Also NumPy's names for strings of a size, such as "bytes40".
_STRING_NAME = re.compile(r"string|(bytes|str)(\d+|_)?|object_?")
_ITEM_BYTES = {
    "complex128": 16,
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
# Numbers from here on round to infinity.
FLOAT_ENDS = {
    "float64": 2**1024 - 2**970,
    "float32": 2**128 - 2**103,
    "bfloat16": 2**128 - 2**119,
    "float16": 65520,
}

# An array of this many values or more has no place in memory: strides are 63-bit numbers of bytes.
MOST_VALUES = 2**60

DType: TypeAlias = Any  # a torch or NumPy dtype, a Python type, or a name


def dtype_name(dtype: DType, allowed: Sequence[str] = DTYPES) -> str:
    """The name of a torch, NumPy or TensorFlow dtype, a Python type or a name.

    Raises:
        SchemaError: it is none of those allowed.
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if _STRING_NAME.fullmatch(name):
        name = "string"
    if name not in allowed:
        raise SchemaError(f"dtype must be one of {', '.join(allowed)}, not {dtype!r}")
    return name


def item_bytes(dtype: str) -> int:
    """Bytes of one element of a numeric dtype."""
    return _ITEM_BYTES[dtype]


def is_integer(dtype: str) -> bool:
    """Whether a dtype is stored as int64."""
    return dtype in _INTEGERS


def stored_dtype(dtype: str) -> str:
    """What values of a dtype are stored as: "int64", "float32" or "string"."""
    if dtype == "string":
        return dtype
    return "int64" if is_integer(dtype) else "float32"


@cache
def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def numeric_bytes(values: Sequence[Any], dtype: str) -> bytes:
    """Elements as a column stores them, little-endian."""
    if dtype != "bfloat16":
        return np.asarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    # Round to nearest, ties to even, on the upper half of a float32; NumPy has no bfloat16.
    bits: npt.NDArray[np.uint32] = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(bits.view(np.float32)), 0x7FC0, rounded).astype("<u2").tobytes()
