"""Batches of records of similar length, cut from an epoch's order before any data is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._records.reader import Reader
from .._records.record_reader import RecordReader
from .._storage.digest import digest_number, digest_text
from ..checks import counted
from .latest import Latest
from .orders import ENDLESS, PlanOf, RecordOrder
from .selection import CHUNK, Numbers, Subset
from .shuffle import is_shuffled

# A window holds about this many batches, and at least this many records: enough records of one
# length to fill a batch, and few enough that neighbours in a batch were neighbours in the order.
_WINDOW_BATCHES = 64
_LEAST_WINDOW = 1024
# A step may extend from one window into the next.
_WINDOWS_KEPT = 2
# A thread that prefetches may be in the next epoch already.
_EPOCHS_KEPT = 2
_UNKNOWN = 2**62


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


class LengthBatchedOrder:
    """Batches of records of similar length. An :class:`~torchrec_io._order.orders.Order`.

    The epoch's order is cut into windows of a fixed number of records. The records of each window
    are sorted by length, longest first and otherwise in their order, and cut into batches, each as
    large as possible. With a shuffle, the batches of a window are then put into a random order. So
    the batches of an epoch depend on the order and the lengths alone, and batches are assigned to
    ranks and workers as records are in other orders.

    A record of length 0 counts as length 1.

    Instances are thread-safe and can be pickled.

    Args:
        whole: Order of the records. Records longer than ``batch_tokens`` are left out.
        lengths: Lengths of all records that ``whole`` selects from.
        batch_tokens: Maximum of a batch's number of records times its longest length.
        batch_size: Maximum number of records in a batch. One of the two must be given.

    Attributes:
        whole: Order of all records.
        order: Order of the records that are not left out.
        lengths: Lengths of all records that ``whole`` selects from.
        batch_tokens: Maximum of a batch's number of records times its longest length.
        batch_size: Maximum number of records in a batch.
        too_long: Numbers of the records that are left out; int64, ascending.

    Raises:
        ValueError: If there is not one length for each record.
    """

    has_batches = True
    has_rows = False
    lanes = None

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
        self.lengths = lengths
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
        self.too_long = self._find_too_long()
        self.order = self._without_too_long()
        self._windows = _Windows(
            self.order,
            lengths.values,
            len(self.order) if batch_size is None else batch_size,
            batch_tokens,
        )
        self._counts: dict[int, int] = {}
        self._epochs = Latest(lambda epoch: EpochBatches(self._windows, epoch), _EPOCHS_KEPT)

    def __len__(self) -> int:
        return len(self.order)

    def __reduce__(self) -> tuple[Any, ...]:
        return LengthBatchedOrder, (self.whole, self.lengths, self.batch_tokens, self.batch_size)

    @property
    def total(self) -> int:
        """Number of records that those of an epoch are selected from."""
        return self.whole.total

    @property
    def seed(self) -> int:
        """Seed of the shuffle."""
        return self.order.seed

    @property
    def window(self) -> int:
        """Number of records in a window."""
        return self._windows.size

    def count(self, epoch: int) -> int:
        """Return the number of batches in an epoch. The first call sorts all of its lengths."""
        if epoch not in self._counts:
            self._counts[epoch] = len(self.epoch(epoch))
        return self._counts[epoch]

    def guess_count(self) -> int:
        """Return the most batches that an epoch may have: one for each record."""
        return len(self)

    def deal(self, epoch: int, plan_of: PlanOf, consumed: int) -> Iterator[Numbers]:
        """Yield the record numbers of each batch of a process.

        The number of batches follows from all lengths of the epoch. Until they are known, a step is
        complete if the last of its batches exists.
        """
        batches = self.epoch(epoch)
        for [number] in (plan := plan_of(ENDLESS)).batches(consumed):
            if not batches.reaches(int(number) + plan.world_size - 1 - plan.rank):
                break
            yield batches.records(int(number))
            consumed += 1
        for [number] in plan_of(self.count(epoch)).batches(consumed):
            yield batches.records(int(number))

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of some batches; see :meth:`Order.records_of`."""
        batches = self.epoch(epoch)
        return np.concatenate([batches.records(number) for number in units.tolist()])

    def describe(self) -> dict[str, Any]:
        """Return all that the batches depend on."""
        return {
            **self.order.describe(),
            "lengths": self.lengths.fingerprint(),
            "batch_tokens": self.batch_tokens,
            "batch_size": self.batch_size,
        }

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return the reader that fits the order of the records, window by window."""
        del at_once
        return self.order.fit_reader(reader, self.window)

    def epoch(self, epoch: int) -> EpochBatches:
        """Return the batches of an epoch."""
        return self._epochs.get(epoch)

    def _find_too_long(self) -> Numbers:
        values = self.lengths.values
        most = self.batch_tokens
        if most is None or len(values) == 0 or values.max() <= most:
            return np.empty(0, np.int64)
        numbers = np.flatnonzero(values > most)
        return numbers[self.whole.contains(numbers)]

    def _without_too_long(self) -> RecordOrder:
        if len(self.too_long) == 0:
            return self.whole
        selection = self.whole.selection
        fits = np.ones(selection.total, np.bool_)
        fits[self.too_long] = False
        fitting = Subset.build(
            selection.total, lambda begin, end: selection.mask(begin, end) & fits[begin:end]
        )
        return dataclasses.replace(self.whole, selection=fitting)


class EpochBatches:
    """The batches of one epoch, computed window by window when they are needed.

    It keeps a number for each window seen and the records of the latest windows. No lock is needed:
    threads that compute the same window get the same result.

    Args:
        windows: Computes a window.
        epoch: Number of the epoch.
    """

    def __init__(self, windows: _Windows, epoch: int) -> None:
        self.epoch = epoch
        self._windows = windows
        # Number of batches before each window, then the total; _UNKNOWN until it is counted.
        self._ends = np.full(len(windows) + 1, _UNKNOWN, np.int64)
        self._ends[0] = 0
        self._counted = 0  # number of windows
        self._window = Latest(lambda number: windows.find(number, epoch), _WINDOWS_KEPT)

    def __len__(self) -> int:
        """Return the number of batches in the epoch; computes all windows."""
        while self._count_window():
            pass
        return int(self._ends[-1])

    def reaches(self, number: int) -> bool:
        """Return whether a batch of this number exists; computes no more windows than needed."""
        while number >= self._ends[self._counted]:
            if not self._count_window():
                return False
        return True

    def records(self, number: int) -> Numbers:
        """Return the record numbers of a batch, longest record first.

        Raises:
            IndexError: If the epoch has no such batch.
        """
        if number < 0 or not self.reaches(number):
            raise IndexError(f"epoch {self.epoch} has no batch {number}")
        window = int(np.searchsorted(self._ends, number, side="right")) - 1
        return self._window.get(window).records(number - int(self._ends[window]))

    def _count_window(self) -> bool:
        """Count the batches of the next window; return False if there is none."""
        counted = self._counted
        if counted == len(self._ends) - 1:
            return False
        self._ends[counted + 1] = self._ends[counted] + len(self._window.get(counted))
        self._counted = counted + 1
        return True


class _Windows:
    """Cuts the windows of any epoch into batches.

    Args:
        order: Order of the records.
        lengths: Lengths by record number.
        most: Maximum number of records in a batch.
        batch_tokens: Maximum of that number times the longest length, if limited.

    Attributes:
        size: Number of records in each window but the last: a whole number of batches of the mean
            length. Without ``batch_tokens``, only the last window has a batch that is not full.
    """

    def __init__(
        self,
        order: RecordOrder,
        lengths: npt.NDArray[np.int32 | np.int64],
        most: int,
        batch_tokens: int | None,
    ) -> None:
        self._order = order
        self._lengths = lengths
        self._most = most
        self._batch_tokens = batch_tokens
        per_batch = max(1, most if batch_tokens is None else self._room(self._mean_length()))
        self.size = per_batch * max(_WINDOW_BATCHES, -(-_LEAST_WINDOW // per_batch))

    def __len__(self) -> int:
        return (len(self._order) + self.size - 1) // self.size

    def find(self, number: int, epoch: int) -> _Window:
        """Return the batches of a window."""
        begin = number * self.size
        end = min(begin + self.size, len(self._order))
        numbers = self._order.at(np.arange(begin, end, dtype=np.int64), epoch)
        lengths = self._lengths[numbers]
        by_length = np.argsort(-lengths, kind="stable")
        lengths = lengths[by_length]
        cuts = [0]
        while cuts[-1] < len(lengths):
            cuts.append(min(cuts[-1] + self._room(int(lengths[cuts[-1]])), len(lengths)))
        turns = np.arange(len(cuts) - 1)
        if is_shuffled(self._order.shuffle):
            key = digest_number(f"batches:{self._order.seed}:{epoch}:{number}")
            turns = _core.permute(turns, len(turns), key)
        return _Window(numbers[by_length], cuts, turns)

    def _room(self, longest: int) -> int:
        """Return the number of records allowed in a batch with this longest length."""
        if self._batch_tokens is None:
            return self._most
        return min(self._most, self._batch_tokens // max(1, longest))

    def _mean_length(self) -> int:
        selection = self._order.selection
        total = 0
        for begin in range(0, selection.total, CHUNK):
            end = min(selection.total, begin + CHUNK)
            lengths = self._lengths[begin:end][selection.mask(begin, end)]
            total += int(lengths.sum(dtype=np.int64))
        return -(-total // max(1, len(selection)))


@dataclass(frozen=True, slots=True)
class _Window:
    """The batches of one window.

    Attributes:
        numbers: Record numbers, sorted by length.
        cuts: Start of each batch among them, then the number of records.
        turns: Number of the batch that comes first, second and so on.
    """

    numbers: Numbers
    cuts: list[int]
    turns: Numbers

    def __len__(self) -> int:
        return len(self.turns)

    def records(self, turn: int) -> Numbers:
        batch = int(self.turns[turn])
        return self.numbers[self.cuts[batch] : self.cuts[batch + 1]]
