"""Batches of records of similar length, cut from an epoch's order before any data is read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import _core
from .._records.repetitions import own_numbers
from .._storage.digest import digest_number
from ..checks import MOST, counted
from .batch_sizes import BatchSizes
from .orders import RecordOrder
from .ramp import Ramp, described
from .selection import CHUNK, Numbers, Subset
from .shuffle import is_shuffled
from .steps import TrainingSteps
from .windows import Lengths, WindowedOrder

# A window holds about this many batches, and at least this many records: enough records of one
# length to fill a batch, and few enough that neighbours in a batch were neighbours in the order.
_WINDOW_BATCHES = 64
_LEAST_WINDOW = 1024


class LengthBatchedOrder(WindowedOrder):
    """Batches of records of similar length; its units are batches.

    The records of each window are sorted by length, longest first and otherwise in their order, and
    cut into batches, each as large as possible. With a shuffle, the batches of a window are then
    put into a random order. All windows but the last have as many records as a whole number of
    batches of the mean length. So without ``batch_tokens``, only the last window has a batch that
    is not full. The limit of a batch is its ``batch_tokens``.

    A record of length 0 counts as length 1.

    Args:
        whole: Order of the records. Records longer than the least ``batch_tokens`` are left out.
        lengths: Lengths of all records that ``whole`` selects from.
        batch_tokens: Maximum of a batch's number of records times its longest length.
        batch_size: Maximum number of records in a batch. One of the two must be given.
        steps: Steps of the training; needed for a :class:`Ramp` of ``batch_tokens``.

    Attributes:
        whole: Order of all records.
        batch_tokens: Maximum of a batch's number of records times its longest length.
        batch_size: Maximum number of records in a batch.
        too_long: Numbers of the records that are left out; int64, ascending.

    Raises:
        ValueError: If there is not one length for each record.
    """

    has_batches = True

    def __init__(
        self,
        whole: RecordOrder,
        lengths: Lengths,
        batch_tokens: int | Ramp | None = None,
        batch_size: int | None = None,
        steps: TrainingSteps | None = None,
    ) -> None:
        assert batch_tokens is not None or batch_size is not None
        if len(lengths.values) != whole.selection.total:
            records = counted(whole.selection.total, "record")
            raise ValueError(
                f"lengths must have one value for each of {records}, got {len(lengths.values)}"
            )
        self.whole = whole
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
        limits = BatchSizes.of(batch_tokens or MOST)  # without it, there is no limit
        self.too_long = _find_too_long(whole, lengths, min(limits.sizes))
        fitting = _leave_out(whole, self.too_long)
        self._most = len(fitting) if batch_size is None else batch_size
        self._shuffles = is_shuffled(whole.shuffle)
        full = max(1, self._room(_mean_length(fitting, lengths), max(limits.sizes)))
        size = full * max(_WINDOW_BATCHES, -(-_LEAST_WINDOW // full))
        super().__init__(fitting, lengths, size, limits, steps)

    def __reduce__(self) -> tuple[Any, ...]:
        options = self.batch_tokens, self.batch_size
        return LengthBatchedOrder, (self.whole, self.lengths, *options, self.steps)

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of some batches, the longest record of each first."""
        bounds = self._find_bounds(units, epoch)
        windows = bounds.searchsorted(units, side="right") - 1
        batches = [
            self._window(window, epoch)[unit - int(bounds[window])]
            for unit, window in zip(units.tolist(), windows.tolist(), strict=True)
        ]
        return batches[0] if len(batches) == 1 else np.concatenate(batches)

    def plan_units(self, units: Numbers, epoch: int) -> Numbers:
        return self.records_of(units, epoch)

    def describe(self) -> dict[str, Any]:
        """Return all that the batches depend on."""
        tokens = described(self.batch_tokens)
        return {**super().describe(), "batch_tokens": tokens, "batch_size": self.batch_size}

    def _measure(self, begin: int, end: int, epoch: int, limit: int) -> Numbers:
        counts = [len(self._planned(number, epoch, limit)) for number in range(begin, end)]
        return np.array(counts, np.int64)

    def _plan(self, number: int, epoch: int, limit: int) -> list[Numbers]:
        """Return the record numbers of each batch of a window."""
        numbers, _ = self._records(number, number + 1, epoch)
        return self._cut(numbers, number, epoch, limit)

    def _plan_again(
        self, units: list[Numbers], kept: int, number: int, epoch: int, limit: int
    ) -> list[Numbers]:
        others = self._cut(np.concatenate(units[kept:]), number, epoch, limit)
        return [*units[:kept], *others]

    def _cut(self, numbers: Numbers, number: int, epoch: int, limit: int) -> list[Numbers]:
        """Return batches of some records of a window."""
        lengths = self.lengths.values[own_numbers(numbers)]
        by_length = np.argsort(-lengths, kind="stable")
        numbers, lengths = numbers[by_length], lengths[by_length]
        cuts = [0]
        while cuts[-1] < len(lengths):
            cuts.append(min(cuts[-1] + self._room(int(lengths[cuts[-1]]), limit), len(lengths)))
        batches = [numbers[first:last] for first, last in itertools.pairwise(cuts)]
        if not self._shuffles:
            return batches
        key = digest_number(f"batches:{self.seed}:{epoch}:{number}")
        shuffled = _core.permute(np.arange(len(batches)), len(batches), key)
        return [batches[batch] for batch in shuffled.tolist()]

    def _room(self, longest: int, limit: int) -> int:
        """Return the number of records allowed in a batch with this longest length."""
        if self.batch_tokens is None:
            return self._most
        return min(self._most, limit // max(1, longest))


def _find_too_long(whole: RecordOrder, lengths: Lengths, most: int) -> Numbers:
    values = lengths.values
    if len(values) == 0 or values.max() <= most:
        return np.empty(0, np.int64)
    numbers = np.flatnonzero(values > most)
    return numbers[whole.contains(numbers)]


def _leave_out(whole: RecordOrder, numbers: Numbers) -> RecordOrder:
    """Return an order without some of its records."""
    if len(numbers) == 0:
        return whole
    selection = whole.selection
    fits = np.ones(selection.total, np.bool_)
    fits[numbers] = False
    fitting = Subset.build(
        selection.total, lambda begin, end: selection.mask(begin, end) & fits[begin:end]
    )
    return whole.with_selection(fitting)


def _mean_length(order: RecordOrder, lengths: Lengths) -> int:
    """Return the mean length of the records of an order, rounded up."""
    selection = order.selection
    total = 0
    for begin in range(0, selection.total, CHUNK):
        end = min(selection.total, begin + CHUNK)
        selected = lengths.values[begin:end][selection.mask(begin, end)]
        total += int(selected.sum(dtype=np.int64))
    return -(-total // max(1, len(selection)))
