"""Dtypes of columns: their names, sizes and ranges.

Stored values are int64, float32 or bytes ("string"). Every other dtype is a cast of one of these.
A cast checks each value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError

# Dtypes for type checkers, which find misspelled names.
_NumberName: TypeAlias = Literal[
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
    "float32", "float64", "float16", "bfloat16",
]  # fmt: skip
DTypeName: TypeAlias = Literal[_NumberName, "string"]
RawDTypeName: TypeAlias = Literal[_NumberName, "complex64", "complex128"]
StoredDTypeName: TypeAlias = Literal["int64", "float32", "string"]
OffsetDTypeName: TypeAlias = Literal["int32", "int64"]


class _NamedDType(Protocol):
    """A dtype of NumPy or TensorFlow."""

    @property
    def name(self) -> str: ...


class _TorchDType(Protocol):
    """A dtype of torch, which is not imported here."""

    @property
    def is_floating_point(self) -> bool: ...


_OtherDType: TypeAlias = Literal["int", "float"] | _TorchDType | _NamedDType | type[Any]
DType: TypeAlias = DTypeName | Literal["bytes", "str"] | _OtherDType
RawDType: TypeAlias = RawDTypeName | _OtherDType
ImageDType: TypeAlias = (
    Literal["uint8", "uint16", "float32", "float64", "float16", "bfloat16"] | _OtherDType
)
OffsetDType: TypeAlias = OffsetDTypeName | _OtherDType

_INTEGERS: tuple[_NumberName, ...] = (
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool",
)  # fmt: skip
_FLOATS: tuple[_NumberName, ...] = ("float32", "float64", "float16", "bfloat16")
DTYPES: tuple[DTypeName, ...] = (*_INTEGERS, *_FLOATS, "string")
# Dtypes of arrays that are stored as raw bytes or serialized tensors.
RAW_DTYPES: tuple[RawDTypeName, ...] = (*_INTEGERS, *_FLOATS, "complex64", "complex128")

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "bool_": "bool",  # NumPy 1
}
# Includes NumPy's names of strings with a size, such as "bytes40".
_STRING_NAME = re.compile(r"string|(bytes|str)(\d+|_)?|object_?")
# NumPy has no bfloat16.
_ITEM_BYTES: dict[str, int] = {
    dtype: 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize for dtype in RAW_DTYPES
}
# The smallest numbers that round to infinity.
FLOAT_ENDS = {
    "float64": 2**1024 - 2**970,
    "float32": 2**128 - 2**103,
    "bfloat16": 2**128 - 2**119,
    "float16": 65520,
}

# Arrays have fewer values than this: strides are numbers of bytes in 63 bits.
MOST_VALUES = 2**60


def dtype_name(dtype: Any, allowed: Sequence[str] = DTYPES) -> str:
    """Return the name of a dtype.

    Args:
        dtype: A dtype of torch, NumPy or TensorFlow, a Python type or a name.
        allowed: Names that are allowed.

    Raises:
        SchemaError: If the dtype is not one of those allowed.
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if _STRING_NAME.fullmatch(name):
        name = "string"
    if name not in allowed:
        raise SchemaError(f"dtype must be one of {', '.join(allowed)}, got {dtype!r}")
    return name


def item_bytes(dtype: str) -> int:
    """Return the size of one element of a numeric dtype, in bytes."""
    return _ITEM_BYTES[dtype]


def is_integer_dtype(dtype: str) -> bool:
    """Return whether values of a dtype are stored as int64."""
    return dtype in _INTEGERS


def stored_dtype(dtype: str) -> StoredDTypeName:
    """Return the dtype that values are stored as: "int64", "float32" or "string"."""
    if dtype == "string":
        return "string"
    return "int64" if is_integer_dtype(dtype) else "float32"


@cache
def integer_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def numeric_bytes(values: Sequence[Any] | npt.NDArray[Any], dtype: str) -> bytes:
    """Return values in the form that a column stores them in, little-endian."""
    if dtype != "bfloat16":
        return np.asarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    # NumPy has no bfloat16: round the upper half of a float32 to nearest, ties to even.
    bits: npt.NDArray[np.uint32] = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(bits.view(np.float32)), 0x7FC0, rounded).astype("<u2").tobytes()
