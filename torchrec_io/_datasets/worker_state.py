"""State that a dataset shares with its copies in DataLoader workers."""

from __future__ import annotations

import dataclasses
import enum
import logging

import torch

from .._order.progress import ProcessLayout, Progress
from .epoch_clock import CLOCK_NUMBERS, EpochClock
from .statistics import COUNTER_NUMBERS, LoadingCounters

_WORKER_SLOTS = 1024

# Positions of the numbers in the shared memory, after those of the clock and the counters. Three
# arrays of one slot for each worker follow: the number of errors skipped, the number of records
# repeated in place of lost ones, and whether the worker has started where the dataset was resumed.
_TIMES_SET, _TIMES_SEEN, _LOADER_EPOCH, _IN_WORKERS, _WARNED, _TAKERS, _HAS_RESUME, _RESUME = range(
    CLOCK_NUMBERS + COUNTER_NUMBERS, CLOCK_NUMBERS + COUNTER_NUMBERS + 8
)
_PROGRESS_FIELDS = len(dataclasses.fields(Progress))
_SKIPPED = _RESUME + _PROGRESS_FIELDS + len(dataclasses.fields(ProcessLayout))
_REPEATED = _SKIPPED + _WORKER_SLOTS
_TAKEN = _REPEATED + _WORKER_SLOTS


class Subject(enum.IntFlag):
    """Subject of a warning that is logged once."""

    cost = enum.auto()
    epochs = enum.auto()
    positions = enum.auto()
    features = enum.auto()


class WorkerState:
    """Numbers in memory that stays shared when a dataset is pickled or forked into workers."""

    def __init__(self) -> None:
        self._shared = torch.zeros(_TAKEN + _WORKER_SLOTS, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        self._shared = state["_shared"]
        # Still shared with the original if it was pickled for a process that is being started.
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def copy(self) -> WorkerState:
        """Return the same numbers in memory of their own."""
        other = WorkerState()
        other._shared.copy_(self._shared)
        return other

    @property
    def clock(self) -> EpochClock:
        """Epoch with which the next iteration starts."""
        return EpochClock(self._shared[:CLOCK_NUMBERS])

    @property
    def counters(self) -> LoadingCounters:
        """Statistics of loading of all processes."""
        return LoadingCounters(self._shared[CLOCK_NUMBERS : CLOCK_NUMBERS + COUNTER_NUMBERS])

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch, as the user asked."""
        self.clock.set(epoch)
        self._shared[_TIMES_SET] += 1

    @property
    def times_set(self) -> int:
        """Number of calls of :meth:`set_epoch`."""
        return int(self._shared[_TIMES_SET])

    @property
    def times_seen(self) -> int:
        """Number of those calls before the last iteration started."""
        return int(self._shared[_TIMES_SEEN])

    @times_seen.setter
    def times_seen(self, times: int) -> None:
        self._shared[_TIMES_SEEN] = times

    @property
    def loader_epoch(self) -> int:
        """Epoch of the iteration of a loader whose workers do not follow the clock."""
        return int(self._shared[_LOADER_EPOCH])

    @loader_epoch.setter
    def loader_epoch(self, epoch: int) -> None:
        self._shared[_LOADER_EPOCH] = epoch

    @property
    def is_in_workers(self) -> bool:
        """True if DataLoader workers ran the last iteration."""
        return bool(self._shared[_IN_WORKERS])

    @is_in_workers.setter
    def is_in_workers(self, value: bool) -> None:
        self._shared[_IN_WORKERS] = value

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

    @property
    def skipped(self) -> int:
        """Number of errors skipped so far, in all processes."""
        return int(self._shared[_SKIPPED:_REPEATED].sum())

    def count_skipped(self, worker: int, count: int = 1) -> None:
        """Count skipped errors. Each worker has a slot of its own, so no count is lost."""
        self._shared.numpy()[_SKIPPED + worker % _WORKER_SLOTS] += count

    @property
    def repeated(self) -> int:
        """Number of records repeated so far in place of lost ones, in all processes."""
        return int(self._shared[_REPEATED:_TAKEN].sum())

    def count_repeated(self, worker: int, count: int) -> None:
        """Count records that were repeated."""
        self._shared[_REPEATED + worker % _WORKER_SLOTS] += count

    def resume_from(self, progress: Progress, layout: ProcessLayout) -> None:
        """Make the next iteration, in whatever processes, start from a progress."""
        numbers = (*dataclasses.astuple(progress), *dataclasses.astuple(layout))
        self._shared[_RESUME:_SKIPPED] = torch.tensor(numbers)
        self._shared[_TAKEN:] = 0
        self._shared[_TAKERS] = 0
        self._shared[_HAS_RESUME] = 1

    def drop_resume(self) -> None:
        """Make the next iteration start at the beginning of its epoch."""
        self._shared[_HAS_RESUME] = 0

    def take_resume(self, worker: int, num_workers: int) -> tuple[Progress, ProcessLayout] | None:
        """Return the position at which a worker resumes, once for each worker; else None.

        Later iterations, and iterations of another number of workers, get None. With
        ``persistent_workers`` a worker runs several iterations, and only this result shows it
        whether an iteration was resumed.

        Args:
            worker: Number of the worker.
            num_workers: Number of workers; 0 without DataLoader workers.
        """
        slot = _TAKEN + worker % _WORKER_SLOTS
        if self._shared[_TAKERS] == 0:
            self._shared[_TAKERS] = num_workers + 1
        if self._shared[_TAKERS] != num_workers + 1 or self._shared[slot]:
            return None
        self._shared[slot] = 1
        return self.peek_resume()

    def untaken_resume(self) -> tuple[Progress, ProcessLayout] | None:
        """Return the resumed position if no iteration has started there, else None."""
        return None if self._shared[_TAKERS] else self.peek_resume()

    def peek_resume(self) -> tuple[Progress, ProcessLayout] | None:
        """Return the resumed position, whether or not an iteration has started there."""
        if not self._shared[_HAS_RESUME]:
            return None
        numbers = self._shared[_RESUME:_SKIPPED].tolist()
        return Progress(*numbers[:_PROGRESS_FIELDS]), ProcessLayout(*numbers[_PROGRESS_FIELDS:])
