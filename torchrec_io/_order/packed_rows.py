"""Rows packed with documents, planned from the documents' lengths before any data is read."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._records.repetitions import own_numbers
from .orders import ENDLESS, PositionOrder
from .pack import Pack
from .selection import Numbers
from .windows import Lengths, WindowedOrder


class PackedOrder(WindowedOrder):
    """Base of orders of rows that are packed with documents; their units are rows.

    Made by :func:`pack_rows`. Documents without tokens are left out, and so are long ones that are
    not split.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing.
        size: Maximum number of documents in a window.

    Attributes:
        pack: The options of packing.
    """

    has_rows = True

    def __init__(
        self, record_order: PositionOrder, lengths: Lengths, pack: Pack, size: int
    ) -> None:
        super().__init__(record_order, lengths, size)
        self.pack = pack
        # The core looks up lengths of 32 bits; nothing larger fits in a record.
        self._lengths = np.ascontiguousarray(lengths.values, np.int32)

    def __reduce__(self) -> tuple[Any, ...]:
        return pack_rows, (self.record_order, self.lengths, self.pack)

    def guess_count(self) -> int:
        return int(len(self) * self._mean_tokens / self.pack.length) + 1

    @functools.cached_property
    def _mean_tokens(self) -> float:
        values = self.lengths.values
        return float(values.mean()) + self.pack.extra if len(values) else 0.0

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of the documents of some rows."""
        rows: _core.RowPlan = self.plan_units(units, epoch)
        return rows.numbers

    def describe(self) -> dict[str, Any]:
        """Return all that the rows depend on."""
        return {**super().describe(), "pack": self.pack.describe()}

    def _window_begin(self, number: int) -> int:
        # Windows are of equal size.
        total = len(self)
        return number * self.size if total == ENDLESS else number * total // self.num_windows


class WholeDocuments(PackedOrder):
    """Rows of whole documents. Each window is packed for itself.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing, of mode ``"fit"``.
    """

    def __init__(self, record_order: PositionOrder, lengths: Lengths, pack: Pack) -> None:
        super().__init__(record_order, lengths, pack, pack.window)
        self._rule = (pack.length, pack.extra, pack.splits_long)

    def _measure(self, begin: int, end: int, epoch: int) -> Numbers:
        numbers, cuts = self._records(begin, end, epoch)
        return _core.count_packed_rows(self._lengths, numbers, cuts, *self._rule)

    def _plan_window(self, number: int, epoch: int) -> _core.RowPlan:
        numbers, _ = self._records(number, number + 1, epoch)
        return _core.pack_window(self._lengths, numbers, *self._rule)

    def plan_units(self, units: Numbers, epoch: int) -> _core.RowPlan:
        bounds = self._find_bounds(units, epoch)
        windows = bounds.searchsorted(units, side="right") - 1
        plans = []
        for first, last in _runs(windows, 0):
            window = int(windows[first])
            plan: _core.RowPlan = self._window(window, epoch)
            plans.append(plan.take(units[first:last] - bounds[window]))
        return join_rows(plans)


class JoinedDocuments(PackedOrder):
    """Rows that are cut from all documents of an epoch, joined. Windows are measured in tokens.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing, of mode ``"chunk"``.
    """

    # The rows do not depend on it.
    _SIZE = 4096

    def __init__(self, record_order: PositionOrder, lengths: Lengths, pack: Pack) -> None:
        super().__init__(record_order, lengths, pack, self._SIZE)

    def _measure(self, begin: int, end: int, epoch: int) -> Numbers:
        numbers, cuts = self._records(begin, end, epoch)
        return _core.count_packed_tokens(self._lengths, numbers, cuts, self.pack.extra)

    def _units_in(self, measure: int, *, is_all: bool) -> int:
        length = self.pack.length
        return -(-measure // length) if is_all and self.pack.last == "pad" else measure // length

    def _plan_window(self, number: int, epoch: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the records of a window, their lengths, and where each begins in the window."""
        numbers, _ = self._records(number, number + 1, epoch)
        lengths = self._lengths[own_numbers(numbers)].astype(np.int64)
        has_tokens = lengths > 0
        numbers, lengths = numbers[has_tokens], lengths[has_tokens]
        whole = lengths + self.pack.extra
        return numbers, lengths, np.cumsum(whole) - whole

    def plan_units(self, units: Numbers, epoch: int) -> _core.RowPlan:
        bounds = self._find_bounds(units, epoch)
        runs = [(int(units[first]), int(units[last - 1]) + 1) for first, last in _runs(units, 1)]
        return join_rows([self._cut_rows(*run, bounds, epoch) for run in runs])

    def _cut_rows(self, begin: int, end: int, bounds: Numbers, epoch: int) -> _core.RowPlan:
        """Return consecutive rows.

        Args:
            begin: Number of the first row.
            end: Number after the last row.
            bounds: Number of tokens before each window, and of all.
            epoch: Number of the epoch.
        """
        length = self.pack.length
        first, last = begin * length, min(end * length, int(bounds[-1]))
        low, high = bisect.bisect_right(bounds, first), bisect.bisect_right(bounds, last - 1)
        windows = [self._window(number, epoch) for number in range(low - 1, high)]
        numbers, lengths, starts = windows[0]
        base = int(bounds[low - 1])
        if len(windows) > 1:
            numbers, lengths = (
                np.concatenate([window[part] for window in windows]) for part in range(2)
            )
            begins = (bounds[low - 1 : high] - base).tolist()
            starts = np.concatenate(
                [window[2] + at for window, at in zip(windows, begins, strict=True)]
            )
        return _core.cut_rows(numbers, lengths, starts, first - base, last - base, length)


def pack_rows(record_order: PositionOrder, lengths: Lengths, pack: Pack) -> PackedOrder:
    """Return an order of packed rows.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing.
    """
    made = JoinedDocuments if pack.mode == "chunk" else WholeDocuments
    return made(record_order, lengths, pack)


def join_rows(plans: Sequence[_core.RowPlan]) -> _core.RowPlan:
    """Return the rows of all plans."""
    if len(plans) == 1:
        return plans[0]
    joined = _core.RowPlan()
    for plan in plans:
        joined.append(plan)
    return joined


def _runs(values: Numbers, step: int) -> list[tuple[int, int]]:
    """Return the index range of each run of integers whose distance is ``step``."""
    cuts = [0, *((values[1:] - values[:-1] != step).nonzero()[0] + 1).tolist(), len(values)]
    return list(itertools.pairwise(cuts))
