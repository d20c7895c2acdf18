"""Counts of the different values of a feature, with bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .content import TopValue, ValueSummary
from .extra import import_extra
from .text import decoded

V = TypeVar("V", int, bytes)

# Logarithm of the size of a sketch: the error of the number of different values is about 1.6 %.
_LOG_REGISTERS = 12
# A sketch of frequent values is exact while that part of it is used.
_EXACT_LOAD = 0.75
# Integers within such a range are counted in an array.
_MOST_BINS = 1 << 12


class ValueCounter(Generic[V]):
    """Counts of different values by sketches, which are exact up to a limit.

    Args:
        most: Number of different values up to which all are counted exactly.
    """

    def __init__(self, most: int) -> None:
        sketches = import_extra("datasketches")
        self._most = most
        self._frequent: Any = sketches.frequent_items_sketch(
            math.ceil(math.log2(max(8, most) / _EXACT_LOAD))
        )
        self._distinct: Any = sketches.hll_sketch(_LOG_REGISTERS)

    def add(self, counts: Iterable[tuple[V, int]]) -> None:
        """Add values with their numbers."""
        for value, count in counts:
            self._frequent.update(value, count)
            # The sketch takes no bytes. Latin-1 maps each byte to a character.
            self._distinct.update(value if isinstance(value, int) else value.decode("latin-1"))

    def summary(self, most_listed: int, names: Mapping[int, str]) -> ValueSummary:
        """Return the number of different values, and the most frequent ones.

        Args:
            most_listed: Largest number of values to list.
            names: Names of the classes that the values are numbers of.
        """
        kind = import_extra("datasketches").frequent_items_error_type.NO_FALSE_NEGATIVES
        found = [(row[0], row[1]) for row in self._frequent.get_frequent_items(kind)]
        total = self._frequent.total_weight
        is_exact = self._frequent.get_upper_bound("") == 0  # a text is none of the values
        distinct = min(total, max(self._most, round(self._distinct.get_estimate())))
        listed = sorted(found, key=lambda item: (-item[1], item[0]))[:most_listed]
        top = tuple(
            TopValue(decoded(value), count)
            if isinstance(value, bytes)
            else TopValue(value, count, names.get(value))
            for value, count in listed
        )
        others = max(0, total - sum(count for _, count in listed))
        return ValueSummary(len(found) if is_exact else distinct, is_exact, top, others)


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
