"""The epoch of the next iteration, and the position at which it starts."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from torch.utils.data import get_worker_info

from .._order.progress import Place, ProcessLayout, Progress
from ..checks import check_integer
from ..errors import StateMismatchError
from .partition import RecordPartition
from .worker_state import WorkerState

logger = logging.getLogger("torchrec_io")

# How a state of a mixture with other weights or datasets is loaded.
NewWeights: TypeAlias = Literal["new"]


class Times(NamedTuple):
    """How often epochs were set and positions loaded before an iteration was created.

    Attributes:
        set: Number of calls of ``set_epoch``.
        loaded: Number of positions that were loaded.
    """

    set: int
    loaded: int


class Epochs:
    """The epoch of the next iteration, and the position at which it starts.

    Both are shared with DataLoader workers. An iteration that starts takes them from here, and its
    own position belongs to its iterator.

    Args:
        num_parts: Number of parts of a mixture; 0 for other datasets.
        num_sources: Number of its sources, whose records are counted.
    """

    def __init__(self, num_parts: int = 0, num_sources: int = 0) -> None:
        self._own_state = WorkerState(num_parts, num_sources)
        self._pid = os.getpid()

    @property
    def partition(self) -> RecordPartition:
        """Assigns records to this process, by its rank."""
        raise NotImplementedError

    @property
    def state(self) -> WorkerState:
        """State shared with the copies in DataLoader workers."""
        if self._pid != os.getpid() and get_worker_info() is None:
            # Another training process has its own epochs and positions.
            self._pid = os.getpid()
            self._own_state = self._own_state.copy()
        return self._own_state

    def to_state(self, place: Place) -> dict[str, Any]:
        """Return a position as plain data."""
        raise NotImplementedError

    def from_state(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> Place:
        """Return the position of a state.

        Args:
            state: A state.
            weights: ``"new"`` continues the datasets of a mixture that was mixed otherwise.

        Raises:
            StateMismatchError: If the state belongs to another order.
            ValueError: If ``weights`` is invalid.
            TypeError: If ``weights`` is given, and this is not a mixture of records.
        """
        raise NotImplementedError

    # ---- the start of an iteration ----

    @property
    def epoch(self) -> int:
        """Epoch with which the next iteration starts."""
        return self.state.clock.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        check_integer("epoch", epoch)
        self.state.set_epoch(epoch)
        resumed = self.state.resumed
        if resumed is not None and not resumed[0].is_in(epoch):
            self.state.drop_resume()
        self.note_epoch()

    def note_epoch(self) -> None:
        """Update what depends on the epoch of the next iteration: nothing here."""

    def next_start(self) -> Place:
        """Return the position at which the next iteration of this rank starts."""
        resumed = None if self.state.is_resume_taken else self.current(self.state.resumed)
        epoch = self.epoch
        return resumed or (Progress(epoch, epoch), self.partition.layout())

    def current(self, place: Place | None) -> Place | None:
        """Return a resumed position if it is in the next epoch, else None."""
        return place if place is not None and place[0].is_in(self.epoch) else None

    # ---- iterations of this process ----

    def begin(self) -> Callable[[int], None]:
        """Begin an iteration; return a function that moves the epoch at its end.

        It takes the epoch after the last one. It does nothing if the epoch or a position was set
        since, or another iteration has moved the epoch.
        """
        state, times = self.state, self.times
        epoch, _ = state.clock.begin(state.clock.new_iteration())

        # It must not refer to this object, which refers to the position of the iteration.
        def move_epoch(next_epoch: int) -> None:
            if times == (state.times_set, state.times_loaded):
                state.clock.move(epoch, next_epoch)

        return move_epoch

    def repeat(self, epoch: int, next_epoch: int) -> None:
        """Start an iteration again that has ended, if nothing has happened since.

        Args:
            epoch: Epoch with which it started.
            next_epoch: Epoch after its last one.
        """
        self.state.clock.repeat_epoch(epoch, next_epoch)
        self.note_epoch()

    @property
    def times(self) -> Times:
        """How often epochs were set and positions loaded so far."""
        return Times(self.state.times_set, self.state.times_loaded)

    def is_replaced(self, progress: Progress, times: Times) -> bool:
        """Return whether another position than that of an iteration was set.

        Args:
            progress: Progress of the iteration.
            times: Numbers of both before the iteration was created.
        """
        if times.loaded != self.times.loaded:
            return True
        return times.set != self.times.set and not progress.is_in(self.epoch)

    # ---- positions that are loaded ----

    @property
    def is_epoch_set(self) -> bool:
        """True if an epoch was set since an iteration started."""
        return self.state.times_set != self.state.times_seen

    def is_dropped(self, progress: Progress) -> bool:
        """Return whether a position that is loaded is dropped, as another epoch was set."""
        is_dropped = self.is_epoch_set and not progress.is_in(self.epoch)
        if is_dropped:
            logger.info("set_epoch was called for another epoch than the state's: it comes next")
            self.state.drop_resume()
        return is_dropped

    def load(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> None:
        """Start the next iteration at a state; see :meth:`from_state`."""
        place = self.from_state(state, weights)
        if self.enter(place[0], is_at_end=self._is_at_end(place)):
            self._resume_from(place)

    def resume(self, place: Place) -> None:
        """Start the next iteration at a position.

        At its end, the next epoch follows. But if its own epoch was set, before or afterwards,
        nothing is left of that.
        """
        self._enter(place[0], is_at_end=self._is_at_end(place))
        self._resume_from(place)

    def _resume_from(self, place: Place) -> None:
        self.state.resume_from(place)

    def enter(self, progress: Progress, *, is_at_end: bool) -> bool:
        """Enter the epoch of a position that was loaded, or the next one after its end.

        Returns:
            False if another epoch was set: that comes next, and the position is dropped.
        """
        if self.is_dropped(progress):
            self.state.note_loaded()
            return False
        self._enter(progress, is_at_end=is_at_end)
        return True

    def _enter(self, progress: Progress, *, is_at_end: bool) -> None:
        self.state.note_loaded()
        self.state.drop_resume()
        if self.is_epoch_set and progress.is_in(self.epoch):
            return
        self.state.clock.set(
            self.partition.epoch_after(progress) if is_at_end else progress.first_epoch
        )
        self.note_epoch()

    def _is_at_end(self, place: Place) -> bool:
        """Return whether the next iteration starts with the next epoch after a position.

        The process of that position has reached its end, and so has this one: in another layout, it
        must not be ahead of other ranks.
        """
        now = self.partition.layout()
        return self.leaves_nothing(place, now if now == place[1] else first_rank(now))

    def leaves_nothing(self, place: Place, now: ProcessLayout) -> bool:
        """Return whether a process has reached its end, where another one would continue."""
        partition = self.partition
        if not partition.is_done(*place):
            return False
        try:
            return partition.is_done(partition.moved(*place, now), now)
        except StateMismatchError:  # raised when the iteration starts
            return False


def first_rank(layout: ProcessLayout) -> ProcessLayout:
    """Return the layout of the first rank: no other rank has more records."""
    return dataclasses.replace(layout, rank=0)
