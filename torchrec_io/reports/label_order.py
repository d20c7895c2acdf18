"""Dependence of the label of a record on its position: is the data sorted?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .content import LabelOrder

Table = npt.NDArray[np.int64]

_MOST_CLASSES = 512  # more share one row
_MOST_FILES = 256  # groups of neighboring files
_PARTS = 10  # of a file
_INTERVALS = 16  # of a label with many values
# From this strength on, an order matters for training. Reasons if it does, in the order in which
# the strengths are reported.
_STRONG = 0.2
_CAUSES = (
    "different files have different labels",
    "labels change from the start of a file to its end",
    "records with the same label are stored side by side",
)
# A dependence that chance explains is none: standard deviations above the expected value.
_SIGNIFICANT = 5


class LabelOrderStatistics:
    """Counts of labels by file, by position in the file, and of neighbors with equal labels.

    Args:
        ends: End of the records of each file, in the numbers of all files.
        preview: Labels of some records from everywhere. If they are numbers with many different
            values, intervals of them are the classes.
    """

    def __init__(self, ends: npt.NDArray[np.int64], preview: Sequence[Any]) -> None:
        self._ends = ends
        self._starts = np.concatenate([[0], ends[:-1]])
        self._edges = _intervals(preview)
        self._classes: dict[Any, int] = {}
        groups = min(len(ends), _MOST_FILES)
        self._group_of = np.arange(len(ends)) * groups // len(ends)
        self._by_file = np.zeros((groups, _MOST_CLASSES), np.int64)
        self._by_part = np.zeros((_PARTS, _MOST_CLASSES), np.int64)
        self._pairs = self._equal = 0

    def add(self, records: npt.NDArray[np.int64], labels: Sequence[Any]) -> None:
        """Add records, by their increasing numbers, and their labels."""
        if not len(labels):
            return
        classes = self._classes_of(labels)
        files = np.searchsorted(self._ends, records, "right")
        starts, ends = self._starts[files], self._ends[files]
        parts = (records - starts) * _PARTS // (ends - starts)
        np.add.at(self._by_file, (self._group_of[files], classes), 1)
        np.add.at(self._by_part, (parts, classes), 1)
        are_neighbors = (np.diff(records) == 1) & (np.diff(files) == 0)
        self._pairs += int(are_neighbors.sum())
        self._equal += int((are_neighbors & (np.diff(classes) == 0)).sum())

    def _classes_of(self, labels: Sequence[Any]) -> npt.NDArray[np.int64]:
        if self._edges is not None:
            numbers = np.nan_to_num(np.asarray(labels, np.float64))
            return np.searchsorted(self._edges, numbers, "right")
        known, last = self._classes, _MOST_CLASSES - 1
        codes = [known.setdefault(label, min(len(known), last)) for label in labels]
        return np.array(codes, np.int64)

    def result(self, label: str) -> LabelOrder:
        """Return the strength of each dependence on the label, and the shuffle that it needs."""
        found = _cramers_v(self._by_file), _cramers_v(self._by_part), self._neighbors()
        causes = [why for each, why in zip(found, _CAUSES, strict=True) if (each or 0) > _STRONG]
        classes = int(self._by_part.any(axis=0).sum())
        verdict, shuffle = _verdict(causes, classes), "True" if causes else "10_000"
        return LabelOrder(label, classes, *found, bool(causes), verdict, shuffle)

    def _neighbors(self) -> float | None:
        """Return the excess of neighbors with equal labels over chance, from 0 to 1."""
        totals = self._by_part.sum(axis=0)
        if not self._pairs or np.count_nonzero(totals) < 2:
            return None
        chance = float(np.square(totals / totals.sum()).sum())
        share = self._equal / self._pairs
        deviation = math.sqrt(chance * (1 - chance) / self._pairs)
        if share - chance < _SIGNIFICANT * deviation:
            return 0.0
        return (share - chance) / (1 - chance)


def _intervals(preview: Sequence[Any]) -> npt.NDArray[np.float64] | None:
    """Return the limits of intervals of numbers with many values, and None for classes."""
    numbers = [label for label in preview if isinstance(label, (int, float))]
    has_fractions = any(isinstance(label, float) and label % 1 for label in numbers)
    different = len(set(numbers))
    is_continuous = has_fractions or different > max(50, len(numbers) / 2)
    if len(numbers) < len(preview) or different <= _INTERVALS or not is_continuous:
        return None
    finite = np.array(numbers, np.float64)
    finite = finite[np.isfinite(finite)]
    ranks = np.arange(1, _INTERVALS) / _INTERVALS
    return np.unique(np.quantile(finite, ranks)) if len(finite) else np.zeros(1)


def _cramers_v(table: Table) -> float | None:
    """Return the bias-corrected Cramér's V of two variables (Bergsma 2013).

    None with fewer than two rows or columns that have values, and 0 for what chance explains.
    """
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    rows, columns = table.shape
    total = int(table.sum())
    if rows < 2 or columns < 2 or total < 2:
        return None
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    chi_squared = float((np.square(table - expected) / expected).sum())
    freedom = (rows - 1) * (columns - 1)
    if chi_squared < freedom + _SIGNIFICANT * math.sqrt(2 * freedom):
        return 0.0
    phi = max(0.0, chi_squared / total - freedom / (total - 1))
    most = min(rows - (rows - 1) ** 2 / (total - 1), columns - (columns - 1) ** 2 / (total - 1)) - 1
    return min(1.0, math.sqrt(phi / most)) if most > 0 else None


def _verdict(causes: Sequence[str], classes: int) -> str:
    if classes < 2:
        return "All inspected records have the same label, so their order does not matter."
    if not causes:
        return "The data is already mixed: the label does not depend on where a record is stored."
    *first, last = causes
    text = f"{', '.join(first)} and {last}" if first else last
    return f"The data is not mixed: {text}. Read in this order, batches have similar labels."
