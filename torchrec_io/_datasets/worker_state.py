"""State that a dataset shares with its copies in DataLoader workers."""

from __future__ import annotations

import enum
import functools
import logging
from typing import Any

import torch

from .. import _core
from .._order.continuation import Continuation
from .._order.progress import PLACE_NUMBERS, Place, place_numbers, place_of
from .epoch_clock import CLOCK_NUMBERS, EpochClock
from .statistics import COUNTER_NUMBERS, LoadingCounters

# Positions of the numbers in the shared memory, after those of the clock and the counters.
_FIRST = CLOCK_NUMBERS + COUNTER_NUMBERS
_TIMES_SET, _TIMES_SEEN, _TIMES_LOADED, _IN_WORKERS, _WARNED, _TAKEN, _HAS_RESUME, _RESUME = range(
    _FIRST, _FIRST + 8
)
_NUM_NUMBERS = _RESUME + PLACE_NUMBERS
# Bits of the number of workers that have started where the dataset was resumed.
_TAKEN_BITS = 11


class Subject(enum.IntFlag):
    """Subject of a warning that is logged once."""

    cost = enum.auto()
    epochs = enum.auto()
    positions = enum.auto()
    features = enum.auto()


class _Number:
    """A number in the shared memory, as an attribute."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, state: WorkerState, _: Any) -> int:
        return int(state._shared[self._index])  # noqa: SLF001  # its descriptor

    def __set__(self, state: WorkerState, value: int) -> None:
        state._shared[self._index] = value  # noqa: SLF001


class WorkerState:
    """Numbers in memory that stays shared when a dataset is pickled or forked into workers.

    Args:
        num_parts: Number of parts of a mixture; 0 for other datasets.
        num_sources: Number of its sources, whose records are counted.

    Attributes:
        times_set: Number of calls of :meth:`set_epoch`.
        times_seen: Number of those calls before the last iteration started.
        times_loaded: Number of positions that were loaded in the process of the training loop.
        is_in_workers: 1 if DataLoader workers ran the last iteration, else 0.
    """

    times_set = _Number(_TIMES_SET)
    times_seen = _Number(_TIMES_SEEN)
    times_loaded = _Number(_TIMES_LOADED)
    is_in_workers = _Number(_IN_WORKERS)

    def __init__(self, num_parts: int = 0, num_sources: int = 0) -> None:
        room = 4 + 2 * num_parts if num_parts else 0
        self._sources_end = _NUM_NUMBERS + num_sources
        self._shared = torch.zeros(self._sources_end + room, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {"_shared": self._shared, "_sources_end": self._sources_end}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Still shared with the original if it was pickled for a process that is being started.
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def copy(self) -> WorkerState:
        """Return the same numbers in memory of their own."""
        other = WorkerState()
        other._sources_end = self._sources_end
        other._shared = self._shared.clone().share_memory_()  # type: ignore[no-untyped-call]
        return other

    @functools.cached_property
    def clock(self) -> EpochClock:
        """Epoch with which the next iteration starts."""
        return EpochClock(self._shared[:CLOCK_NUMBERS])

    @functools.cached_property
    def counters(self) -> LoadingCounters:
        """Statistics of loading of all processes."""
        return LoadingCounters(
            self._shared[CLOCK_NUMBERS : CLOCK_NUMBERS + COUNTER_NUMBERS],
            self._shared[_NUM_NUMBERS : self._sources_end],
        )

    # ---- epochs that were set, and positions that were loaded ----

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch, as the user asked."""
        self.clock.set(epoch)
        self.times_set += 1

    def note_loaded(self) -> None:
        """Count a position that is loaded. It takes the place of all others."""
        self.times_loaded += 1
        self.is_in_workers = 0

    # ---- the position at which the next iteration starts ----

    def resume_from(self, place: Place) -> None:
        """Make the next iteration, in whatever processes, start from a position."""
        self._shared[_RESUME:_NUM_NUMBERS] = torch.tensor(place_numbers(place))
        self._shared[_TAKEN] = 0
        self._shared[_HAS_RESUME] = 1

    def drop_resume(self) -> None:
        """Make the next iteration start at the beginning of its epoch."""
        self._shared[_HAS_RESUME] = 0

    @property
    def resumed(self) -> Place | None:
        """The resumed position, also after workers started there; None if it was dropped."""
        numbers = self._shared[_RESUME:_NUM_NUMBERS].tolist()
        return place_of(numbers) if self._shared[_HAS_RESUME] else None

    @property
    def is_resume_taken(self) -> bool:
        """True if workers have started at the resumed position."""
        return bool(self._shared[_TAKEN])

    def take_resume(self, iteration: int, num_workers: int) -> Place | None:
        """Return the resumed position, once to each worker of one iteration; else None.

        With ``persistent_workers`` a worker runs several iterations, and only this result shows it
        whether an iteration was resumed.

        Args:
            iteration: Number of the iteration, which is the same in all of its workers.
            num_workers: Number of workers.
        """
        word = self._shared.numpy()[_TAKEN : _TAKEN + 1]
        while True:
            before = int(word[0])
            taker, count = divmod(before, 1 << _TAKEN_BITS)
            if count > 0 and (taker != iteration or count >= num_workers):
                return None
            after = (iteration << _TAKEN_BITS) + count + 1
            if _core.compare_exchange(word, before, after):
                return self.resumed

    # ---- mixtures that continue ----

    @property
    def continuation(self) -> Continuation | None:
        """Where the parts of a mixture continue in one epoch; None if they do in none."""
        is_set, *numbers = self._shared[self._sources_end :].tolist() or [0]
        return Continuation.of_numbers(numbers) if is_set else None

    @continuation.setter
    def continuation(self, value: Continuation | None) -> None:
        if value is None:
            self._shared[self._sources_end :] = 0
        else:
            self._shared[self._sources_end :] = torch.tensor([1, *value.numbers()])

    # ---- warnings ----

    def warn_once(self, logger: logging.Logger, subject: Subject, message: str) -> None:
        """Log a warning, unless a process that shares this state has logged one on the subject."""
        if not self.is_marked(subject):
            self.mark(subject)
            logger.warning(message)

    def is_marked(self, subject: Subject) -> bool:
        """Return whether no warning on a subject is to be logged, or no more."""
        return bool(int(self._shared[_WARNED]) & subject)

    def mark(self, subject: Subject) -> None:
        """Log no warning on a subject."""
        self._shared[_WARNED] |= subject.value
