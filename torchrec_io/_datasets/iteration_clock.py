"""The clock of an iteration: it starts with an epoch and moves the clock of the dataset on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .epoch_clock import EpochClock
from .partition import RecordPartition

if TYPE_CHECKING:
    from .iteration import Position


class IterationClock:
    """One iteration in one process, for the clock of the epochs.

    The end of an iteration is where its consumer has taken the last item. A DataLoader worker runs
    ahead of the consumer, so its end is where it is asked for more than its last item.

    Args:
        clock: Clock of the dataset.
        iteration: Number of the iteration.
        num_workers: Number of workers that share the iteration; 0 without workers.
        times_set: Number of calls of ``set_epoch`` before the iteration was created.

    Attributes:
        times_set: Number of calls of ``set_epoch`` before the iteration was created.
        last: Number of units consumed with the last item, if the consumer takes it in this process.
        has_ended: Whether the iteration has reached its end in this process.
    """

    def __init__(self, clock: EpochClock, iteration: int, num_workers: int, times_set: int) -> None:
        self._clock = clock
        self._iteration = iteration
        self._num_workers = num_workers
        # Number of times that the clock was set before the start, and the epoch, if this moves it.
        self._start: tuple[int, int] | None = None
        self._next_epoch: int | None = None
        self.has_ended = False
        self.times_set = times_set
        self.last: int | None = None

    def begin(self) -> tuple[int, bool]:
        """Begin the iteration; see :meth:`EpochClock.begin`."""
        epoch, follows = self._clock.begin(self._iteration)
        self._start = self._clock.times_set, epoch
        return epoch, follows

    def begin_at(self, epoch: int) -> None:
        """Begin the iteration with another epoch."""
        self._clock.restart(self._iteration, epoch)

    def resume(self, partition: RecordPartition, position: Position, *, is_at_end: bool) -> None:
        """Note whether a worker resumes at its end or inside the iteration."""
        if is_at_end:
            self.expect(partition, position)
            self.end()
        else:
            self._clock.note_inside(self._iteration)

    def starts_after(self, position: Position) -> bool:
        """Return whether an iteration that resumed at its end starts with the next epoch.

        It does if all of its workers resumed at their ends. They have all resumed before the first
        item is requested.
        """
        if not self.has_ended or self._clock.is_inside(self._iteration):
            return False
        if self._clock.epoch <= position.epoch:
            return False
        self._clock.begin(self._iteration)
        self.has_ended = False
        return True

    def expect(self, partition: RecordPartition, position: Position) -> None:
        """Note the epoch of a position, which the iteration enters."""
        progress = position.progress
        self.last = None
        self._next_epoch = None
        if partition.options["epochs"] is None:
            return
        self._next_epoch = partition.epoch_after(progress)
        if self._num_workers == 0 and partition.is_last_epoch(progress):
            self.last = partition.num_units(progress, position.layout)

    def take(self, position: Position) -> None:
        """Count the item at a position, which the consumer takes."""
        if self.last is not None and position.consumed >= self.last:
            self.end()

    def repeat_epoch(self, epoch: int) -> None:
        """Start with an epoch again: the last items were not used."""
        if self.has_ended and self._next_epoch is not None:
            self._clock.repeat_epoch(epoch, self._next_epoch)

    def end(self) -> None:
        """Move the clock on, if the iteration is not endless."""
        if self._next_epoch is not None and not self.has_ended:
            self.has_ended = True
            if self._num_workers > 0:
                self._clock.end(self._iteration, self._next_epoch, self._num_workers)
            elif self._start is not None:
                self._clock.move(*self._start, self._next_epoch)
