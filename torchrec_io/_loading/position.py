"""Positions of the loops over a loader."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from .._datasets.base import RecordDataset
from .._datasets.dealing import EpochDealer
from .._datasets.indexed import CountedDataset
from .._order.progress import ProcessLayout, Progress
from ..checks import check_integer
from ..errors import StateMismatchError

# Items of a sampler that are compared after those that were used, so that few used ones suffice.
_MORE_ITEMS = 64


class Loop:
    """Position of one iteration over a loader.

    Attributes:
        planned: Number of items that it has; None if that is not known.
        num_yielded: Number of items that it has yielded.
    """

    planned: int | None = None
    num_yielded = 0

    def open(self, loader: Any) -> Iterator[Any]:
        """Start the iteration over a DataLoader."""
        return iter(loader)

    def count(self) -> None:
        """Note that the iteration yields an item."""
        self.num_yielded += 1

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


class LoopPosition:
    """The position of a loader: that of the loop that yielded last, or one that was set.

    Attributes:
        description: Source of the position, and the runs that its states can resume.
    """

    description: str

    def begin(self) -> Loop:
        """Return the position of an iteration that starts."""
        raise NotImplementedError

    def repeat_epoch(self) -> None:
        """Start the last epoch again: its last batches were not used."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        raise NotImplementedError

    def resume(self, epoch: int, batches: int) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise NotImplementedError


class RecordsLoop(Loop):
    """An iteration over a dataset with epochs of its own.

    It moves the epochs, not the dataset: the dataset, workers and copies to the device may be ahead
    of the loop.

    Args:
        dataset: The dataset that is read.

    Attributes:
        first_epoch: Epoch with which it starts.
        times_set: Number of calls of ``set_epoch`` before it.
    """

    def __init__(self, dataset: RecordDataset) -> None:
        self._session = session = dataset._session
        self._dealer = session.dealer
        self._start = session.next_start()
        self.first_epoch = session.state.loader_epoch = self._start[0].first_epoch
        self.times_set = session.state.times_set
        self._clock = session.state.clock
        self._epoch, _ = self._clock.begin(self._clock.new_iteration())
        self._times_moved = self._clock.times_set

    def num_left(self) -> int | None:
        """Return the number of items of the whole iteration; None if it is not known."""
        if not isinstance(self._dealer, EpochDealer) or self._dealer.options["epochs"] is None:
            return None
        return self._dealer.num_left(*self.start())

    def start(self) -> tuple[Progress, ProcessLayout]:
        """Return where this rank starts."""
        now = self._dealer.layout()
        return self._dealer.moved(*self._start, now), now

    def num_unrepeated(self) -> int | None:
        if not isinstance(self._dealer, EpochDealer):
            return None
        return self._dealer.num_unrepeated(*self.start())

    def end(self) -> None:
        epochs = self._dealer.options["epochs"]
        if epochs is not None:
            self._clock.move(self._times_moved, self._epoch, self.first_epoch + epochs)

    def repeat(self) -> None:
        """Start the epoch again, if it was the last one."""
        epochs = self._dealer.options["epochs"]
        if epochs is not None:
            self._clock.take_back(self.first_epoch, self.first_epoch + epochs)


class RecordsPosition(LoopPosition):
    """Base of positions in a dataset with epochs of its own.

    Args:
        dataset: The dataset that is read.
    """

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset
        self._loop: Any = None  # the last one; None if a position was set since

    def begin(self) -> Loop:
        self._loop = self._new_loop()
        return self._loop  # type: ignore[no-any-return]

    def _new_loop(self) -> RecordsLoop:
        return RecordsLoop(self._dataset)

    def repeat_epoch(self) -> None:
        if self._loop is not None:
            self._loop.repeat()

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

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


class DatasetLoop(RecordsLoop):
    """An iteration of this process over the dataset, without reading ahead."""

    def open(self, loader: Any) -> Iterator[Any]:
        self._session.follows_loader = True
        try:
            return iter(loader)
        finally:
            self._session.follows_loader = False

    def is_at_end(self) -> bool:
        return self._session.is_at_end()


class DatasetPosition(RecordsPosition):
    """The dataset's own position: this process reads the dataset, without reading ahead."""

    description = "the dataset's own; can be resumed with any number of workers"

    def _new_loop(self) -> RecordsLoop:
        return DatasetLoop(self._dataset)

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.state_dict()


class UnknownPosition(RecordsPosition):
    """No position: only the worker processes know it, and they cannot be asked for it."""

    description = "not available: worker processes read ahead, and torchdata is not installed"

    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError(
            "this loader has no state: DataLoader workers read ahead of what was used, and their "
            "batches cannot be counted. Install torchdata, whose StatefulDataLoader saves it"
        )


