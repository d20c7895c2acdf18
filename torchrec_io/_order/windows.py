"""Orders whose units are planned window by window, from the lengths of records."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records.reader import Reader
from .._records.record_reader import RecordReader
from .._storage.digest import digest_text
from .._storage.thread_pool import map_in_threads
from .batch_sizes import BatchSizes
from .orders import ENDLESS, Order, PlanOf, PositionOrder
from .selection import Numbers
from .steps import TrainingSteps

# Records that a thread counts at a time: few enough for the caches of the processor.
_AT_ONCE = 1 << 18
# Such groups that are counted together until a unit is found.
_GROUPS_AT_ONCE = 16
# Units of a batch may come from two windows, and those of a padded epoch from its start. A thread
# that prefetches may be in the next epoch already.
_WINDOWS_KEPT = 4
_EPOCHS_KEPT = 2
_NOTHING_COUNTED = np.zeros(1, np.int64)


class Lengths:
    """The length of each record of some files, by record number.

    Args:
        values: Integers ``[N]``, none of them negative.
        feature: Feature whose lengths these are, if they were found in the records.

    Attributes:
        values: int32 ``[N]``, or int64 if a length needs it.
        feature: Feature whose lengths these are; None if they were given.

    Raises:
        ValueError: If a length is negative.
    """

    def __init__(self, values: npt.NDArray[Any], feature: object = None) -> None:
        if len(values) and values.min() < 0:
            record = int(np.argmin(values))
            raise ValueError(
                f"lengths must not be negative, got {values[record]} for record {record}"
            )
        is_narrow = len(values) == 0 or values.max() < 2**31
        self.values: npt.NDArray[np.int32 | np.int64]
        self.values = values.astype(np.int32 if is_narrow else np.int64)  # a copy of our own
        self.feature = feature
        self._fingerprint: str | None = None

    def fingerprint(self) -> str:
        """Return a short text that is equal for equal lengths."""
        if self._fingerprint is None:
            self._fingerprint = digest_text(f"{self.values.dtype}:", self.values.data)
        return self._fingerprint


class WindowedOrder(Order):
    """Base of orders whose units are planned from the lengths of records.

    The order of the records is cut into windows of consecutive records, and the units of a window
    are planned when they are needed. So the units of an epoch depend on the order of the records
    and their lengths alone, and units are assigned to ranks and workers as records are in other
    orders.

    A unit has a limit, such as the length of a row. With a :class:`Ramp` of limits, the windows
    are the same for all limits. A window in which the limit changes has units of the old limit up
    to the change; its other records are planned again with the new one.

    Instances are thread-safe and can be pickled. They keep the latest windows and a number for each
    window that was counted. No lock is needed: threads that plan the same window get the same
    result.

    Args:
        record_order: Order of the records.
        lengths: Lengths of all records that ``record_order`` selects from.
        size: Maximum number of records in a window.
        limits: Limit of the units of each step of the training.
        steps: Steps of the training; needed to plan units whose limits change.

    Attributes:
        record_order: Order of the records.
        lengths: Lengths of all records that ``record_order`` selects from.
        size: Maximum number of records in a window.
        limits: Limit of the units of each step of the training.
        limits_of_units: Limit of each unit of the training, if its steps are known.
        steps: Steps of the training, if they are known.
        num_windows: Number of windows in an epoch.
    """

    def __init__(
        self,
        record_order: PositionOrder,
        lengths: Lengths,
        size: int,
        limits: BatchSizes,
        steps: TrainingSteps | None,
    ) -> None:
        self.record_order = record_order
        self.lengths = lengths
        self.size = size
        self.limits = limits
        self.steps = steps
        self.num_windows = -(-len(record_order) // size)
        # By epoch: measure of all windows before each window that was counted, and of all of these.
        self._bounds: dict[int, Numbers] = {}
        self._counts: dict[int, int] = {}
        self.limits_of_units = limits if steps is None else steps.by_unit(limits)
        # Units before each epoch, up to the first epoch after the last change of a limit.
        self._begins = [0]
        self._limits = functools.lru_cache(maxsize=_EPOCHS_KEPT)(self._find_limits)
        self._planned = functools.lru_cache(maxsize=_WINDOWS_KEPT)(self._plan)
        self._window = functools.lru_cache(maxsize=_WINDOWS_KEPT)(self._plan_window)
        self.in_steps = functools.lru_cache(maxsize=1)(self._put_in_steps)

    @abstractmethod
    def __reduce__(self) -> tuple[Any, ...]:
        """Return a function and its arguments, of which the last one is :attr:`steps`."""

    def _put_in_steps(self, steps: TrainingSteps) -> WindowedOrder:
        """Return this order for the steps of a training. ``in_steps`` keeps the result."""
        make, (*others, _) = self.__reduce__()
        order: WindowedOrder = make(*others, steps)
        return order

    @property
    def is_ramped(self) -> bool:
        """True if the limits of units change in the training."""
        return len(self.limits.sizes) > 1

    def __len__(self) -> int:
        return len(self.record_order)

    @property
    def total(self) -> int:
        return self.record_order.total

    @property
    def seed(self) -> int:
        return self.record_order.seed

    def count(self, epoch: int) -> int:
        """Return the number of units in an epoch. The first call counts all of its windows."""
        if len(self) == ENDLESS:
            return ENDLESS
        if epoch not in self._counts:
            bounds = self._count_to(self.num_windows, epoch)
            self._counts[epoch] = self._units_in(int(bounds[-1]), epoch, is_all=True)
        return self._counts[epoch]

    def batches(self, epoch: int, plan_of: PlanOf, consumed: int) -> Iterator[Any]:
        """Yield the units of each batch of a process; see :meth:`Order.batches`.

        The number of batches follows from all lengths of the epoch. Until they are known, a step is
        complete if the last of its units exists.
        """
        plan = plan_of(ENDLESS)
        for units in plan.batches(consumed):
            if self._bounds_to(plan.step_end(int(units[0])) - 1, epoch) is None:
                break
            yield self.plan_units(units, epoch)
            consumed += len(units)
        for units in plan_of(self.count(epoch)).batches(consumed):
            yield self.plan_units(units, epoch)

    def limits_before(self, unit: int, epoch: int) -> dict[str, int] | None:
        return self._limits(epoch).describe_before(unit) if self.is_ramped else None

    def describe(self) -> dict[str, Any]:
        return {**self.record_order.describe(), "lengths": self.lengths.fingerprint()}

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return the reader that fits the order of the records, window by window."""
        del at_once
        return self.record_order.fit_reader(reader, self.size)

    @abstractmethod
    def _measure(self, begin: int, end: int, epoch: int, limit: int) -> Numbers:
        """Return the number of units, or another measure, of each window from begin to end."""

    @abstractmethod
    def _plan(self, number: int, epoch: int, limit: int) -> Any:
        """Plan a window whose units have one limit. ``_planned`` keeps the latest results."""

    @abstractmethod
    def _plan_again(self, units: Any, kept: int, number: int, epoch: int, limit: int) -> Any:
        """Return the first units of a window, and all its other records in new units.

        Args:
            units: Units of the window.
            kept: Number of units that stay as they are.
            number: Number of the window.
            epoch: Number of the epoch.
            limit: Limit of the new units.
        """

    def _plan_window(self, number: int, epoch: int) -> Any:
        """Plan a window. ``_window`` keeps the latest results."""
        begin = int(self._count_to(number, epoch)[number]) if self.is_ramped else 0
        limit, change = self._limit_after(begin, epoch)
        units = self._planned(number, epoch, limit)
        while change is not None and change < begin + len(units):
            kept = change - begin
            limit, change = self._limit_after(change, epoch)
            units = self._plan_again(units, kept, number, epoch, limit)
        return units

    def _limit_after(self, measure: int, epoch: int) -> tuple[int, int | None]:
        """Return the limit after some units of an epoch, and the first unit with another limit.

        Args:
            measure: Measure of these units. The result has a measure, too; None if there is no
                further change, or windows do not depend on the limit.
            epoch: Number of the epoch.
        """
        limits = self._limits(epoch)
        return limits.size(measure), limits.next_change(measure)

    def _units_in(self, measure: int, epoch: int, *, is_all: bool) -> int:
        """Return the number of units in the first windows of an epoch.

        Args:
            measure: Sum of the measures of these windows.
            epoch: Number of the epoch.
            is_all: Whether these are all windows of the epoch.
        """
        del epoch, is_all
        return measure

    def _find_limits(self, epoch: int) -> BatchSizes:
        """Return the limit of each unit of an epoch. The latest results are kept by ``_limits``."""
        if not self.is_ramped:
            return self.limits
        assert self.steps is not None
        begins, limits = self._begins, self.limits_of_units
        while len(begins) <= epoch and begins[-1] < limits.firsts[-1]:
            count = self.count(len(begins) - 1)
            begins = [*begins, self.steps.begin_after(begins[-1], count)]
        self._begins = begins
        return limits.from_batch(begins[min(epoch, len(begins) - 1)])

    def _window_begin(self, number: int) -> int:
        """Return the position at which a window begins."""
        return min(number * self.size, len(self))

    def _records(self, begin: int, end: int, epoch: int) -> tuple[Numbers, Numbers]:
        """Return the records of some windows, and where each window begins and the last ends."""
        cuts = np.array([self._window_begin(number) for number in range(begin, end + 1)], np.int64)
        positions = np.arange(cuts[0], cuts[-1], dtype=np.int64)
        return self.record_order.at(positions, epoch), cuts - cuts[0]

    def _find_bounds(self, units: Numbers, epoch: int) -> Numbers:
        """Return the bounds of the windows up to the last of some units.

        Raises:
            IndexError: If the epoch has no such unit.
        """
        numbers = units.tolist()  # faster for few units
        first, last = min(numbers), max(numbers)
        bounds = self._bounds_to(last, epoch) if first >= 0 else None
        if bounds is None:
            raise IndexError(f"epoch {epoch} has no units {first}..{last}")
        return bounds

    def _bounds_to(self, unit: int, epoch: int) -> Numbers | None:
        """Return the bounds of the windows up to that of a unit; None if it does not exist."""
        bounds = self._count_to(0, epoch)
        while True:
            counted = len(bounds) - 1
            is_all = counted >= self.num_windows
            units = self._units_in(int(bounds[-1]), epoch, is_all=is_all)
            if unit < units:
                return bounds
            if is_all:
                return None
            # A run that is resumed needs many windows: about as many as their mean suggests.
            missing = max(1, (unit + 1 - units) * counted // max(1, units))
            most = max(1, _GROUPS_AT_ONCE * _AT_ONCE // self.size)
            bounds = self._count_to(min(self.num_windows, counted + min(missing, most)), epoch)

    def _count_to(self, end: int, epoch: int) -> Numbers:
        """Count at least the windows up to ``end``, in threads if they are many.

        Returns:
            Bounds of all windows of the epoch that are counted.
        """
        bounds = self._bounds.get(epoch, _NOTHING_COUNTED)
        while len(bounds) <= end:
            found = self._measure_up_to(end, epoch, bounds)
            bounds = np.concatenate((bounds, bounds[-1] + np.cumsum(found)))
            # Replaced as a whole: other threads may use the old one.
            others = [(each, kept) for each, kept in self._bounds.items() if each != epoch]
            self._bounds = dict([*others[1 - _EPOCHS_KEPT :], (epoch, bounds)])
        return bounds

    def _measure_up_to(self, end: int, epoch: int, bounds: Numbers) -> Numbers:
        """Return the measures of at least one of the windows that are to be counted.

        Args:
            end: Number after the last window to count.
            epoch: Number of the epoch.
            bounds: Bounds of the windows that are counted.
        """
        begin, before = len(bounds) - 1, int(bounds[-1])
        limit, change = self._limit_after(before, epoch)
        size = max(1, _AT_ONCE // self.size)
        groups = [(at, min(at + size, end)) for at in range(begin, end, size)]
        if len(groups) == 1:
            found = self._measure(begin, end, epoch, limit)
        else:
            measured = map_in_threads(lambda group: self._measure(*group, epoch, limit), groups)
            found = np.concatenate(measured)
        if change is None or before + int(found.sum()) <= change:
            return found
        # The windows before the one with the change, if there are any.
        same = int(np.searchsorted(before + np.cumsum(found), change, side="right"))
        return found[:same] if same else np.array([len(self._window(begin, epoch))])
