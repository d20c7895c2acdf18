"""How many values the features of records have: what a schema for them follows from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..features.schema import Schema
from ..features.specs import FixedLenFeature, VarLenFeature


class Shapes:
    """How many values each feature has, in how many records."""

    def __init__(self) -> None:
        self._seen: dict[str, list[int]] = {}  # records that have it, fewest and most values

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Shapes:
        """Of records that are yet to be serialized: values are scalars, lists or arrays [n]."""
        shapes = cls()
        for row in rows:
            for name, value in row.items():
                count = len(value) if isinstance(value, (list, np.ndarray)) else 1
                shapes._add(name, 1, count, count)
        return shapes

    def merge(self, other: Shapes) -> None:
        """Takes in those of other records."""
        for name, (present, least, most) in other._seen.items():
            self._add(name, present, least, most)

    def schema(self, kinds: Mapping[str, str], records: int) -> Schema | None:
        """A schema, by the rules of :meth:`Schema.infer`; None if there is nothing to read.

        Args:
            kinds: Stored dtype of each feature, in the order that they are to have.
            records: How many there are.
        """
        features = {
            name: _spec(dtype, records, *self._seen[name])
            for name, dtype in kinds.items()
            if name in self._seen
        }
        return Schema(features) if features else None

    def _add(self, name: str, present: int, least: int, most: int) -> None:
        seen = self._seen.setdefault(name, [0, least, most])
        seen[0] += present
        seen[1] = min(seen[1], least)
        seen[2] = max(seen[2], most)


def _spec(
    dtype: str, records: int, present: int, least: int, most: int
) -> FixedLenFeature | VarLenFeature:
    """As :meth:`Schema.infer`: as many values in every record, or any number."""
    if present < records or least != most or most == 0:
        return VarLenFeature(dtype)
    return FixedLenFeature([] if most == 1 else [most], dtype)