class CountedLoop(RecordsLoop):
    """An iteration over batches from worker processes, which are counted.

    Args:
        dataset: The dataset that is read.

    Attributes:
        progress: Progress of the iteration.
        layout: Layout of this rank.
    """

    _dealer: EpochDealer  # batches of streams are not counted

    def __init__(self, dataset: RecordDataset) -> None:
        super().__init__(dataset)
        self.progress, self.layout = self.start()
        self.planned = self.num_left()

    def count(self) -> None:
        super().count()
        self.progress = self._dealer.advanced(self.progress, self.layout, 1)

    def is_at_end(self) -> bool:
        return self._dealer.is_done(self.progress, self.layout)


class CountedPosition(RecordsPosition):
    """The number of batches that came from worker processes.

    The sequence of batches does not depend on workers, so the position is that of a single process
    after the same number of batches.
    """

    description = "counted batches; can be resumed with any number of workers"

    def _new_loop(self) -> RecordsLoop:
        return CountedLoop(self._dataset)

    def state_dict(self) -> dict[str, Any]:
        session, loop = self._dataset._session, self._loop
        if loop is None or session.is_sent_elsewhere(loop.progress, loop.times_set):
            now = session.dealer.layout()
            return session.to_state(session.dealer.moved(*session.next_start(), now), now)
        return session.to_state(loop.progress, loop.layout)


class WorkersLoop(RecordsLoop):
    """An iteration over items of a StatefulDataLoader.

    Args:
        dataset: The dataset that is read.
        loaded: State of the loader from which it starts.

    Attributes:
        left: Number of items left at most; None if it is not known.
    """

    def __init__(self, dataset: RecordDataset, loaded: Mapping[str, Any] | None) -> None:
        super().__init__(dataset)
        is_current = loaded is not None and loaded["epoch"] == self.first_epoch
        self.left: int | None = loaded["left"] if loaded and is_current else self.num_left()

    def open(self, loader: Any) -> Iterator[Any]:
        # A StatefulDataLoader would begin another iteration if its state was taken after the end.
        return iter(()) if self.left == 0 else super().open(loader)

    def count(self) -> None:
        super().count()
        if self.left is not None:
            self.left -= 1

    def is_at_end(self) -> bool:
        return self.left == 0

    def end(self) -> None:
        super().end()
        self.left = 0


class WorkersPosition(RecordsPosition):
    """The positions of the workers, which a StatefulDataLoader collects.

    Args:
        dataset: The dataset that is read.
        loader: The StatefulDataLoader.
    """

    description = "saved by torchdata's StatefulDataLoader; must be resumed with as many workers"

    def __init__(self, dataset: RecordDataset, loader: Any) -> None:
        super().__init__(dataset)
        self._loader = loader
        # State that the next iteration loads.
        self._loaded: Mapping[str, Any] | None = None
        # Whether the epoch was set by a state, not by the user.
        self._is_set_by_state = False

    def _new_loop(self) -> RecordsLoop:
        loaded, self._loaded = self._loaded, None
        self._is_set_by_state = False
        return WorkersLoop(self._dataset, loaded)

    def set_epoch(self, epoch: int) -> None:
        self._is_set_by_state = False
        if epoch != self._next_epoch:
            self._loop = None  # a state that was loaded may be in the new epoch
        super().set_epoch(epoch)

    @property
    def _next_epoch(self) -> int:
        return self._dataset._session.state.clock.epoch

    def state_dict(self) -> dict[str, Any]:
        if self._loop is not None:
            # A StatefulDataLoader would start its workers only to return their first states.
            workers = self._loader.state_dict()
            epoch, left = self._loop.first_epoch, self._loop.left
            return {"version": 1, "epoch": epoch, "left": left, "workers": workers}
        if self._loaded is not None and self._next_epoch == self._epoch_after(self._loaded):
            return dict(self._loaded)
        return {"version": 1, "epoch": self._next_epoch, "left": None, "workers": None}

    def resume(self, epoch: int, batches: int) -> None:
        super().resume(epoch, batches)
        self._loaded = None

    def _epoch_after(self, state: Mapping[str, Any]) -> int:
        """Return the epoch of the iteration that follows a state."""
        epoch = int(state["epoch"])
        if state["left"] != 0:
            return epoch
        return epoch + int(self._dataset._session.pipeline.options["epochs"])

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        session = self._dataset._session
        if self._is_set_by_state:
            self._is_set_by_state = False
            session.state.times_seen = session.state.times_set
        if "order" in state:  # saved by a loader without workers
            super().load_state_dict(state)
            return
        try:
            following, workers = self._epoch_after(state), state["workers"]
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(f"this is not a state of a loader: {error!r}") from None
        if not session.is_epoch_set:
            # Workers follow an epoch that was set: they do not go on at the end of another one.
            self._dataset.set_epoch(following)
            self._is_set_by_state = True
        self._loader.load_state_dict(workers or {})
        self._loaded = None if workers is None else dict(state)
        self._loop = None


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

    def count(self) -> None:
        super().count()
        self.used += 1
        self._position.note(self)

    def is_at_end(self) -> bool:
        return self._position.is_last(self.used)

    def end(self) -> None:
        self._position.end(self)


class SamplerPosition(LoopPosition):
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
        """Note that a loop yields an item."""
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
        """Note that a loop is at its end, and move to the next epoch if nothing else did."""
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
