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
        seen = shapes._seen
        for row in rows:
            for name, value in row.items():
                count = len(value) if isinstance(value, (list, np.ndarray)) else 1
                if (known := seen.get(name)) is None:
                    seen[name] = [1, count, count]
                    continue
                known[0] += 1
                if count < known[1]:
                    known[1] = count
                elif count > known[2]:
                    known[2] = count
        return shapes

    def merge(self, other: Shapes) -> None:
        """Takes in those of other records."""
        for name, (present, least, most) in other._seen.items():
            known = self._seen.setdefault(name, [0, least, most])
            known[:] = known[0] + present, min(known[1], least), max(known[2], most)

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


def _spec(
    dtype: str, records: int, present: int, least: int, most: int
) -> FixedLenFeature | VarLenFeature:
    """As :meth:`Schema.infer`: as many values in every record, or any number."""
    if present < records or least != most or most == 0:
        return VarLenFeature(dtype)
    return FixedLenFeature([] if most == 1 else [most], dtype)
