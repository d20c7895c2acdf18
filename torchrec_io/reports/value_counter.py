"""Counts of the different values of a feature, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .content import TopValue, ValueSummary
from .extra import import_datasketches
from .text import decoded

V = TypeVar("V", int, bytes)

# Logarithms of the sizes of sketches: frequent values are found if they are more than 0.1 % of all,
# and the error of the number of different values is about 1.6 %.
_LOG_ITEMS = 12
_LOG_REGISTERS = 12
# Integers within such a range are counted in an array.
_MOST_BINS = 1 << 12


class ValueCounter(Generic[V]):
    """Counts of different values: exact up to a limit, and estimated by sketches above.

    Args:
        most: Largest number of different values that are counted exactly.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[V, int] | None = {}
        self._total = 0
        self._frequent: Any = None
        self._distinct: Any = None

    def add(self, counts: Iterable[tuple[V, int]]) -> None:
        """Add values with their numbers."""
        if self._counts is None:
            self._estimate(counts)
            return
        for value, count in counts:
            self._counts[value] = self._counts.get(value, 0) + count
            self._total += count
        if len(self._counts) > self._most:
            self._start_estimates(self._counts)

    def _start_estimates(self, counts: dict[V, int]) -> None:
        sketches = import_datasketches()
        self._frequent = sketches.frequent_items_sketch(_LOG_ITEMS)
        self._distinct = sketches.hll_sketch(_LOG_REGISTERS)
        self._counts = None
        self._total = 0
        self._estimate(counts.items())

    def _estimate(self, counts: Iterable[tuple[V, int]]) -> None:
        for value, count in counts:
            self._frequent.update(value, count)
            # The sketch takes no bytes. Latin-1 maps each byte to a character.
            self._distinct.update(value if isinstance(value, int) else value.decode("latin-1"))
            self._total += count

    def summary(self, most_listed: int, names: Mapping[int, str]) -> ValueSummary:
        """Return the number of different values, and the most frequent ones.

        Args:
            most_listed: Largest number of values to list.
            names: Names of the classes that the values are numbers of.
        """
        if self._counts is not None:
            found, distinct = list(self._counts.items()), len(self._counts)
        else:
            kind = import_datasketches().frequent_items_error_type.NO_FALSE_NEGATIVES
            found = [(row[0], row[1]) for row in self._frequent.get_frequent_items(kind)]
            distinct = min(self._total, max(self._most, round(self._distinct.get_estimate())))
        listed = sorted(found, key=lambda item: (-item[1], item[0]))[:most_listed]
        top = tuple(
            TopValue(decoded(value), count)
            if isinstance(value, bytes)
            else TopValue(value, count, names.get(value))
            for value, count in listed
        )
        others = max(0, self._total - sum(count for _, count in listed))
        return ValueSummary(distinct, self._counts is not None, top, others)


def count_integers(values: npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """Return the different values of an array and their numbers."""
    if not len(values):
        return []
    least, most = int(values.min()), int(values.max())
    if most - least < _MOST_BINS:
        bins = np.bincount(values - least)
        found = np.flatnonzero(bins)
        return zip((found + least).tolist(), bins[found].tolist(), strict=True)
    different, counts = np.unique(values, return_counts=True)
    return zip(different.tolist(), counts.tolist(), strict=True)
