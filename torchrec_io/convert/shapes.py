"""How many values the features of records have: what a schema for them follows from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature

_NONE = 1 << 63  # more than anything has, before the first was seen


class Shapes:
    """How many values each feature has, in how many records."""

    def __init__(self) -> None:
        self._seen: dict[str, list[int]] = {}  # records that have it, fewest and most values

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], lists: frozenset[str] = frozenset()) -> Shapes:
        """Of records that are yet to be serialized.

        Args:
            rows: Values of features by name: scalars, lists or arrays [n].
            lists: Features that are lists of such values, of which each one counts.
        """
        shapes = cls()
        seen = shapes._seen
        for row in rows:
            for name, value in row.items():
                known = seen.get(name)
                if known is None:
                    known = seen[name] = [0, _NONE, 0]
                known[0] += 1
                for item in value if name in lists else (value,):
                    count = len(item) if isinstance(item, (list, np.ndarray)) else 1
                    if not known[1] <= count <= known[2]:
                        known[1:] = min(known[1], count), max(known[2], count)
        return shapes

    def merge(self, other: Shapes) -> None:
        """Takes in those of other records."""
        for name, (present, least, most) in other._seen.items():
            known = self._seen.setdefault(name, [0, least, most])
            known[:] = known[0] + present, min(known[1], least), max(known[2], most)

    def schema(
        self, kinds: Mapping[str, str], records: int, lists: frozenset[str] = frozenset()
    ) -> Schema | None:
        """A schema, by the rules of :meth:`Schema.infer`; None if there is nothing to read.

        Args:
            kinds: Stored dtype of each feature, in the order that they are to have.
            records: How many there are.
            lists: Features that are lists of steps.
        """
        names = [name for name in kinds if name in self._seen]
        context = {
            name: _spec(kinds[name], records, *self._seen[name])
            for name in names
            if name not in lists
        }
        sequence = {
            name: _list_spec(kinds[name], records, *self._seen[name])
            for name in names
            if name in lists
        }
        if not names:
            return None
        return Schema(context=context, sequence=sequence) if lists else Schema(context)


def _spec(
    dtype: str, records: int, present: int, least: int, most: int
) -> FixedLenFeature | VarLenFeature:
    """As many values in every record, or any number."""
    if present < records or least != most or most == 0:
        return VarLenFeature(dtype)
    return FixedLenFeature(_shape(most), dtype)


def _list_spec(
    dtype: str, records: int, present: int, least: int, most: int
) -> FixedLenSequenceFeature | VarLenFeature:
    """As many values in every step, or any number."""
    if least != most or most == 0:
        return VarLenFeature(dtype)
    return FixedLenSequenceFeature(_shape(most), dtype, allow_missing=present < records)


def _shape(count: int) -> list[int]:
    return [] if count == 1 else [count]
