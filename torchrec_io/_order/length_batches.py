"""Batches of records of similar length, cut from an epoch's order before any data is read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import _core
from .._records.repetitions import own_numbers
from .._storage.digest import digest_number
from ..checks import counted
from .orders import RecordOrder
from .selection import CHUNK, Numbers, Subset
from .shuffle import is_shuffled
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
    is not full.

    A record of length 0 counts as length 1.

    Args:
        whole: Order of the records. Records longer than ``batch_tokens`` are left out.
        lengths: Lengths of all records that ``whole`` selects from.
        batch_tokens: Maximum of a batch's number of records times its longest length.
        batch_size: Maximum number of records in a batch. One of the two must be given.

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
        batch_tokens: int | None = None,
        batch_size: int | None = None,
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
        self.too_long = _find_too_long(whole, lengths, batch_tokens)
        fitting = _leave_out(whole, self.too_long)
        self._most = len(fitting) if batch_size is None else batch_size
        self._shuffles = is_shuffled(whole.shuffle)
        full = self._most if batch_tokens is None else self._room(_mean_length(fitting, lengths))
        full = max(1, full)
        super().__init__(fitting, lengths, full * max(_WINDOW_BATCHES, -(-_LEAST_WINDOW // full)))

    def __reduce__(self) -> tuple[Any, ...]:
        return LengthBatchedOrder, (self.whole, self.lengths, self.batch_tokens, self.batch_size)

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
        limits = {"batch_tokens": self.batch_tokens, "batch_size": self.batch_size}
        return {**super().describe(), **limits}

    def _measure(self, begin: int, end: int, epoch: int) -> Numbers:
        counts = [len(self._window(number, epoch)) for number in range(begin, end)]
        return np.array(counts, np.int64)

    def _plan_window(self, number: int, epoch: int) -> list[Numbers]:
        """Return the record numbers of each batch of a window."""
        numbers, _ = self._records(number, number + 1, epoch)
        lengths = self.lengths.values[own_numbers(numbers)]
        by_length = np.argsort(-lengths, kind="stable")
        numbers, lengths = numbers[by_length], lengths[by_length]
        cuts = [0]
        while cuts[-1] < len(lengths):
            cuts.append(min(cuts[-1] + self._room(int(lengths[cuts[-1]])), len(lengths)))
        batches = [numbers[first:last] for first, last in itertools.pairwise(cuts)]
        if not self._shuffles:
            return batches
        key = digest_number(f"batches:{self.seed}:{epoch}:{number}")
        shuffled = _core.permute(np.arange(len(batches)), len(batches), key)
        return [batches[batch] for batch in shuffled.tolist()]

    def _room(self, longest: int) -> int:
        """Return the number of records allowed in a batch with this longest length."""
        if self.batch_tokens is None:
            return self._most
        return min(self._most, self.batch_tokens // max(1, longest))


def _find_too_long(whole: RecordOrder, lengths: Lengths, most: int | None) -> Numbers:
    values = lengths.values
    if most is None or len(values) == 0 or values.max() <= most:
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
