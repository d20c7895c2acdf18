"""Loaders that can be saved and resumed: their loops, and the positions of these."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch

from .._datasets.epochs import Epochs, NewWeights
from .._datasets.partition import RecordPartition
from .._datasets.position import Position
from .._datasets.session import Session
from .._order.progress import PLACE_NUMBERS, Place, ProcessLayout, Progress, place_numbers
from ..checks import counted
from ..errors import StateMismatchError

_END = object()


class ResumableLoader:
    """An iterable over the items of a DataLoader, with the position of the loops over it.

    The position is that of the loop that yielded last, or one that was set. It follows from the
    number of items that a loop has yielded. Where records may be lost, and for samples and streams,
    it is that of the iterator of this process, or those of the workers, which come with their
    items.

    Args:
        dataset: The dataset that is read.
        epochs: Epoch of the next loop, and the position at which it starts.
        num_workers: Number of worker processes.
        in_batches: Whether an item is a batch.
        is_counted: Whether the position follows from the number of items.

    Attributes:
        dataset: The dataset that is read.
        epochs: Epoch of the next loop, and the position at which it starts.
        num_workers: Number of worker processes.
        in_batches: Whether an item is a batch.
        is_counted: Whether the position follows from the number of items.
        starts: Positions of the processes at the start of the loop that began last: int64
            ``[processes, PLACE_NUMBERS]`` in shared memory. The dataset, or sampler, of the
            DataLoader starts there.
        loader: The DataLoader; it is set once.
        newest: The loop that began last; None before the first one.
    """

    def __init__(
        self, dataset: Any, epochs: Epochs, num_workers: int, *, in_batches: bool, is_counted: bool
    ) -> None:
        self.dataset = dataset
        self.epochs = epochs
        self.num_workers = num_workers
        self.in_batches = in_batches
        self.is_counted = is_counted
        self.starts = _shared_starts(max(1, num_workers))
        self._pid = os.getpid()
        self.loader: Any = None
        self.newest: Loop | None = None
        self._loop: Loop | None = None  # that yielded last
        # Where the workers of the next loop start, if that is in its epoch. The first one is the
        # one whose item comes next.
        self._resumed: list[Place] | None = None

    @property
    def has_worker_positions(self) -> bool:
        """True if states hold one position for each worker."""
        return self.num_workers > 0 and not self.is_counted

    @property
    def description(self) -> str:
        """Source of the position, and the loaders that can resume from its states."""
        if self.has_worker_positions:
            return "those of the workers; must be resumed with as many workers"
        source = "counted batches" if self.is_counted else "the dataset's own"
        return f"{source}; can be resumed with any number of workers"

    @property
    def session(self) -> Session | None:
        """The dataset's own state, if the position is that of its iterator in this process."""
        has_own = isinstance(self.epochs, Session) and self.num_workers == 0
        return cast("Session", self.epochs) if has_own else None

    # ---- loops ----

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        self.newest = loop = self._begin()
        return self._items(loop)

    def _items(self, loop: Loop) -> Iterator[Any]:
        """Start the iteration over the DataLoader, and yield its items.

        Raises:
            RuntimeError: At the end, if an item is missing.
        """
        loop.is_running = True
        try:
            with self._starting(loop.starts):
                items = iter(self.loader)
                item: Any = next(items, _END)
            if self.session is not None:
                loop.own = self.session.newest
            while item is not _END:
                item = loop.take(item)
                if self._loop is not loop and loop.times.loaded == self.epochs.times.loaded:
                    self._loop = loop
                yield item
                item = next(items, _END)
        finally:
            loop.is_running = False
        if isinstance(self.epochs, Session):
            loop.check_whole()

    def end(self, loop: Loop) -> None:
        """Move to the next epoch: a loop has taken its last item."""
        loop.end()
        self.epochs.note_epoch()

    def _begin(self) -> Loop:
        resumed, self._resumed = self._current(), None
        if resumed is None:
            start = self._next_start()
            loop = Loop(self, start, self._starts_of(start))
        else:
            loop = Loop(self, None, resumed)
        self.epochs.state.drop_resume()
        self.epochs.state.times_seen = loop.times.set
        if self._loop is None or not self._loop.is_running:
            self._loop = loop
        return loop

    @contextlib.contextmanager
    def _starting(self, starts: Sequence[Place]) -> Iterator[None]:
        """Return a context in which the iterators of a loop start at positions."""
        if self._pid != os.getpid():  # ranks that inherit a loader have positions of their own
            self._pid = os.getpid()
            self.starts.data = _shared_starts(len(self.starts))
        self.starts.copy_(torch.tensor([place_numbers(place) for place in starts]))
        session = self.session
        if session is not None:
            session.starts = self.starts
        try:
            yield
        finally:
            if session is not None:
                session.starts = None

    def _starts_of(self, start: Place) -> list[Place]:
        """Return the positions at which the processes start, if the rank starts at a position."""
        partition, workers = self.epochs.partition, range(self.num_workers)
        layouts = [partition.layout(worker, self.num_workers) for worker in workers]
        return [(partition.moved(*start, layout), layout) for layout in layouts] or [start]

    def _next_start(self) -> Place:
        """Return the position at which this rank starts the next loop."""
        partition = self.epochs.partition
        layout = partition.layout()
        return partition.moved(*self.epochs.next_start(), layout), layout

    def repeat_epoch(self) -> None:
        """Start the last epoch again: its last batches were not used."""
        if self._loop is not None and self._loop.next_epoch is not None:
            self.epochs.repeat(self._loop.first_epoch, self._loop.next_epoch)

    # ---- setting, saving and loading ----

    def _current(self) -> list[Place] | None:
        """Return the positions of the workers that were loaded, if they are in the next epoch."""
        places = self._resumed
        return None if places is None or self.epochs.current(places[0]) is None else places

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next loop."""
        self.epochs.set_epoch(epoch)
        self._resumed = self._current()

    def resume(self, epoch: int, batches: int) -> None:
        """Start the next loop after a number of batches of an epoch."""
        self.epochs.resume(self.epochs.partition.place_after(epoch, batches))
        self._resumed = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position as plain data."""
        loop = self._loop
        if loop is not None:
            places = loop.places()
            if not self.epochs.is_replaced(places[0][0], loop.times):
                return self._state(places, has_ended=loop.has_ended)
        resumed = self._current()
        if resumed is not None:
            return self._state(resumed)
        return self.epochs.to_state(self._next_start())

    def _state(self, places: Sequence[Place], *, has_ended: bool = False) -> dict[str, Any]:
        states = [self.epochs.to_state(place) for place in places]
        if not self.has_worker_positions:
            return states[0]
        return {"has_ended": has_ended, "workers": states}

    def load_state_dict(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> None:
        """Start the next loop at a state; see :meth:`Epochs.from_state`.

        Raises:
            StateMismatchError: If the state belongs to another order, or to another number of
                workers.
        """
        # Without workers, and before the first item, a state is that of one process.
        if not self.has_worker_positions or "order" in state or weights is not None:
            self.epochs.load(state, weights)
            self._resumed = None
            return
        try:
            places = [self.epochs.from_state(each) for each in state["workers"]]
            has_ended = bool(state["has_ended"])
        except (KeyError, TypeError) as error:
            raise StateMismatchError(f"this is not a state of a loader: {error!r}") from None
        if len(places) != self.num_workers:
            raise StateMismatchError(
                f"the state belongs to a loader with {counted(len(places), 'worker')}: only as "
                f"many can resume from it, and this one has {self.num_workers}"
            )
        if {layout.worker for _, layout in places} != {*range(self.num_workers)}:
            raise StateMismatchError("this is not a state of a loader: workers are missing in it")
        partition = self.epochs.partition
        is_at_end = has_ended or all(partition.is_done(*place) for place in places)
        places = [self._own_place(place, partition) for place in places]
        is_entered = self.epochs.enter(places[0][0], is_at_end=is_at_end)
        self._resumed = places if is_entered else None

    def _own_place(self, place: Place, partition: RecordPartition) -> Place:
        """Return the position of a worker of this rank that is as far as one of any rank.

        Raises:
            StateMismatchError: If it does not follow from that.
        """
        layout = partition.layout(place[1].worker, self.num_workers)
        return partition.moved(*place, layout), layout


def _shared_starts(processes: int) -> torch.Tensor:
    """Return room for the positions of processes, in shared memory."""
    starts = torch.zeros((processes, PLACE_NUMBERS), dtype=torch.int64)
    starts.share_memory_()  # type: ignore[no-untyped-call]
    return starts


class Loop:
    """One loop over a loader, and its position.

    It moves the epochs, not the dataset: the dataset, workers and copies to the device may be ahead
    of the loop.

    Args:
        owner: The loader. It is not kept, because it keeps its loops.
        start: Position at which this rank starts; None if only the workers know theirs.
        starts: Position at which each process starts.

    Attributes:
        starts: Position at which each process starts.
        own: Position of the iterator of this process; None if that is not known.
        times: Numbers of epochs set and positions loaded before it.
        first_epoch: Epoch with which it starts.
        next_epoch: Epoch after its last one; None if it is endless.
        num_yielded: Number of items that it has yielded.
        is_running: True from its begin to its end.
        has_ended: True once it has taken the last item.
    """

    def __init__(
        self, owner: ResumableLoader, start: Place | None, starts: Sequence[Place]
    ) -> None:
        epochs = owner.epochs
        self._has_worker_positions = owner.has_worker_positions
        partition: Any = epochs.partition  # that of counted items knows how many there are
        self._partition = partition
        self.starts = starts
        self._start = start if owner.is_counted else None
        # Position of each process after the items that were yielded, in the order in which the
        # workers come next.
        self._places = {layout.worker: (progress, layout) for progress, layout in starts}
        self.own: Position | None = None  # of the iterator of this process
        self.times = epochs.times
        self._move_epoch = epochs.begin()
        self.first_epoch = starts[0][0].first_epoch
        num_epochs = partition.options["epochs"]
        self.next_epoch = None if num_epochs is None else self.first_epoch + num_epochs
        # Number of its items; None if that is not known.
        self._planned: int | None = None
        if self._start is not None and num_epochs is not None:
            self._planned = partition.num_left(*self._start)
        self.num_yielded = 0
        self.is_running = self.has_ended = False

    def take(self, item: Any) -> Any:
        """Move to the end of an item of the DataLoader, and return what the loop gets of it."""
        self.num_yielded += 1
        if self._has_worker_positions:
            item, (progress, layout) = item
            del self._places[layout.worker]
            self._places[layout.worker] = progress, layout
        return item

    def check_whole(self) -> None:
        """Raise RuntimeError if an item is missing at the end."""
        if self._planned is not None and self.num_yielded < self._planned:
            raise RuntimeError(
                f"the workers ended after {counted(self.num_yielded, 'item')} of {self._planned}, "
                "before the last item of the epoch: an item was lost between a worker process and "
                "the loop"
            )

    def places(self) -> list[Place]:
        """Return the positions that a state holds: one, or one for each worker."""
        if self.own is not None:
            return [self.own.place]
        if self._start is not None:
            progress, layout = self._start
            return [(self._partition.advanced(progress, layout, self.num_yielded), layout)]
        return [*self._places.values()]

    def is_at_end(self) -> bool:
        """Return whether the last item was yielded, as far as this is known."""
        if self.own is not None:
            return self.own.has_ended
        if self._start is not None:
            return self._planned is not None and self.num_yielded >= self._planned
        return self.has_ended or all(self._is_done(*place) for place in self._places.values())

    def _is_done(self, progress: Progress, layout: ProcessLayout) -> bool:
        """Return whether a worker has no item left. Some have none from the start."""
        if not self._partition.is_last_epoch(progress):
            return False
        units = self._partition.num_units(progress, layout)
        return units is not None and progress.consumed >= units

    def num_unrepeated(self) -> int | None:
        """Return the number of records in the last step of all ranks, without repeated ones.

        0 if no record is repeated there; None if that is not known.
        """
        found: int | None = self._partition.num_unrepeated(*self.starts[0])
        return found

    def end(self) -> None:
        """Move to the next epoch: the loop has taken the last item."""
        self.has_ended = True
        if self.next_epoch is not None:
            self._move_epoch(self.next_epoch)
