"""The features of a record whose schema is not known, to show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["bytes", "float", "int64", "none"]


class ShownField(NamedTuple):
    """A feature or another field of a record, to show it.

    Attributes:
        kind: Type of the values, such as ``"int64"``; "none" for a feature without a list.
        values: The values. For a feature list: the values of each step. For a list of examples:
            the values in each example, None where an example does not have the feature.
        noun: Plural noun for the items of ``values``: "values", "steps" or "examples".
    """

    kind: str
    values: Sequence[Any]
    noun: str = "values"


Parts: TypeAlias = Mapping[str, Mapping[str, ShownField]]


class RecordKind(NamedTuple):
    """A kind of records.

    Attributes:
        name: Name to show.
        read: Returns the fields of a record by part and name; None if it is not of this kind.
            Text and bytes have no fields.
    """

    name: str
    read: Callable[[bytes], Parts | None]
