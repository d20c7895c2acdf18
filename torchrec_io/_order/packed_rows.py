"""Rows packed with documents, planned from the documents' lengths before any data is read."""

from __future__ import annotations

import bisect
import functools
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._records.repetitions import own_numbers
from .batch_sizes import BatchSizes
from .orders import ENDLESS, PositionOrder
from .pack import Pack
from .selection import Numbers
from .steps import TrainingSteps
from .windows import Lengths, WindowedOrder

# Number of documents in a window of joined ones. The rows do not depend on it.
_CHUNK_WINDOW = 4096


class PackedOrder(WindowedOrder):
    """Base of orders of rows that are packed with documents; their units are rows.

    Made by :func:`pack_rows`. Documents without tokens are left out, and so are long ones that are
    not split. The limit of a row is its length.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing.
        steps: Steps of the training; needed for a :class:`Ramp` of lengths.

    Attributes:
        pack: The options of packing.
    """

    has_rows = True

    def __init__(
        self,
        record_order: PositionOrder,
        lengths: Lengths,
        pack: Pack,
        steps: TrainingSteps | None = None,
    ) -> None:
        size = pack.window if pack.mode == "fit" else _CHUNK_WINDOW
        super().__init__(record_order, lengths, size, BatchSizes.of(pack.length), steps)
        self.pack = pack
        # The core looks up lengths of 32 bits; nothing larger fits in a record.
        self._lengths = np.ascontiguousarray(lengths.values, np.int32)
        if not pack.splits_long:  # documents are left out at all steps, or at none
            is_long = self._lengths > pack.least_length - pack.extra
            self._lengths = np.where(is_long, 0, self._lengths)

    def __reduce__(self) -> tuple[Any, ...]:
        return pack_rows, (self.record_order, self.lengths, self.pack, self.steps)

    def guess_count(self) -> int:
        return int(len(self) * self._mean_tokens / self.pack.least_length) + 1

    @functools.cached_property
    def _mean_tokens(self) -> float:
        values = self.lengths.values
        return float(values.mean()) + self.pack.extra if len(values) else 0.0

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of the documents of some rows."""
        return self.plan_units(units, epoch).numbers

    def plan_units(self, units: Numbers, epoch: int) -> _core.RowPlan:
        """Return some rows of one length; see :meth:`WindowedOrder.plan_units`."""
        rows = self._plan_rows(units, epoch)
        rows.length = self._limits(epoch).size(int(units[0]))
        return rows

    @abstractmethod
    def _plan_rows(self, units: Numbers, epoch: int) -> _core.RowPlan:
        """Return some rows without their length."""

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
        steps: Steps of the training; needed for a :class:`Ramp` of lengths.
    """

    def _measure(self, begin: int, end: int, epoch: int, limit: int) -> Numbers:
        numbers, cuts = self._records(begin, end, epoch)
        return _core.count_packed_rows(self._lengths, numbers, cuts, limit, self.pack.extra)

    def _plan(self, number: int, epoch: int, limit: int) -> _core.RowPlan:
        numbers, _ = self._records(number, number + 1, epoch)
        return _core.pack_window(self._lengths, numbers, limit, self.pack.extra)

    def _plan_again(
        self, units: _core.RowPlan, kept: int, number: int, epoch: int, limit: int
    ) -> _core.RowPlan:
        del number, epoch
        return units.repack(kept, limit)

    def _plan_rows(self, units: Numbers, epoch: int) -> _core.RowPlan:
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
        steps: Steps of the training; needed for a :class:`Ramp` of lengths.
    """

    def _limit_after(self, measure: int, epoch: int) -> tuple[int, int | None]:
        del measure, epoch
        return 0, None  # windows do not depend on the length of rows

    def _measure(self, begin: int, end: int, epoch: int, limit: int) -> Numbers:
        del limit
        numbers, cuts = self._records(begin, end, epoch)
        return _core.count_packed_tokens(self._lengths, numbers, cuts, self.pack.extra)

    def _units_in(self, measure: int, epoch: int, *, is_all: bool) -> int:
        rows = self._limits(epoch)
        has_short = is_all and self.pack.last == "pad"
        return rows.num_batches(measure) if has_short else rows.find(measure)

    def _plan(self, number: int, epoch: int, limit: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the records of a window, their lengths, and where each begins in the window."""
        del limit
        numbers, _ = self._records(number, number + 1, epoch)
        lengths = self._lengths[own_numbers(numbers)].astype(np.int64)
        has_tokens = lengths > 0
        numbers, lengths = numbers[has_tokens], lengths[has_tokens]
        whole = lengths + self.pack.extra
        return numbers, lengths, np.cumsum(whole) - whole

    def _plan_again(self, units: Any, kept: int, number: int, epoch: int, limit: int) -> Any:
        raise NotImplementedError  # windows have no changes

    def _plan_rows(self, units: Numbers, epoch: int) -> _core.RowPlan:
        bounds = self._find_bounds(units, epoch)
        runs = [(int(units[first]), int(units[last - 1]) + 1) for first, last in _runs(units, 1)]
        return join_rows([self._cut_rows(*run, bounds, epoch) for run in runs])

    def _cut_rows(self, begin: int, end: int, bounds: Numbers, epoch: int) -> _core.RowPlan:
        """Return consecutive rows of one length.

        Args:
            begin: Number of the first row.
            end: Number after the last row.
            bounds: Number of tokens before each window, and of all.
            epoch: Number of the epoch.
        """
        rows = self._limits(epoch)
        first, last = rows.begin(begin), min(rows.begin(end), int(bounds[-1]))
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
        return _core.cut_rows(numbers, lengths, starts, first - base, last - base, rows.size(begin))


def pack_rows(
    record_order: PositionOrder, lengths: Lengths, pack: Pack, steps: TrainingSteps | None = None
) -> PackedOrder:
    """Return an order of packed rows.

    Args:
        record_order: Order of the documents.
        lengths: Lengths of all records that ``record_order`` selects from.
        pack: The options of packing.
        steps: Steps of the training; needed for a :class:`Ramp` of lengths.
    """
    made = JoinedDocuments if pack.mode == "chunk" else WholeDocuments
    return made(record_order, lengths, pack, steps)


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
