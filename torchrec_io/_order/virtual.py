"""Virtual epochs: parts of the endless sequence of all epochs of an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._records.repetitions import repeated
from .batch_sizes import BatchSizes
from .orders import ENDLESS, PositionOrder
from .selection import Mask, Numbers


@dataclass(frozen=True)
class VirtualEpochOrder(PositionOrder):
    """An order whose epochs have a given number of steps, and continue one another.

    All epochs of another order follow one another without a gap. This sequence is cut into parts of
    equally many steps: the virtual epochs. So each record comes exactly once in each epoch of the
    other order, wherever virtual epochs begin.

    Attributes:
        whole: Order of the records. All of its epochs have equally many. It has no lanes.
        steps: Number of steps in a virtual epoch.
        sizes: Number of records of one rank in each step of the training.
        world_size: Number of ranks, which have equally many records.
    """

    whole: PositionOrder
    steps: int
    sizes: BatchSizes
    world_size: int

    @property
    def seed(self) -> int:
        return self.whole.seed

    @property
    def total(self) -> int:
        return self.whole.total

    def __len__(self) -> int:
        """Return the number of records in the first epoch."""
        return self.count(0)

    def count(self, epoch: int) -> int:
        return self._begin(epoch + 1) - self._begin(epoch) if len(self.whole) else 0

    def contains(self, numbers: Numbers) -> Mask:
        return self.whole.contains(numbers)

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        begin = self._begin(epoch)
        positions = positions + begin
        if len(self.whole) == ENDLESS:
            return self.whole.at(positions, 0)
        numbers = np.empty(len(positions), np.int64)
        size = max(1, len(self.whole))
        epochs, inside = np.divmod(positions, size)
        first = begin // size
        for number in np.unique(epochs).tolist():
            here = epochs == number
            numbers[here] = repeated(self.whole.at(inside[here], number), number - first)
        return numbers

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on, besides the batch size."""
        return {**self.whole.describe(), "records_per_epoch": len(self)}

    def _begin(self, epoch: int) -> int:
        """Return the number of records of all ranks before an epoch."""
        return self.sizes.begin(epoch * self.steps) * self.world_size
