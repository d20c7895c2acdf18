"""All epochs of an order, one after another: in which epoch a unit lies, and where in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .selection import Numbers

if TYPE_CHECKING:
    from .orders import Order


@dataclass(frozen=True)
class Cycles:
    """The units of an order's epochs, numbered through all of them.

    Attributes:
        order: The order. Its epochs may have different numbers of units.
        first: Number of the first epoch.
    """

    order: Order
    first: int = 0

    @property
    def is_empty(self) -> bool:
        """True if no epoch has units. One in which a mixture continues may have none alone."""
        if len(self.order) == 0:
            return True
        return not any(self.order.count(self.first + cycle) for cycle in range(2))

    def before(self, cycle: int) -> int:
        """Return the number of units in the first epochs, as many as ``cycle``."""
        if self.order.has_equal_epochs:
            return cycle * self.order.count(self.first)
        return sum(self.order.count(self.first + number) for number in range(cycle))

    def find(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Return the epoch of each unit, counted from 0, and its position there.

        Args:
            numbers: Numbers of units; int64 ``[n]``. If there are any, the order has units.

        Returns:
            Two int64 ``[n]``.
        """
        if self.order.has_equal_epochs or not len(numbers) or self.is_empty:
            return np.divmod(numbers, max(1, self.order.count(self.first)))
        begins, last, cycle = [0], int(numbers.max()), self.first
        while begins[-1] <= last:
            begins.append(begins[-1] + self.order.count(cycle))
            cycle += 1
        cycles = np.searchsorted(begins, numbers, side="right") - 1
        return cycles, numbers - np.array(begins, np.int64)[cycles]


def groups_of(values: Numbers) -> list[tuple[Numbers, int]]:
    """Return each distinct value with the indices at which it occurs, ascending."""
    if len(values) and (values == values[0]).all():  # as in most calls
        return [(np.arange(len(values)), int(values[0]))]
    return [(np.flatnonzero(values == each), each) for each in np.unique(values).tolist()]
