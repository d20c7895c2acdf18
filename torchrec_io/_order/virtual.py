"""Virtual epochs: parts of the endless sequence of all epochs of an order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._records.repetitions import repeated
from .batch_sizes import BatchSizes
from .cycles import Cycles, groups_of
from .orders import Order, PositionOrder
from .packed_rows import join_rows
from .selection import Mask, Numbers
from .windows import WindowedOrder


class VirtualEpochOrder(Order):
    """Base of orders whose epochs have a given number of steps and continue one another.

    All epochs of another order follow one another without a gap. This sequence is cut into parts of
    equally many steps: the virtual epochs. So each unit comes exactly once in each epoch of the
    other order, wherever virtual epochs begin.

    Args:
        whole: Order of the units. It has no lanes.
        steps: Number of steps in a virtual epoch.
        sizes: Number of units of one rank in each step of the training.
        world_size: Number of ranks, which have equally many units.

    Attributes:
        whole: Order of the units.
    """

    def __init__(self, whole: Any, steps: int, sizes: BatchSizes, world_size: int) -> None:
        self.whole = whole
        self.has_batches, self.has_rows = whole.has_batches, whole.has_rows
        start = whole.continuation
        self._cycles = Cycles(whole, 0 if start is None else start.epoch)
        self._origin = 0 if start is None else start.origin
        self._steps = steps
        self._sizes = sizes
        self._world_size = world_size

    @property
    def seed(self) -> int:
        return int(self.whole.seed)

    @property
    def total(self) -> int:
        return int(self.whole.total)

    def __len__(self) -> int:
        """Return the number of units in the first epoch."""
        return self.count(0)

    def count(self, epoch: int) -> int:
        return 0 if self._cycles.is_empty else self.begin(epoch + 1) - self.begin(epoch)

    def start_in(self, epoch: int) -> int:
        """Return the position of an epoch at which the parts of a mixture continue."""
        return self._origin - self.begin(epoch)

    def _find(self, units: Numbers, epoch: int) -> Iterator[tuple[Numbers, Numbers, int]]:
        """Yield the units of one epoch of the other order at a time.

        Yields:
            Their indices in ``units``, their positions in that epoch, and its number.

        Raises:
            ValueError: If parts continue after some of the units.
        """
        units = units - self.start_in(epoch)
        if self._origin and len(units) and units.min() < 0:
            raise ValueError(
                f"the records of epoch {epoch} are not known: it begins before the state that "
                "weights='new' continued. Call set_epoch with a later epoch, or load no state"
            )
        cycles, inside = self._cycles.find(units)
        for at, cycle in groups_of(cycles):
            yield at, inside[at], self._cycles.first + cycle

    def _first_cycle(self, epoch: int) -> int:
        """Return the epoch of the other order in which an epoch begins."""
        cycles, _ = self._cycles.find(np.array([-self.start_in(epoch)]))
        return int(cycles[0]) + self._cycles.first

    def describe_position(self, position: int, epoch: int) -> dict[str, Any]:
        """Describe a position for a state of a mixture: :meth:`MixedOrder.describe_position`."""
        origin = self.begin(epoch) + position
        [(_, [inside], cycle)] = self._find(np.array([position]), epoch)
        described: dict[str, Any] = self.whole.describe_position(int(inside), cycle)
        described["parts"]["origin"] = origin
        return described

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on, besides the batch size."""
        return {**self.whole.describe(), "records_per_epoch": len(self)}

    def begin(self, epoch: int) -> int:
        """Return the number of units of all ranks before an epoch."""
        return self._sizes.begin(epoch * self._steps) * self._world_size


class VirtualRecords(VirtualEpochOrder, PositionOrder):
    """Virtual epochs of records."""

    def contains(self, numbers: Numbers) -> Mask:
        found: Mask = self.whole.contains(numbers)
        return found

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        numbers = np.empty(len(positions), np.int64)
        for at, inside, cycle in self._find(positions, epoch):
            records = self.whole.at(inside, cycle)
            numbers[at] = repeated(records, cycle - self._first_cycle(epoch))
        return numbers

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        # A mixture does not know the records before the one at which its parts continue.
        return self.at(units[units >= self.start_in(epoch)], epoch)


class VirtualUnits(VirtualEpochOrder):
    """Virtual epochs of packed rows, or of batches by length."""

    def plan_units(self, units: Numbers, epoch: int) -> Any:
        found = [
            (self.whole.plan_units(at, cycle), cycle) for _, at, cycle in self._find(units, epoch)
        ]
        if self.has_rows:
            return join_rows([rows for rows, _ in found])
        first = self._first_cycle(epoch)
        return np.concatenate([repeated(records, cycle - first) for records, cycle in found])

    def limits_before(self, unit: int, epoch: int) -> dict[str, int] | None:
        # Where a pass begins depends on the passes before it.
        if not isinstance(self.whole, WindowedOrder) or not self.whole.is_ramped:
            return None
        return self.whole.limits_of_units.describe_before(self.begin(epoch) + unit)

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        return np.concatenate(
            [self.whole.records_of(inside, cycle) for _, inside, cycle in self._find(units, epoch)]
        )
