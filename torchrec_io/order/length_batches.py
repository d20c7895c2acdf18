"""Batches of records of similar length: an epoch's order cut into them, before a byte is read."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .orders import RecordOrder
from .selection import CHUNK, Subset

_Numbers = npt.NDArray[np.int64]

# A window is of about so many batches, and of at least so many records: enough of one length to
# make a batch of, few enough that what comes near each other was near in the epoch's order.
_WINDOW_BATCHES = 64
_LEAST_WINDOW = 1024
# A step may reach from one window into the next.
_WINDOWS_HELD = 2
# A thread that reads ahead may be in the next epoch already.
_EPOCHS_HELD = 2
_UNKNOWN = 2**62


class Lengths:
    """The length of each record of some files, by record number.

    Args:
        values: Integers ``[N]``, none of them negative.
        feature: What they are the lengths of, if they were found in the records.

    Attributes:
        values: int32 ``[N]``, or int64 where that is too narrow.
        feature: As above.

    Raises:
        ValueError: one is negative.
    """

    def __init__(self, values: npt.NDArray[Any], feature: object = None) -> None:
        if len(values) and values.min() < 0:
            record = int(np.argmin(values))
            raise ValueError(f"a length is negative: {values[record]}, of record {record}")
        narrow = len(values) == 0 or values.max() < 2**31
        self.values: npt.NDArray[np.int32 | np.int64]
        self.values = values.astype(np.int32 if narrow else np.int64)  # a copy: nobody changes it
        self.feature = feature
        self._fingerprint: str | None = None

    def fingerprint(self) -> str:
        """A short name of the lengths, the same for the same ones wherever computed."""
        if self._fingerprint is None:
            digest = hashlib.blake2b(f"{self.values.dtype}:".encode(), digest_size=8)
            digest.update(self.values.data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


class BatchedOrder:
    """Records of one dataset in batches of similar length, as a function of a batch's number.

    The epoch's order is cut into windows of a fixed number of records. The records of each are
    sorted by length, the longest first and equal ones in their order, and cut into batches, each as
    large as it may be. With a shuffle, the batches of a window are then put into a random order.
    So the batches of an epoch are a list that depends on the order and the lengths alone, and what
    deals positions of an order to ranks and workers deals numbers of batches as well.

    A record without length counts as one of length 1 where batches are cut.

    Instances may be used by several threads at once, and pickled.

    Args:
        whole: The records. Those that are longer than ``batch_tokens`` are left out.
        lengths: Of all records that ``whole`` selects from.
        batch_tokens: The most that a batch's number of records times its longest may be.
        batch_size: The most records of a batch. One of the two must be given.

    Attributes:
        whole: As above.
        order: The records that are given.
        lengths: As above.
        batch_tokens: As above.
        batch_size: As above.
        too_long: The records that are left out; int64, ascending.

    Raises:
        ValueError: lengths are not one for each record.
    """

    def __init__(
        self,
        whole: RecordOrder,
        lengths: Lengths,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        assert batch_tokens is not None or batch_size is not None
        if len(lengths.values) != whole.selection.total:
            raise ValueError(
                f"{len(lengths.values)} lengths are not one for each of "
                f"{whole.selection.total} records"
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
        self._totals: dict[int, int] = {}
        self._epochs: tuple[EpochBatches, ...] = ()

    def __len__(self) -> int:
        """Records of an epoch."""
        return len(self.order)

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchedOrder, (self.whole, self.lengths, self.batch_tokens, self.batch_size)

    def describe(self) -> dict[str, Any]:
        """All that the batches depend on; see :meth:`torchrec_io.order.orders.Order.describe`."""
        return {
            **self.order.describe(),
            "lengths": self.lengths.fingerprint(),
            "batch_tokens": self.batch_tokens,
            "batch_size": self.batch_size,
        }

    def epoch(self, epoch: int) -> EpochBatches:
        """The batches of an epoch."""
        for held in self._epochs:
            if held.epoch == epoch:
                return held
        made = EpochBatches(self._windows, epoch)
        self._epochs = (made, *self._epochs[: _EPOCHS_HELD - 1])
        return made

    def count(self, epoch: int) -> int:
        """How many batches an epoch has; the first time, all its lengths are sorted for it."""
        if epoch not in self._totals:
            self._totals[epoch] = len(self.epoch(epoch))
        return self._totals[epoch]

    @property
    def seed(self) -> int:
        """Of the shuffle."""
        return self.order.seed

    @property
    def window(self) -> int:
        """Records of a window."""
        return self._windows.size

    def _find_too_long(self) -> _Numbers:
        values = self.lengths.values
        most = self.batch_tokens
        if most is None or len(values) == 0 or values.max() <= most:
            return np.empty(0, np.int64)
        numbers = np.flatnonzero(values > most)
        places = self.whole.selection.positions_of(np.stack((numbers, numbers + 1)).reshape(-1))
        selected = places[: len(numbers)] < places[len(numbers) :]
        return numbers[selected]

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
    """The batches of one epoch, found window by window as they are asked for.

    It keeps a number for each window that was seen and the records of the last ones. Threads that
    find something at the same time find the same, so none of them has to wait.

    Args:
        windows: Finds a window.
        epoch: From 0.
    """

    def __init__(self, windows: _Windows, epoch: int) -> None:
        self.epoch = epoch
        self._windows = windows
        # Batches before each window, and in all; of those that were not counted, beyond any number.
        self._ends = np.full(len(windows) + 1, _UNKNOWN, np.int64)
        self._ends[0] = 0
        self._known = 0  # windows that are counted
        self._held: tuple[tuple[int, _Window], ...] = ()

    def __len__(self) -> int:
        """Batches of the epoch; looks at all windows."""
        while self._count_window():
            pass
        return int(self._ends[-1])

    def reaches(self, number: int) -> bool:
        """Whether there is a batch of that number; looks no further than it has to."""
        while number >= self._ends[self._known]:
            if not self._count_window():
                return False
        return True

    def records(self, number: int) -> _Numbers:
        """Record numbers of a batch, the longest record first.

        Raises:
            IndexError: there is no such batch.
        """
        if number < 0 or not self.reaches(number):
            raise IndexError(f"epoch {self.epoch} has no batch {number}")
        place = int(np.searchsorted(self._ends, number, side="right")) - 1
        return self._window(place).records(number - int(self._ends[place]))

    def _count_window(self) -> bool:
        """Counts the batches of one window more; False if there is none."""
        known = self._known
        if known == len(self._ends) - 1:
            return False
        self._ends[known + 1] = self._ends[known] + len(self._window(known))
        self._known = known + 1
        return True

    def _window(self, number: int) -> _Window:
        for held, window in self._held:
            if held == number:
                return window
        found = self._windows.find(number, self.epoch)
        self._held = ((number, found), *self._held[: _WINDOWS_HELD - 1])
        return found


class _Windows:
    """How the windows of any epoch are cut into batches.

    Args:
        order: Of the records.
        lengths: By record number.
        most: The most records of a batch.
        batch_tokens: The most that their number times the longest may be, if that is limited.

    Attributes:
        size: Records of a window, but for the last: a whole number of batches of the mean length.
            Without ``batch_tokens`` all are, so that only the last window has one that is not full.
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
        """The batches of a window."""
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
        if not _is_off(self._order.shuffle):
            key = _key(f"batches:{self._order.seed}:{epoch}:{number}")
            turns = _core.permute(turns, len(turns), key)
        return _Window(numbers[by_length], cuts, turns)

    def _room(self, longest: int) -> int:
        """How many records a batch may have whose longest is of that length."""
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
        numbers: Of its records, by length.
        cuts: Where batches begin among them, and how many records there are.
        turns: Which batch comes first, second and so on.
    """

    numbers: _Numbers
    cuts: list[int]
    turns: _Numbers

    def __len__(self) -> int:
        return len(self.turns)

    def records(self, turn: int) -> _Numbers:
        batch = int(self.turns[turn])
        return self.numbers[self.cuts[batch] : self.cuts[batch + 1]]


def _is_off(shuffle: object) -> bool:
    return isinstance(shuffle, (bool, np.bool_)) and not shuffle


def _key(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
