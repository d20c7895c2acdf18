"""Checks of the arguments of feature specs."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from .. import checks
from ..errors import SchemaError
from .dtypes import FLOAT_ENDS, MOST_VALUES, integer_range, is_integer_dtype

Shape: TypeAlias = "int | Sequence[int]"


def is_text(text: str) -> bool:
    """Return whether a str can be encoded as UTF-8, which one with surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def set_fields(spec: Any, **fields: Any) -> None:
    """Set fields of a frozen dataclass in its constructor."""
    for name, value in fields.items():
        object.__setattr__(spec, name, value)


@contextmanager
def errors_of(feature: str) -> Iterator[None]:
    """Add the name of a feature to each SchemaError that has none."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(error.reason, feature=error.feature or feature) from None


def check_integer(name: str, value: Any, least: int = 0, most: int = checks.MOST) -> int:
    """Return an argument as an int.

    Raises:
        SchemaError: If the argument is not an integer from ``least`` to ``most``.
    """
    return checks.check_integer(name, value, least, most, SchemaError)


def check_shape(shape: Shape, name: str = "shape") -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        SchemaError: If this is not a shape, or the shape of more values than fit in memory.
    """
    given: Any = shape
    try:
        sizes = (given,) if checks.is_integer(given) else tuple(given)
    except (TypeError, ValueError):  # ValueError: a TensorShape of unknown rank
        raise SchemaError(f"{name} must be a list of integers, got {shape!r}") from None
    for size in sizes:
        if not checks.is_integer(size) or size < 0:
            raise SchemaError(f"{name} must be a list of non-negative integers, got {shape!r}")
    if math.prod(max(1, int(size)) for size in sizes) >= MOST_VALUES:
        raise SchemaError(f"{name} must fit in memory, got {list(sizes)}")
    return tuple(int(size) for size in sizes)


def check_key(name: str, value: Any, kind: str = "a feature") -> None:
    """Check that an argument is the name of a feature, or of something else.

    Raises:
        SchemaError: If it is not.
    """
    if not isinstance(value, str) or not value or not is_text(value):
        raise SchemaError(f"{name} must be the name of {kind}, got {value!r}")


def check_own_key(key: Any) -> str | None:
    """Return the argument ``key`` of a spec.

    Raises:
        SchemaError: If it is neither the name of a feature nor None.
    """
    if key is not None:
        check_key("key", key)
    return None if key is None else str(key)


def check_names(names: Any, dtype: str) -> tuple[str, ...] | None:
    """Return the names of classes as a tuple.

    Raises:
        SchemaError: If these are not different texts, or the dtype is not an integer dtype.
    """
    if names is None:
        return None
    if not is_integer_dtype(dtype) or dtype == "bool":
        raise SchemaError(f"names need an integer dtype other than bool, got {dtype}")
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise SchemaError(f"names must be a list of str, got {names!r}")
    checked = tuple(names)
    for name in checked:
        if not isinstance(name, str) or not is_text(name):
            raise SchemaError(f"names must be a list of str, got the name {name!r}")
    if len(set(checked)) < len(checked):
        twice = next(name for name, count in Counter(checked).items() if count > 1)
        raise SchemaError(f"names must be different, got {twice!r} twice")
    return tuple(map(str, checked))


def check_default(value: Any, dtype: str, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """Return a default as a flat tuple of ints, floats or bytes.

    Returns:
        The values; None if there is no default, or one of no values.

    Raises:
        SchemaError: If the default does not have the shape or does not fit in the dtype.
    """
    if value is None:
        return None
    for convert in ("numpy", "tolist"):  # tensors, then arrays
        if hasattr(value, convert):
            value = getattr(value, convert)()
    values = tuple(_flatten(value))
    count = math.prod(shape)
    if len(values) != count:
        raise SchemaError(
            f"default_value must have {checks.counted(count, 'value')} for the shape "
            f"{list(shape)}, got {len(values)}"
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
        raise SchemaError(f"default_value must be str or bytes, got {item!r}")
    if isinstance(item, (bool, np.bool_)) and dtype == "bool":
        return int(item)
    if isinstance(item, bool) or not isinstance(item, (int, float, np.integer, np.floating)):
        raise SchemaError(f"default_value must be numbers, got {item!r}")
    if is_integer_dtype(dtype):
        if not isinstance(item, (int, np.integer)):
            raise SchemaError(f"default_value must be integers for {dtype}, got {item!r}")
        low, high = integer_range(dtype)
        if not low <= int(item) <= high:
            raise SchemaError(f"default_value must fit in {dtype}, got {item}")
        return int(item)
    return _check_float(item, dtype)


def _check_float(item: Any, dtype: str) -> float:
    number = item if isinstance(item, int) else float(item)
    if abs(number) >= FLOAT_ENDS[dtype] and number not in (math.inf, -math.inf):
        raise SchemaError(f"default_value must fit in {dtype}, got {item}")
    number = float(number)
    return _same_nan(struct.pack(">d", number)) if math.isnan(number) else number


@lru_cache(maxsize=256)
def _same_nan(bits: bytes) -> float:
    """Return the same NaN object for the same bits, so that it is equal to itself in tuples."""
    number: float = struct.unpack(">d", bits)[0]
    return number
