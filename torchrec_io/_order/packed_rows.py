"""Rows packed with documents, planned from the documents' lengths before any data is read."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._records.reader import Reader
from .._records.record_reader import RecordReader
from .._storage.thread_pool import map_in_threads
from .latest import Latest
from .orders import ENDLESS, PlanOf, PositionOrder
from .pack import Pack
from .selection import Numbers

if TYPE_CHECKING:
    from .length_batches import Lengths

# Documents that are counted at a time: enough for threads, and few enough for the caches.
_AT_ONCE = 1 << 18
# Such groups that are counted together until a row is found.
_GROUPS_AT_ONCE = 16
# Rows of a batch may come from two windows, and those of a padded epoch from its start.
_WINDOWS_KEPT = 3
# A thread that prefetches may be in the next epoch already.
_EPOCHS_KEPT = 2


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows that are still to be loaded, by their documents.

    Attributes:
        rows: The rows, and the pieces of documents in each.
    """

    rows: _core.RowPlan

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def numbers(self) -> Numbers:
        """Record number of each document."""
        return self.rows.numbers

    def split(self, count: int) -> tuple[PackedRows, PackedRows]:
        """Return the first ``count`` rows, and the others."""
        every = np.arange(len(self))
        return PackedRows(self.rows.take(every[:count])), PackedRows(self.rows.take(every[count:]))

    @classmethod
    def joined(cls, parts: Sequence[PackedRows]) -> PackedRows:
        """Return the rows of several parts as one."""
        return cls(_joined([part.rows for part in parts]))

    def plan(self, reader: Any) -> Any:
        """Return a reader's plan to fetch the documents."""
        return reader.plan(self.numbers)


