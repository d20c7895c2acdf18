"""Which kind of values a column has, as far as its values tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from ..errors import ConversionError

# A word is what may be a number, or text: nan, inf. Empty is a list without values.
Kind: TypeAlias = Literal["int", "float", "word", "text", "empty"]
STORED = ("int64", "float32", "string")
Types: TypeAlias = Mapping[str, str]

_MOST_SHOWN = 30


def shortened(value: str) -> str:
    """As much of a value as an error should show."""
    return value if len(value) <= _MOST_SHOWN else value[:_MOST_SHOWN] + "…"


class Place(NamedTuple):
    """Where a value of a kind was first seen, and the value."""

    path: str
    line: int
    value: str

    def __str__(self) -> str:
        return f"{shortened(self.value)} in line {self.line} of {self.path!r}"


class Kinds:
    """For each column, where each kind of value was first seen."""

    def __init__(self) -> None:
        self._first: dict[str, dict[Kind, Place]] = {}

    def sees(self, name: str, kind: Kind) -> bool:
        """Whether that column has such a value already."""
        return kind in self._first.get(name, ())

    def add(self, name: str, kind: Kind, place: Place) -> None:
        """Takes in a value; of several of a kind, the first counts."""
        self._first.setdefault(name, {}).setdefault(kind, place)

    def merge(self, later: Kinds) -> None:
        """Takes in what was seen further on."""
        for name, kinds in later._first.items():
            for kind, place in kinds.items():
                self.add(name, kind, place)

    def settle(self, types: Types) -> dict[str, str]:
        """The dtype that each column is to be stored as; none for those without any value.

        A column of integers is int64; of numbers otherwise, float32; of anything else, string.

        Args:
            types: Dtypes of columns that are not to be told by their values.

        Raises:
            ConversionError: a column holds both numbers and text.
        """
        told = {name: types.get(name) or _dtype(name, seen) for name, seen in self._first.items()}
        return {name: dtype for name, dtype in told.items() if dtype is not None}


def _dtype(name: str, seen: Mapping[Kind, Place]) -> str | None:
    number = seen.get("int") or seen.get("float")
    text = seen.get("text")
    if number and text:
        raise ConversionError(
            f"mixed types: {number} is a number, {text} is text; give the column a type, such as "
            '"string"',
            feature=name,
        )
    if text:
        return "string"
    if "float" in seen or "word" in seen:
        return "float32"
    return "int64" if number else None


def check_types(types: Types | None, names: Iterable[str] | None = None) -> Types:
    """The types, if they are some.

    Raises:
        ValueError: one is none that can be stored, or is for a column that is not there.
    """
    types = dict(types or {})
    for name, dtype in types.items():
        if dtype not in STORED:
            allowed = '"int64", "float32" or "string"'
            raise ValueError(f"the type of {name!r} must be {allowed}, not {dtype!r}")
    unknown = set(types) - set(types if names is None else names)
    if unknown:
        raise ValueError(f"a type is given for {min(unknown)!r}, which is no column")
    return types
