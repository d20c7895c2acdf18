"""Positions of the iterations of one process."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch.utils.data import get_worker_info

from .._order.progress import Place, ProcessLayout, Progress
from .._order.ramp import Ramp
from .epochs import Times
from .partition import EpochPartition, RecordPartition


class Walk(NamedTuple):
    """Samples of a list that are being yielded.

    The consumer's place is looked up when it is needed, as samples are many.

    Attributes:
        rest: Iterator over the list.
        total: Number of samples in the list.
        ends: Number of planned records that end with each of them.
    """

    rest: Iterator[Any]
    total: int
    ends: Sequence[int]

    @property
    def taken(self) -> int:
        """Number of samples that were yielded."""
        return self.total - operator.length_hint(self.rest)

    @property
    def consumed(self) -> int:
        """Number of planned records up to the last sample that was yielded."""
        taken = self.taken
        return self.ends[taken - 1] if taken > 0 else 0


@dataclass
class Position:
    """Position of an iteration, as seen by its consumer.

    The end of an iteration is where its consumer has taken the last item. A DataLoader worker runs
    ahead of the consumer, so its end is where it is asked for more than its last item.

    Attributes:
        partition: Assigns records to the process of the iteration.
        layout: Process layout of the iteration.
        times: Numbers of epochs set and positions loaded before it was created.
        move_epoch: Called at the end, unless the iteration is endless, with the epoch after its
            last one.
        is_in_worker: Whether the iteration runs in a worker.
        reached: Progress without the samples of ``walk``.
        was_tried: Whether a batch of this epoch was loaded.
        has_yielded: Whether anything of this epoch was yielded.
        has_ended: Whether the iteration has reached its end.
        last: Number of units consumed with the last item, if this process knows it.
        walk: Samples that are being yielded.
    """

    partition: RecordPartition
    layout: ProcessLayout
    times: Times
    move_epoch: Callable[[int], None]
    is_in_worker: bool
    reached: Progress
    was_tried: bool = False
    has_yielded: bool = False
    has_ended: bool = False
    last: int | None = None
    walk: Walk | None = None

    @classmethod
    def at(
        cls,
        place: Place,
        partition: RecordPartition,
        times: Times,
        move_epoch: Callable[[int], None],
    ) -> Position:
        """Return the position of an iteration of this process that starts at a place."""
        progress, layout = place
        in_worker = get_worker_info() is not None
        position = cls(partition, layout, times, move_epoch, in_worker, progress)
        position.has_yielded = progress.begin > 0 or progress.consumed > 0
        return position

    @property
    def progress(self) -> Progress:
        return self._further(0 if self.walk is None else self.walk.consumed)

    def _further(self, consumed: int, ahead: int = 0) -> Progress:
        before = self.reached
        return dataclasses.replace(
            before, consumed=before.consumed + consumed, ahead=before.ahead + ahead
        )

    @property
    def place(self) -> Place:
        return self.progress, self.layout

    @property
    def next_epoch(self) -> int | None:
        """Epoch after the last one of the iteration; None if it is endless."""
        is_endless = self.partition.options["epochs"] is None
        return None if is_endless else self.partition.epoch_after(self.progress)

    def copy(self) -> Position:
        """Return a position that does not move with this one."""
        return dataclasses.replace(self, reached=self.progress, walk=None)

    def size_at(self, further: int = 0) -> Any:
        """Return the size of the batch here, or after further units; None without batches."""
        if not isinstance(self.partition.options["batch_size"], Ramp):
            return self.partition.options["batch_size"]
        assert isinstance(self.partition, EpochPartition)
        return self.partition.size_at(self._further(further), self.layout)

    def move(self, consumed: int, ahead: int = 0) -> None:
        """Move past some units, of which some were read out of turn."""
        self.reached = self._further(consumed, ahead)

    def start(self) -> None:
        """Find the last item, at the start of an iteration or an epoch."""
        progress = self.progress
        is_last = not self.is_in_worker and self.partition.is_last_epoch(progress)
        self.last = self.partition.num_units(progress, self.layout) if is_last else None

    def enter(self, progress: Progress) -> None:
        """Move to the start of another epoch."""
        self.reached = progress
        self.was_tried = self.has_yielded = False

    def take(self) -> None:
        """Count the item at this position, which the consumer takes."""
        if self.last is not None and self.reached.consumed >= self.last:
            self.end()

    def end(self) -> None:
        """Move to the next epoch, unless the iteration is endless."""
        next_epoch = self.next_epoch
        if next_epoch is not None and not self.has_ended:
            self.has_ended = True
            self.move_epoch(next_epoch)


class LatestPosition:
    """Finds the position of the iteration of this process that yielded last.

    One iteration runs as fast as it can, and its position shows whether it has yielded. Others that
    run beside it, such as a look at the first batch inside a loop, note each of their items.
    """

    def __init__(self) -> None:
        self._main: Position | None = None
        self._is_running = False  # the main iteration
        # Position of the other iteration that yielded last, and progress of the main one then.
        self._beside: tuple[Position, Progress] | None = None

    def get(self) -> Position | None:
        """Return the position; None before the first iteration."""
        if self._main is not None and self._beside is not None:
            position, before = self._beside
            if self._main.progress == before:
                return position
        return self._main

    def start(self, position: Position) -> None:
        """Follow a new iteration in place of one that has ended."""
        if not self._is_running:
            self._main, self._beside = position, None

    def run(self, position: Position) -> bool:
        """Follow an iteration that yields its first item.

        Returns:
            True if it runs beside another one, and so must note each item.
        """
        self.start(position)
        is_beside, self._is_running = self._is_running, True
        return is_beside

    def note(self, position: Position) -> None:
        """Note an item, or the end, of an iteration beside the main one."""
        assert self._main is not None
        self._beside = position, self._main.progress

    def end(self) -> None:
        """Follow the main iteration no longer: it has ended, or was left."""
        self._is_running = False
