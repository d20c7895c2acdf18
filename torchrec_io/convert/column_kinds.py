"""The kinds of values in the columns of text files, and the dtypes that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from ..checks import check_choice
from ..errors import ConversionError

# A word is a number or text: nan, inf. Empty is a list without values.
Kind: TypeAlias = Literal["int", "float", "word", "text", "empty"]
Types: TypeAlias = Mapping[str, str]

_STORED_DTYPES = ("int64", "float32", "string")
_MAX_SHOWN = 30


def shortened(value: str) -> str:
    """Return the start of a value, for an error message."""
    return value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "…"


class FoundValue(NamedTuple):
    """A value and its position."""

    path: str
    line: int
    value: str

    def __str__(self) -> str:
        return f"{shortened(self.value)} in line {self.line} of {self.path!r}"


class ColumnKinds:
    """The kinds of values in each column, with the first value of each kind."""

    def __init__(self) -> None:
        self._first: dict[str, dict[Kind, FoundValue]] = {}

    def has(self, name: str, kind: Kind) -> bool:
        """Return whether a column has a value of a kind."""
        return kind in self._first.get(name, ())

    def add(self, name: str, kind: Kind, value: FoundValue) -> None:
        """Add a value, unless the column has one of this kind."""
        self._first.setdefault(name, {}).setdefault(kind, value)

    def merge(self, later: ColumnKinds) -> None:
        """Add the values that were found later in the source."""
        for name, kinds in later._first.items():
            for kind, value in kinds.items():
                self.add(name, kind, value)

    def to_json(self) -> dict[str, dict[str, list[str | int]]]:
        """Return the kinds as JSON stores them."""
        return {
            name: {kind: list(value) for kind, value in kinds.items()}
            for name, kinds in self._first.items()
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Mapping[Kind, Sequence[Any]]]) -> ColumnKinds:
        """Return the kinds that :meth:`to_json` returned."""
        found = cls()
        for name, kinds in members.items():
            for kind, value in kinds.items():
                found.add(name, kind, FoundValue(*value))
        return found

    def dtypes(self, types: Types) -> dict[str, str]:
        """Return the stored dtype of each column that has values.

        A column of integers is int64, one of other numbers float32, any other one string.

        Args:
            types: Dtypes of columns that do not depend on their values.

        Raises:
            ConversionError: If a column has both numbers and text.
        """
        found = {name: types.get(name) or _dtype(name, seen) for name, seen in self._first.items()}
        return {name: dtype for name, dtype in found.items() if dtype is not None}


def _dtype(name: str, seen: Mapping[Kind, FoundValue]) -> str | None:
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
    """Return the argument ``types`` of a conversion.

    Args:
        types: Stored dtypes by column.
        names: Names of all columns, if they are known.

    Raises:
        ValueError: If a dtype cannot be stored or there is no such column.
    """
    types = dict(types or {})
    for name, dtype in types.items():
        check_choice(f"the type of {name!r}", dtype, _STORED_DTYPES)
    unknown = set(types) - set(types if names is None else names)
    if unknown:
        raise ValueError(f"types has {min(unknown)!r}, which is not a column")
    return types
