"""Positions of the loops over a loader."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from .._datasets.base import RecordDataset
from .._datasets.indexed import CountedDataset
from .._datasets.partition import EpochPartition
from .._datasets.session import Place
from ..checks import check_integer, counted
from ..errors import StateMismatchError

# Items of a sampler that are compared after those that were used, so that few used ones suffice.
_MORE_ITEMS = 64


class Loop:
    """Position of one iteration over a loader.

    Attributes:
        planned: Number of items that it has; None if that is not known.
        num_yielded: Number of items that it has yielded.
        needs_new_workers: Whether worker processes that run do not know where it starts.
    """

    planned: int | None = None
    num_yielded: int = 0
    needs_new_workers = False

    def items(self, loader: Any) -> Iterator[Any]:
        """Start the iteration over a DataLoader, and return its items.

        Raises:
            RuntimeError: At the end, if an item is missing.
        """
        return self._counted(iter(loader))

    def _counted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.num_yielded += 1
            yield self.move(item)
        if self.planned is not None and self.num_yielded < self.planned:
            raise RuntimeError(
                f"the workers ended after {counted(self.num_yielded, 'item')} of {self.planned}, "
                "before the last item of the epoch: an item was lost between a worker process and "
                "the loop"
            )

    def move(self, item: Any) -> Any:
        """Move to the end of an item of the DataLoader, and return what the loop gets of it."""
        return item

    def is_at_end(self) -> bool:
        """Return whether the last item was yielded, as far as this is known."""
        return False

    def num_unrepeated(self) -> int | None:
        """Return the number of records in the last step of all ranks, without repeated ones.

        0 if no record is repeated there; None if that is not known.
        """
        return None

    def end(self) -> None:
        """Move to the next epoch: the loop has taken the last item."""
        raise NotImplementedError


class LoopPosition(Protocol):
    """The position of a loader: that of the loop that yielded last, or one that was set.

    Attributes:
        description: Source of the position, and the runs that its states can resume.
    """

    description: str

    def begin(self) -> Loop:
        """Return the position of an iteration that starts."""

    def repeat_epoch(self) -> None:
        """Start the last epoch again: its last batches were not used."""

    def set_epoch(self, epoch: int) -> None: ...
    def resume(self, epoch: int, batches: int) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


# ---- datasets with epochs of their own ----


class RecordsLoop(Loop):
    """An iteration over a dataset with epochs of its own.

    It moves the epochs, not the dataset: the dataset, workers and copies to the device may be ahead
    of the loop.

    Args:
        dataset: The dataset that is read.
        start: Where it starts, if workers were resumed. By default where the dataset was resumed,
            or at its next epoch.

    Attributes:
        first_epoch: Epoch with which it starts.
        times_set: Number of calls of ``set_epoch`` before it.
    """

    def __init__(self, dataset: RecordDataset, start: Place | None = None) -> None:
        self._session = session = dataset._session
        self._partition = session.partition
        self._start = start or session.next_start()
        self.first_epoch = session.state.loader_epoch = self._start[0].first_epoch
        self.times_set = session.state.times_set
        self._clock = session.state.clock
        self._epoch, _ = self._clock.begin(self._clock.new_iteration())
        self._times_moved = self._clock.times_set

    def items(self, loader: Any) -> Iterator[Any]:
        self._session.follows_loader = True
        try:
            return super().items(loader)
        finally:
            self._session.follows_loader = False

    def is_at_end(self) -> bool:
        return self._session.is_at_end()

    def start(self, worker: int = 0, num_workers: int = 1) -> Place:
        """Return the position at which a worker of this rank starts; by default, the rank."""
        now = self._partition.layout(worker, num_workers)
        return self._partition.moved(*self._start, now), now

    def num_unrepeated(self) -> int | None:
        if not isinstance(self._partition, EpochPartition):
            return None
        return self._partition.num_unrepeated(*self.start())

    def end(self) -> None:
        epochs = self._partition.options["epochs"]
        if epochs is not None:
            self._clock.move(self._times_moved, self._epoch, self.first_epoch + epochs)

    def repeat(self) -> None:
        """Start the epoch again, if it was the last one."""
        epochs = self._partition.options["epochs"]
        if epochs is not None:
            self._clock.repeat_epoch(self.first_epoch, self.first_epoch + epochs)


class RecordsPosition:
    """The dataset's own position: this process reads the dataset, without reading ahead.

    Args:
        dataset: The dataset that is read.
    """

    description = "the dataset's own; can be resumed with any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset
        self._loop: Any = None  # the last one; None if a position was set since

    def begin(self) -> Loop:
        self._loop = RecordsLoop(self._dataset)
        return self._loop  # type: ignore[no-any-return]

    def repeat_epoch(self) -> None:
        if self._loop is not None:
            self._loop.repeat()

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._dataset.load_state_dict(state)
        self._loop = None

    def resume(self, epoch: int, batches: int) -> None:
        if not isinstance(self._dataset, CountedDataset):
            raise TypeError(
                "a stream cannot be resumed by a number of batches: save state_dict() and load it"
            )
        self.set_epoch(epoch)
        self._dataset.resume(epoch=epoch, batches=batches)
        self._loop = None

    def _next_state(self) -> dict[str, Any]:
        """Return the state at the start of the next iteration."""
        session = self._dataset._session
        now = session.partition.layout()
        return session.to_state(session.partition.moved(*session.next_start(), now), now)


class CountedLoop(RecordsLoop):
    """An iteration over batches from worker processes, which are counted.

    Args:
        dataset: The dataset that is read.

    Attributes:
        place: Position of this rank.
    """

    _partition: EpochPartition  # batches of streams are not counted

    def __init__(self, dataset: RecordDataset) -> None:
        super().__init__(dataset)
        self.place = self.start()
        if self._partition.options["epochs"] is not None:
            self.planned = self._partition.num_left(*self.place)

    def move(self, item: Any) -> Any:
        progress, layout = self.place
        self.place = self._partition.advanced(progress, layout, 1), layout
        return item

    def is_at_end(self) -> bool:
        return self._partition.is_done(*self.place)


class CountedPosition(RecordsPosition):
    """The number of batches that came from worker processes.

    The sequence of batches does not depend on workers, so the position is that of a single process
    after the same number of batches.
    """

    description = "counted batches; can be resumed with any number of workers"

    def begin(self) -> Loop:
        self._loop = CountedLoop(self._dataset)
        return self._loop  # type: ignore[no-any-return]

    def state_dict(self) -> dict[str, Any]:
        session, loop = self._dataset._session, self._loop
        if loop is None or session.is_sent_elsewhere(loop.place[0], loop.times_set):
            return self._next_state()
        return session.to_state(*loop.place)


class WorkersLoop(RecordsLoop):
    """An iteration over items from worker processes, each with the position of its worker after it.

    Args:
        dataset: The dataset that is read.
        num_workers: Number of workers.
        resumed: Where the workers were resumed.

    Attributes:
        places: Position of each worker after the items that were yielded, by its number, and in the
            order in which the workers come next.
        has_ended: Whether the loop has taken the last item.
    """

    def __init__(
        self, dataset: RecordDataset, num_workers: int, resumed: Sequence[Place] | None
    ) -> None:
        super().__init__(dataset, None if resumed is None else resumed[0])
        self.needs_new_workers = resumed is not None
        starts = resumed or [self.start(worker, num_workers) for worker in range(num_workers)]
        self.places = {layout.worker: (progress, layout) for progress, layout in starts}
        self.has_ended = False

    def move(self, item: Any) -> Any:
        own, (progress, layout) = item
        del self.places[layout.worker]
        self.places[layout.worker] = progress, layout
        return own

    def is_at_end(self) -> bool:
        return self.has_ended or all(self._is_done(*place) for place in self.places.values())

    def _is_done(self, progress: Any, layout: Any) -> bool:
        if not self._partition.is_last_epoch(progress):
            return False
        units = self._partition.num_units(progress, layout)
        return units is not None and progress.consumed >= units

    def end(self) -> None:
        super().end()
        self.has_ended = True


class WorkersPosition(RecordsPosition):
    """The positions of the workers, which come with their items.

    Args:
        dataset: The dataset that is read.
        sent: The same dataset as workers get it.
        num_workers: Number of workers.
    """

    description = "those of the workers; must be resumed with as many workers"

    def __init__(self, dataset: RecordDataset, sent: RecordDataset, num_workers: int) -> None:
        super().__init__(dataset)
        self._sent = sent
        self._num_workers = num_workers
        # Where the workers of the next iteration start, if that is in its epoch.
        self._resumed: list[Place] | None = None

    def begin(self) -> Loop:
        resumed, self._resumed = self._current(), None
        self._sent._session.places = resumed
        self._loop = WorkersLoop(self._dataset, self._num_workers, resumed)
        return self._loop  # type: ignore[no-any-return]

    def _current(self) -> list[Place] | None:
        epoch = self._dataset._session.epoch
        is_current = self._resumed is not None and self._resumed[0][0].is_in(epoch)
        return self._resumed if is_current else None

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._resumed = self._current()

    def resume(self, epoch: int, batches: int) -> None:
        super().resume(epoch, batches)
        self._resumed = None

    def state_dict(self) -> dict[str, Any]:
        session, loop = self._dataset._session, self._loop
        if loop is not None:
            places = [*loop.places.values()]
            if not session.is_sent_elsewhere(places[0][0], loop.times_set):
                return self._state(places, has_ended=loop.has_ended)
        resumed = self._current()
        return self._next_state() if resumed is None else self._state(resumed)

    def _state(self, places: Sequence[Place], *, has_ended: bool = False) -> dict[str, Any]:
        states = [self._dataset._session.to_state(*place) for place in places]
        return {"has_ended": has_ended, "workers": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "order" in state:  # of a loader without workers, or before the first item
            super().load_state_dict(state)
            self._resumed = None
            return
        session = self._dataset._session
        try:
            places = [session.from_state(each) for each in state["workers"]]
            has_ended = bool(state["has_ended"])
        except (KeyError, TypeError) as error:
            raise StateMismatchError(f"this is not a state of a loader: {error!r}") from None
        if len(places) != self._num_workers:
            raise StateMismatchError(
                f"the state belongs to a loader with {counted(len(places), 'worker')}: only as "
                f"many can resume from it, and this one has {self._num_workers}"
            )
        if {layout.worker for _, layout in places} != {*range(self._num_workers)}:
            raise StateMismatchError("this is not a state of a loader: workers are missing in it")
        is_at_end = has_ended or all(session.partition.is_done(*place) for place in places)
        self._resumed = places if session.enter(places[0][0], is_at_end=is_at_end) else None
        self._loop = None


# ---- map-style datasets ----


class SamplerLoop(Loop):
    """An iteration over the items of a sampler.

    Args:
        position: Position of the loader.
        epoch: Its epoch.
        used: Number of items that were used before.

    Attributes:
        epoch: Its epoch.
        used: Number of items of the epoch that were used.
        moves_epoch: Whether the next epoch follows: no epoch was set since it began.
    """

    def __init__(self, position: SamplerPosition, epoch: int, used: int) -> None:
        self._position = position
        self.epoch = epoch
        self.used = used
        self.moves_epoch = True

    def move(self, item: Any) -> Any:
        self.used += 1
        self._position.note(self)
        return item

    def is_at_end(self) -> bool:
        return self._position.is_last(self.used)

    def end(self) -> None:
        self._position.end(self)


class SamplerPosition:
    """The number of items of a sampler that were used, for map-style datasets.

    Args:
        sampler: The sampler. Its ``set_epoch`` is called if it has one.
        batch_size: Number of records in a batch; None for samples.
        identity: Values that are the same in a state of this loader.

    Attributes:
        start: Number of items that the iteration skips that began last.
    """

    description = "counted batches; can be resumed with any number of workers"

    def __init__(self, sampler: Any, batch_size: int | None, identity: Mapping[str, Any]) -> None:
        self._sampler = sampler
        self._batch_size = batch_size or 1
        self._identity = dict(identity)
        self._epoch = 0  # of the next iteration
        self.start = self._skip = 0
        self._loop: SamplerLoop | None = None  # that yielded last; None if a position was set since
        # Loops that began since a position was loaded or another epoch than theirs was set.
        self._loops: weakref.WeakSet[SamplerLoop] = weakref.WeakSet()
        self._set: int | None = None  # epoch that was set since the last iteration began
        # Epoch and number of items of a state that is at its end.
        self._finished: tuple[int, int] | None = None

    def unused(self, items: Any) -> UnusedItems:
        """Return the items of a sampler that the next iteration does not skip."""
        return UnusedItems(items, self)

    def begin(self) -> Loop:
        loop = SamplerLoop(self, self._epoch, self._skip)
        self.start, self._skip = self._skip, 0
        self._loop = self._loop or loop
        self._loops.add(loop)
        self._set = self._finished = None
        return loop

    def note(self, loop: SamplerLoop) -> None:
        """Follow a loop that yields an item."""
        if loop in self._loops:
            self._loop = loop

    def is_last(self, used: int) -> bool:
        """Return whether no item is left; False if the sampler has no length."""
        try:
            items = -(-len(self._sampler) // self._batch_size)
        except TypeError:
            return False
        return used >= items

    def end(self, loop: SamplerLoop) -> None:
        """Move to the next epoch at the end of a loop, if nothing else did."""
        if loop not in self._loops or not loop.moves_epoch:
            return
        self._loop = loop if self._end_of(loop.epoch, loop.used) else None
        if loop.epoch == self._epoch:
            self._move_to(loop.epoch + 1)

    def repeat_epoch(self) -> None:
        loop = self._loop
        if loop is not None and loop.moves_epoch and loop.epoch + 1 == self._epoch:
            self._loop = None
            self._move_to(loop.epoch)

    def _end_of(self, epoch: int, used: int) -> tuple[int, int] | None:
        return (epoch, used) if used > 0 and self.is_last(used) else None

    def set_epoch(self, epoch: int) -> None:
        check_integer("epoch", epoch)
        for loop in (*self._loops,):
            loop.moves_epoch = False
            if loop.epoch != epoch:
                self._loops.discard(loop)
        if epoch != self._epoch or (self._loop is not None and self._loop.epoch != epoch):
            self._loop = None
        self._move_to(epoch)
        self._set = epoch
        finished, self._finished = self._finished, None
        if finished is not None and finished[0] == epoch:
            self._skip = finished[1]  # nothing is left of it

    def _move_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._skip = epoch, 0
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        epoch, used = self._finished or (self._epoch, self._skip)
        if self._loop is not None:
            epoch, used = self._loop.epoch, self._loop.used
        return {"version": 1, "epoch": epoch, "used": used, **self._identity}

    def resume(self, epoch: int, batches: int) -> None:
        check_integer("batches", batches)
        self.load_state_dict({"epoch": epoch, "used": batches, **self._identity})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        try:
            epoch, used = int(state["epoch"]), int(state["used"])
            found = {name: state[name] for name in self._identity}
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"this is not a state of a map-style dataset: {error!r}"
            ) from None
        for name, value in self._identity.items():
            if found[name] != value:
                raise StateMismatchError(
                    f"the state does not match this dataset: {name} is {value!r} here and "
                    f"{found[name]!r} in the state"
                )
        self._loop = None
        self._loops.clear()
        self._finished = self._end_of(epoch, used)
        if self._finished is not None and self._set != epoch:
            epoch, used = epoch + 1, 0
        self._move_to(epoch)
        if used > 0:
            self._check_repeatable(used)
        self._skip = used

    def _check_repeatable(self, used: int) -> None:
        """Check that the sampler yields the same items again, as far as they were used."""
        most = used * self._batch_size + _MORE_ITEMS
        if list(itertools.islice(self._sampler, most)) != list(
            itertools.islice(self._sampler, most)
        ):
            raise StateMismatchError(
                f"a state in the middle of an epoch cannot be resumed with this "
                f"{type(self._sampler).__name__}, because it yields another order each time: use "
                "a sampler with set_epoch, such as torch.utils.data.DistributedSampler(dataset, "
                "num_replicas=1, rank=0)"
            )


class UnusedItems:
    """The items of a sampler, without those that were used.

    Args:
        items: The sampler, or batches of its items.
        position: Position of the loader.
    """

    def __init__(self, items: Any, position: SamplerPosition) -> None:
        self._items = items
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._items), self._position.start, None)

    def __len__(self) -> int:
        return len(self._items)