class PackedOrder:
    """Rows packed with documents. An :class:`~torchrec_io._order.orders.Order`; its units are rows.

    The rows of an epoch depend on the order of its documents and their lengths alone, and rows are
    assigned to ranks and workers as records are in other orders. Documents without tokens are left
    out, and so are long ones that are not split.

    Instances are thread-safe and can be pickled.

    Args:
        whole: Order of the documents.
        lengths: Lengths of all records that ``whole`` selects from.
        pack: The options of packing.

    Attributes:
        whole: Order of the documents.
        lengths: Lengths of all records that ``whole`` selects from.
        pack: The options of packing.
    """

    has_batches = False
    has_rows = True
    lanes = None

    def __init__(self, whole: PositionOrder, lengths: Lengths, pack: Pack) -> None:
        self.whole = whole
        self.lengths = lengths
        self.pack = pack
        self._windows: _Windows = _Chunks(self) if pack.mode == "chunk" else _Fits(self)
        self._epochs = Latest(lambda epoch: EpochRows(self._windows, epoch), _EPOCHS_KEPT)

    def __len__(self) -> int:
        return len(self.whole)

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedOrder, (self.whole, self.lengths, self.pack)

    @property
    def total(self) -> int:
        """Number of records that those of an epoch are selected from."""
        return self.whole.total

    @property
    def seed(self) -> int:
        """Seed of the shuffle."""
        return self.whole.seed

    def guess_count(self) -> int:
        """Return about the number of rows in an epoch, without counting them."""
        return int(len(self) * self._mean_tokens / self.pack.length) + 1

    @functools.cached_property
    def _mean_tokens(self) -> float:
        values = self.lengths.values
        return float(values.mean()) + self.pack.extra if len(values) else 0.0

    def count(self, epoch: int) -> int:
        """Return the number of rows in an epoch. The first call looks at all of its lengths."""
        return ENDLESS if len(self) == ENDLESS else len(self.epoch(epoch))

    def deal(self, epoch: int, plan_of: PlanOf, consumed: int) -> Iterator[PackedRows]:
        """Yield the rows of each batch of a process.

        The number of batches follows from all lengths of the epoch. Until they are known, a step is
        complete if the last of its rows exists.
        """
        rows = self.epoch(epoch)
        plan = plan_of(ENDLESS)
        step = plan.world_size * plan.batch_size
        for units in plan.batches(consumed):
            done = int(units[0]) - plan.begin
            if not rows.reaches(plan.begin + (done // step + 1) * step - 1):
                break
            yield PackedRows(rows.plan(units))
            consumed += len(units)
        for units in plan_of(self.count(epoch)).batches(consumed):
            yield PackedRows(rows.plan(units))

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of the documents of some rows."""
        return self.epoch(epoch).plan(units).numbers

    def describe(self) -> dict[str, Any]:
        """Return all that the rows depend on."""
        return {
            **self.whole.describe(),
            "lengths": self.lengths.fingerprint(),
            "pack": self.pack.describe(),
        }

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return the reader that fits the order of the documents, window by window."""
        del at_once
        return self.whole.fit_reader(reader, self.pack.window)

    def epoch(self, epoch: int) -> EpochRows:
        """Return the rows of an epoch."""
        return self._epochs.get(epoch)


class EpochRows:
    """The rows of one epoch, planned window by window when they are needed.

    It keeps a number for each window seen and the rows of the latest windows. No lock is needed:
    threads that plan the same window get the same result.

    Args:
        windows: Plans a window.
        epoch: Number of the epoch.
    """

    def __init__(self, windows: _Windows, epoch: int) -> None:
        self.epoch = epoch
        self._windows = windows
        # Before each window counted so far, and at the end: the number of rows, or of tokens.
        self._ends = np.zeros(1, np.int64)
        self._window = Latest(lambda number: windows.find(number, epoch), _WINDOWS_KEPT)

    def __len__(self) -> int:
        """Return the number of rows in the epoch; counts all windows."""
        ends, count = self._ends, self._windows.count
        first = len(ends) - 1
        if first < count:
            ends = self._ends = _extended(ends, self._measure(first, count))
        return self._windows.rows_in(int(ends[-1]), is_all=True)

    def reaches(self, number: int) -> bool:
        """Return whether a row of this number exists; counts no more windows than needed."""
        return self._ends_of(number) is not None

    def plan(self, units: Numbers) -> _core.RowPlan:
        """Return rows by their numbers.

        Raises:
            IndexError: If the epoch has no such row.
        """
        first, last = int(units.min()), int(units.max())
        ends = self._ends_of(last) if first >= 0 else None
        if ends is None:
            raise IndexError(f"epoch {self.epoch} has no rows {first}..{last}")
        return self._windows.plan(units, ends, self._window.get)

    def _ends_of(self, number: int) -> Numbers | None:
        """Return what is before each window up to that of a row; None if there is no such row."""
        # Not the attribute: another thread may replace it.
        ends = self._ends
        while True:
            counted = len(ends) - 1
            is_all = counted >= self._windows.count
            if number < self._windows.rows_in(int(ends[-1]), is_all=is_all):
                return ends
            if is_all:
                return None
            # More at a time than before, as a resumed run counts many: enough for some threads.
            most = max(1, _GROUPS_AT_ONCE * _AT_ONCE // self._windows.size)
            end = min(self._windows.count, counted + min(most, counted + 1))
            ends = self._ends = _extended(ends, self._measure(counted, end))

    def _measure(self, begin: int, end: int) -> Numbers:
        """Return the number of rows, or of tokens, of each of some windows; uses threads."""
        size = max(1, _AT_ONCE // self._windows.size)
        groups = [(at, min(at + size, end)) for at in range(begin, end, size)]
        if len(groups) == 1:
            return self._windows.measure(begin, end, self.epoch)
        return np.concatenate(
            map_in_threads(lambda group: self._windows.measure(*group, self.epoch), groups)
        )


class _Windows:
    """Cuts the documents of an epoch into windows, and counts what is in each.

    Args:
        order: The order.
        size: Maximum number of documents in a window.

    Attributes:
        size: Maximum number of documents in a window.
        count: Number of windows.
    """

    def __init__(self, order: PackedOrder, size: int) -> None:
        self.size = size
        self.count = -(-len(order.whole) // size)
        self._whole = order.whole
        # The core looks up lengths of 32 bits; nothing larger fits in a record.
        self._lengths = np.ascontiguousarray(order.lengths.values, np.int32)
        self._pack = order.pack

    def _cut(self, number: int) -> int:
        """Return the position at which a window begins. Windows are of equal size."""
        total = len(self._whole)
        return number * self.size if total == ENDLESS else number * total // self.count

    def _numbers(self, begin: int, end: int, epoch: int) -> tuple[Numbers, Numbers]:
        """Return the records of some windows, and where each window begins and the last ends."""
        cuts = np.array([self._cut(number) for number in range(begin, end + 1)], np.int64)
        positions = np.arange(cuts[0], cuts[-1], dtype=np.int64)
        return self._whole.at(positions, epoch), cuts - cuts[0]

    def measure(self, begin: int, end: int, epoch: int) -> Numbers:
        """Return the number of rows, or of tokens, of each of some windows."""
        raise NotImplementedError

    def rows_in(self, measured: int, *, is_all: bool) -> int:
        """Return the number of rows in the windows so far.

        Args:
            measured: Sum of what :meth:`measure` returned.
            is_all: Whether these are all windows of the epoch.
        """
        raise NotImplementedError

    def find(self, number: int, epoch: int) -> Any:
        """Return a window, for :meth:`plan`."""
        raise NotImplementedError

    def plan(self, units: Numbers, ends: Numbers, window: Callable[[int], Any]) -> _core.RowPlan:
        """Return rows.

        Args:
            units: Numbers of the rows, at least one.
            ends: Number of rows, or of tokens, before each window and at the end.
            window: Returns a window by its number.
        """
        raise NotImplementedError


class _Fits(_Windows):
    """Windows of documents that are packed whole."""

    def __init__(self, order: PackedOrder) -> None:
        super().__init__(order, order.pack.window)
        self._pieces = (order.pack.length, order.pack.extra, order.pack.splits_long)

    def measure(self, begin: int, end: int, epoch: int) -> Numbers:
        numbers, cuts = self._numbers(begin, end, epoch)
        return _core.count_packed_rows(self._lengths, numbers, cuts, *self._pieces)

    def rows_in(self, measured: int, *, is_all: bool) -> int:
        del is_all
        return measured

    def find(self, number: int, epoch: int) -> _core.RowPlan:
        numbers, _ = self._numbers(number, number + 1, epoch)
        return _core.pack_window(self._lengths, numbers, *self._pieces)

    def plan(self, units: Numbers, ends: Numbers, window: Callable[[int], Any]) -> _core.RowPlan:
        numbers = ends.searchsorted(units, side="right") - 1
        firsts = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist()]
        parts = []
        for first, end in itertools.pairwise([*firsts, len(units)]):
            number = int(numbers[first])
            plan: _core.RowPlan = window(number)
            parts.append(plan.take(units[first:end] - ends[number]))
        return _joined(parts)


class _Chunks(_Windows):
    """Windows of documents that are joined; each is a part of the one sequence of tokens."""

    # The rows do not depend on it.
    _SIZE = 4096

    def __init__(self, order: PackedOrder) -> None:
        super().__init__(order, self._SIZE)

    def measure(self, begin: int, end: int, epoch: int) -> Numbers:
        numbers, cuts = self._numbers(begin, end, epoch)
        return _core.count_packed_tokens(self._lengths, numbers, cuts, self._pack.extra)

    def rows_in(self, measured: int, *, is_all: bool) -> int:
        length = self._pack.length
        return -(-measured // length) if is_all and self._pack.last == "pad" else measured // length

    def find(self, number: int, epoch: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the records of a window, their lengths, and where each begins in the window."""
        numbers, _ = self._numbers(number, number + 1, epoch)
        numbers = numbers[self._lengths[numbers] > 0]
        lengths = self._lengths[numbers].astype(np.int64)
        whole = lengths + self._pack.extra
        return numbers, lengths, np.cumsum(whole) - whole

    def plan(self, units: Numbers, ends: Numbers, window: Callable[[int], Any]) -> _core.RowPlan:
        return _joined([self._cut_run(*run, ends, window) for run in _runs(units)])

    def _cut_run(
        self, begin: int, end: int, ends: Numbers, window: Callable[[int], Any]
    ) -> _core.RowPlan:
        """Return the rows from one to another; see :meth:`plan`."""
        length = self._pack.length
        first, last = begin * length, min(end * length, int(ends[-1]))
        low, high = bisect.bisect_right(ends, first), bisect.bisect_right(ends, last - 1)
        numbers, lengths, starts = window(low - 1)
        base = int(ends[low - 1])
        if low < high:
            others = [window(number) for number in range(low, high)]
            numbers = np.concatenate([numbers, *(each[0] for each in others)])
            lengths = np.concatenate([lengths, *(each[1] for each in others)])
            begins = ends[low:high] - base
            shifted = [each[2] + at for each, at in zip(others, begins, strict=True)]
            starts = np.concatenate([starts, *shifted])
        return _core.cut_rows(numbers, lengths, starts, first - base, last - base, length)


def _joined(plans: Sequence[_core.RowPlan]) -> _core.RowPlan:
    if len(plans) == 1:
        return plans[0]
    joined = _core.RowPlan()
    for plan in plans:
        joined.append(plan)
    return joined


def _extended(ends: Numbers, counts: Numbers) -> Numbers:
    """Return the sums before each window, with those of the windows that follow."""
    return np.concatenate((ends, ends[-1] + np.cumsum(counts)))


def _runs(units: Numbers) -> list[tuple[int, int]]:
    """Return the first number of each run of consecutive numbers, and that after its last one."""
    cuts = [0, *((units[1:] - units[:-1] != 1).nonzero()[0] + 1).tolist(), len(units)]
    return [(int(units[begin]), int(units[end - 1]) + 1) for begin, end in itertools.pairwise(cuts)]
