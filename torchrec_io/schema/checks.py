"""Checks of what feature specs are given: shapes, keys, defaults."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ..errors import SchemaError
from .dtypes import FLOAT_ENDS, MOST_VALUES, integer_range, is_integer

Shape: TypeAlias = "int | Sequence[int]"


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold a str: not if it has surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, which a bool is not meant to be here."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def set_fields(spec: Any, **fields: Any) -> None:
    """Sets fields of a frozen dataclass, as its ``__init__`` must."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)


def check_shape(shape: Shape) -> tuple[int, ...]:
    """A shape as a tuple; a SchemaError if it is none, or of more values than fit in memory."""
    try:
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    except (TypeError, ValueError):  # the second from a TensorShape of unknown rank
        raise SchemaError(f"a shape must be whole numbers, not {shape!r}") from None
    for size in sizes:
        if not is_whole(size) or size < 0:
            raise SchemaError(f"every size of a shape must be a whole number, not {size!r}")
    if math.prod(max(1, int(size)) for size in sizes) >= MOST_VALUES:
        raise SchemaError(f"no memory holds values of the shape {list(sizes)}")
    return tuple(int(size) for size in sizes)


def check_key(key: Any, what: str) -> None:
    """Refuses what names no feature."""
    if not isinstance(key, str) or not key or not is_text(key):
        raise SchemaError(f"{what} must be a feature's name, not {key!r}")


def check_names(names: Any, dtype: str) -> tuple[str, ...] | None:
    """Names of classes as a tuple; a SchemaError if they are none, or not of an integer dtype."""
    if names is None:
        return None
    if not is_integer(dtype) or dtype == "bool":
        raise SchemaError(f"names are of classes that integers number, not values of {dtype}")
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise SchemaError(f"names must be a list of texts, not {names!r}")
    checked = tuple(names)
    for name in checked:
        if not isinstance(name, str) or not is_text(name):
            raise SchemaError(f"every one of the names must be text, not {name!r}")
    if len(set(checked)) < len(checked):
        twice = next(name for name, count in Counter(checked).items() if count > 1)
        raise SchemaError(f"the name {twice!r} is given to two classes")
    return tuple(map(str, checked))


def check_default(value: Any, dtype: str, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """A default as a flat tuple of ints, floats or bytes; None if it is empty."""
    for convert in ("numpy", "tolist"):  # tensors, then arrays
        if hasattr(value, convert):
            value = getattr(value, convert)()
    values = tuple(_flatten(value))
    count = math.prod(shape)
    if len(values) != count:
        raise SchemaError(
            f"default_value has {len(values)} values, the shape {list(shape)} holds {count}"
        )
    if not values:
        return None
    return tuple(_check_default_item(item, dtype) for item in values)


def _flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flatten(item)
    else:
        yield value


def _check_default_item(item: Any, dtype: str) -> Any:
    if dtype == "string":
        if isinstance(item, str) and is_text(item):
            return item.encode()
        if isinstance(item, (bytes, bytearray)):
            return bytes(item)
        raise SchemaError(f"default_value must be str or bytes, not {item!r}")
    if isinstance(item, (bool, np.bool_)) and dtype == "bool":
        return int(item)
    if isinstance(item, bool) or not isinstance(item, (int, float, np.integer, np.floating)):
        raise SchemaError(f"default_value must be numbers, not {item!r}")
    if is_integer(dtype):
        if not isinstance(item, (int, np.integer)):
            raise SchemaError(f"default_value {item!r} is no {dtype}: no cast loses digits here")
        low, high = integer_range(dtype)
        if not low <= int(item) <= high:
            raise SchemaError(f"default_value {item} does not fit in {dtype}")
        return int(item)
    return _check_float(item, dtype)


def _check_float(item: Any, dtype: str) -> float:
    number = item if isinstance(item, int) else float(item)
    if abs(number) >= FLOAT_ENDS[dtype] and number not in (math.inf, -math.inf):
        raise SchemaError(f"default_value {item} does not fit in {dtype}")
    number = float(number)
    return _one_nan(struct.pack(">d", number)) if math.isnan(number) else number


@lru_cache(maxsize=256)
def _one_nan(bits: bytes) -> float:
    """The same object for the same bits: so a nan equals itself where tuples are compared."""
    number: float = struct.unpack(">d", bits)[0]
    return number
