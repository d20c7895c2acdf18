"""The numbers of values in the features of records, used to infer a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature

_UNSEEN = 1 << 63  # larger than any number of values


class ValueCounts:
    """The numbers of values in each feature, over all records."""

    def __init__(self) -> None:
        # Number of records with the feature, smallest and largest number of values.
        self._seen: dict[str, list[int]] = {}

    @classmethod
    def of(
        cls, rows: Iterable[Mapping[str, Any]], lists: frozenset[str] = frozenset()
    ) -> ValueCounts:
        """Count the values of records before they are serialized.

        Args:
            rows: Values of features by name: scalars, lists or arrays of shape ``[n]``.
            lists: Names of feature lists. Each of their steps is counted.
        """
        counts = cls()
        seen = counts._seen
        for row in rows:
            for name, value in row.items():
                known = seen.get(name)
                if known is None:
                    known = seen[name] = [0, _UNSEEN, 0]
                known[0] += 1
                for item in value if name in lists else (value,):
                    count = len(item) if isinstance(item, (list, np.ndarray)) else 1
                    if not known[1] <= count <= known[2]:
                        known[1:] = min(known[1], count), max(known[2], count)
        return counts

    def merge(self, other: ValueCounts) -> None:
        """Add the counts of other records."""
        for name, (present, least, most) in other._seen.items():
            known = self._seen.setdefault(name, [0, least, most])
            known[:] = known[0] + present, min(known[1], least), max(known[2], most)

    def to_json(self) -> dict[str, list[int]]:
        """Return the counts as JSON stores them."""
        return {name: list(known) for name, known in self._seen.items()}

    @classmethod
    def from_json(cls, members: Mapping[str, list[int]]) -> ValueCounts:
        """Return counts that JSON stored."""
        counts = cls()
        counts._seen = {name: list(known) for name, known in members.items()}
        return counts

    def schema(
        self, dtypes: Mapping[str, Any], records: int, lists: frozenset[str] = frozenset()
    ) -> Schema | None:
        """Return a schema by the rules of :meth:`Schema.infer`, or None if there are no features.

        Args:
            dtypes: Stored dtype of each feature, in the order of the schema.
            records: Number of records.
            lists: Names of feature lists.
        """
        context: dict[str, Feature] = {}
        sequence: dict[str, Feature] = {}
        for name, dtype in dtypes.items():
            if name not in self._seen:
                continue
            present, least, most = self._seen[name]
            spec: Feature = VarLenFeature(dtype)
            if least == most > 0:
                shape = [] if most == 1 else [most]
                if name in lists:
                    spec = FixedLenSequenceFeature(shape, dtype, allow_missing=present < records)
                elif present == records:
                    spec = FixedLenFeature(shape, dtype)
            (sequence if name in lists else context)[name] = spec
        if not (context or sequence):
            return None
        return Schema(context=context, sequence=sequence) if lists else Schema(context)
