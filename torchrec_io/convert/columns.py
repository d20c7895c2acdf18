"""The dtypes that the columns of tables need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import ConversionError

# A column that needs several of these dtypes gets the last one.
_ORDER = ("none", "object", "word", "string", "int64", "float32")


class FoundType(NamedTuple):
    """The dtype that the values of a column need, and the first value that needs it.

    Attributes:
        dtype: Stored dtype; "word" for nan and inf, which are numbers or text; "object" for values
            that an Example cannot store; "none" if there are no values.
        example: The value and its position, for an error message.
    """

    dtype: str
    example: str


def add_types(found: dict[str, FoundType], others: Mapping[str, FoundType]) -> None:
    """Add types that were found later in the sources.

    Raises:
        ConversionError: If a column has both numbers and text.
    """
    for name, other in others.items():
        one = found.setdefault(name, other)
        types = {one.dtype: one, other.dtype: other}
        text, number = types.get("string"), types.get("int64") or types.get("float32")
        if text and number:
            raise ConversionError(
                f"mixed types: {number.example} is a number, {text.example} is text; give the "
                'column a type, such as "string"',
                feature=name,
            )
        found[name] = max(one, other, key=lambda each: _ORDER.index(each.dtype))
        if types.keys() == {"word", "int64"}:
            found[name] = one._replace(dtype="float32")


def stored_dtypes(found: Mapping[str, FoundType], names: Iterable[str]) -> dict[str, str]:
    """Return the stored dtypes of the columns that have values.

    Raises:
        ConversionError: If an Example cannot store the values of a column.
    """
    dtypes = {name: found[name].dtype for name in names if name in found}
    for name, dtype in dtypes.items():
        if dtype == "object":
            raise ConversionError(
                f"an Example cannot store an object or list in a value: {found[name].example}; "
                "leave the column out with exclude",
                feature=name,
            )
    return {
        name: "float32" if dtype == "word" else dtype
        for name, dtype in dtypes.items()
        if dtype != "none"
    }
