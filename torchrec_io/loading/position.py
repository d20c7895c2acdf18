"""Position of a training loop in what a loader yields."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ..checks import check_integer
from ..datasets.base import RecordDataset
from ..datasets.dealing import EpochDealer
from ..datasets.epoch_clock import EpochClock
from ..datasets.indexed import CountedDataset
from ..errors import StateMismatchError
from ..order.progress import ProcessLayout, Progress

# Items of a sampler that are compared after those that were used, so that few used ones suffice.
_MORE_ITEMS = 64


class LoopPosition:
    """Position of a loop over a loader.

    Attributes:
        description: Source of the position, and the runs that its states can resume.
    """

    description: str

    def begin(self) -> None:
        """Note that an iteration starts; called before the loader creates its iterator."""

    def is_empty(self) -> bool:
        """Return whether the iteration that was begun has nothing to yield, as far as is known."""
        return False

    def count(self) -> None:
        """Note that the loader yields a batch."""

    def is_at_end(self) -> bool:
        """Return whether the loader has yielded its last batch, as far as this is known."""
        return False

    def num_left(self) -> int | None:
        """Return how many items the iteration that was begun has; None if that is not known."""
        return None

    def num_unrepeated(self) -> int | None:
        """Return the number of records in the last step of all ranks, without repeated ones.

        0 if no record is repeated there; None if that is not known.
        """
        return None

    def advance(self) -> None:
        """Move to the next epoch: the loop has taken the last batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Note that the loop has been left."""

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


class RecordsPosition(LoopPosition):
    """Base of positions in a dataset with epochs of its own.

    During a loop the loader moves the epochs, not the dataset: the dataset, workers and copies to
    the device may be ahead of the loop.

    Args:
        dataset: The dataset that is read.
    """

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset
        self._first_epoch = 0
        # Where the iteration starts that was begun.
        self._start: tuple[Progress, ProcessLayout] | None = None

    @property
    def _clock(self) -> EpochClock:
        return self._dataset.session.state.clock

    def begin(self) -> None:
        session = self._dataset.session
        self._start = session.next_start()
        self._first_epoch = self._start[0].first_epoch
        session.state.loader_epoch = self._first_epoch
        self._clock.hold()

    def num_unrepeated(self) -> int | None:
        dealer = self._dataset.session.dealer
        if self._start is None or not isinstance(dealer, EpochDealer):
            return None
        now = dealer.layout()
        return dealer.num_unrepeated(dealer.moved(*self._start, now), now)

    def advance(self) -> None:
        if self._dataset.session.pipeline.options["epochs"] is not None:
            self._clock.end_held(self._after(self._first_epoch))

    def _after(self, epoch: int) -> int:
        """Return the epoch after an iteration that starts with an epoch and is not endless."""
        return epoch + int(self._dataset.session.pipeline.options["epochs"])

    def close(self) -> None:
        self._clock.release()

    def repeat_epoch(self) -> None:
        if self._dataset.session.pipeline.options["epochs"] is not None:
            self._clock.take_back(self._first_epoch, self._after(self._first_epoch))

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._dataset.load_state_dict(state)

    def resume(self, epoch: int, batches: int) -> None:
        if not isinstance(self._dataset, CountedDataset):
            raise TypeError(
                "a stream cannot be resumed by a number of batches: save state_dict() and load it"
            )
        self.set_epoch(epoch)
        self._dataset.resume(epoch=epoch, batches=batches)


class DatasetPosition(RecordsPosition):
    """The dataset's own position: this process reads the dataset, without reading ahead."""

    description = "the dataset's own; can be resumed with any number of workers"

    def is_at_end(self) -> bool:
        return self._dataset.session.is_at_end()

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


class CountedPosition(RecordsPosition):
    """The number of batches that came from worker processes.

    The sequence of batches does not depend on workers, so the position is that of a single process
    after the same number of batches.

    Args:
        dataset: The dataset that is read.
    """

    description = "counted batches; can be resumed with any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        super().__init__(dataset)
        # Position in the iteration that was begun.
        self._progress: Progress | None = None
        self._layout = ProcessLayout()

    @property
    def _dealer(self) -> EpochDealer:
        dealer = self._dataset.session.dealer
        assert isinstance(dealer, EpochDealer)  # batches of streams are not counted
        return dealer

    def begin(self) -> None:
        super().begin()
        self._progress, self._layout = self._next_start()

    def count(self) -> None:
        if self._progress is not None:
            self._progress = self._dealer.advanced(self._progress, self._layout, 1)

    def is_at_end(self) -> bool:
        return self._progress is not None and self._dealer.is_done(self._progress, self._layout)

    def num_left(self) -> int | None:
        if self._progress is None or self._dealer.options["epochs"] is None:
            return None
        return self._dealer.num_left(self._progress, self._layout)

    def state_dict(self) -> dict[str, Any]:
        session = self._dataset.session
        if self._progress is None or session.is_sent_elsewhere(self._progress):
            return session.to_state(*self._next_start())
        return session.to_state(self._progress, self._layout)

    def resume(self, epoch: int, batches: int) -> None:
        super().resume(epoch, batches)
        self._progress = None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._progress = None

    def _next_start(self) -> tuple[Progress, ProcessLayout]:
        """Return where the next iteration of this rank starts."""
        now = self._dealer.layout()
        return self._dealer.moved(*self._dataset.session.next_start(), now), now


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
        self._is_begun = False
        # Number of items left at most; None if it is not known.
        self._left: int | None = None
        # Whether the epoch was set by a state, not by the user.
        self._is_set_by_state = False

    def begin(self) -> None:
        super().begin()
        loaded, self._loaded = self._loaded, None
        is_current = loaded is not None and loaded["epoch"] == self._first_epoch
        self._left = loaded["left"] if loaded and is_current else self._count_left()
        self._is_begun = True
        self._is_set_by_state = False

    def _count_left(self) -> int | None:
        session = self._dataset.session
        dealer = session.dealer
        if not isinstance(dealer, EpochDealer) or dealer.options["epochs"] is None:
            return None
        now = dealer.layout()
        return dealer.num_left(dealer.moved(*session.next_start(), now), now)

    def is_empty(self) -> bool:
        # A StatefulDataLoader would begin another iteration if its state was taken after the end.
        return self._left == 0

    def count(self) -> None:
        if self._left is not None:
            self._left -= 1

    def is_at_end(self) -> bool:
        return self._left == 0

    def advance(self) -> None:
        super().advance()
        self._left = 0

    def set_epoch(self, epoch: int) -> None:
        self._is_set_by_state = False
        if epoch != self._clock.epoch:
            self._is_begun = False  # a state that was loaded may be in the new epoch
        super().set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        if self._is_begun:
            # A StatefulDataLoader would start its workers only to return their first states.
            workers = self._loader.state_dict()
            epoch, left = self._first_epoch, self._left
            return {"version": 1, "epoch": epoch, "left": left, "workers": workers}
        if self._loaded is not None and self._is_next(self._loaded):
            return dict(self._loaded)
        return {"version": 1, "epoch": self._clock.epoch, "left": None, "workers": None}

    def resume(self, epoch: int, batches: int) -> None:
        super().resume(epoch, batches)
        self._loaded = None
        self._is_begun = False

    def _is_next(self, loaded: Mapping[str, Any]) -> bool:
        """Return whether the next iteration follows from a state."""
        epoch = loaded["epoch"]
        return self._clock.epoch == (self._after(epoch) if loaded["left"] == 0 else epoch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        session = self._dataset.session
        if self._is_set_by_state:
            self._is_set_by_state = False
            session.state.times_seen = session.state.times_set
        if "order" in state:  # saved by a loader without workers
            self._dataset.load_state_dict(state)
            return
        try:
            epoch, left, workers = int(state["epoch"]), state["left"], state["workers"]
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(f"this is not a state of a loader: {error!r}") from None
        if not session.is_epoch_set:
            # Workers follow an epoch that was set: they do not go on at the end of another one.
            self._dataset.set_epoch(self._after(epoch) if left == 0 else epoch)
            self._is_set_by_state = True
        self._loader.load_state_dict(workers or {})
        self._loaded = None if workers is None else dict(state)
        self._is_begun = False


class SamplerPosition(LoopPosition):
    """The number of items of a sampler that were used, for map-style datasets.

    Args:
        sampler: The sampler. Its ``set_epoch`` is called if it has one.
        batch_size: Number of records in a batch; None for samples.
        identity: Values that are the same in a state of this loader.
    """

    description = "counted batches; can be resumed with any number of workers"

    def __init__(self, sampler: Any, batch_size: int | None, identity: Mapping[str, Any]) -> None:
        self._sampler = sampler
        self._batch_size = batch_size or 1
        self._identity = dict(identity)
        self._epoch = 0
        self._used = 0  # in the epoch, by the last iteration or by a state
        self._skip = 0  # number of items that the next iteration skips
        self._is_begun = False  # whether that iteration has the latest epoch and position
        self._set: int | None = None  # epoch that was set since it began
        # Epoch and number of items of the last iteration, or of a state, if that is at its end.
        self._finished: tuple[int, int] | None = None
        self._is_loaded = False  # whether that is of a state

    def unused(self, items: Any) -> UnusedItems:
        """Return the items of a sampler that the next iteration does not skip."""
        return UnusedItems(items, self)

    @property
    def used(self) -> int:
        """Number of items that the last iteration used or skipped."""
        return self._used

    def begin(self) -> None:
        self._used, self._skip = self._skip, 0
        self._is_begun = True
        self._is_loaded = False
        self._set = self._finished = None

    def count(self) -> None:
        if self._is_begun:
            self._used += 1

    def is_at_end(self) -> bool:
        return self._is_begun and self._is_last(self._used)

    def _is_last(self, used: int) -> bool:
        """Return whether no item is left; False if the sampler has no length."""
        try:
            items = -(-len(self._sampler) // self._batch_size)
        except TypeError:
            return False
        return used >= items

    def advance(self) -> None:
        if self._is_begun and self._set is None:
            self._finished = self._end_of(self._epoch, self._used)
            self._move_to(self._epoch + 1)

    def repeat_epoch(self) -> None:
        finished, self._finished = self._finished, None
        if finished is not None and not self._is_loaded:
            self._move_to(finished[0])

    def _end_of(self, epoch: int, used: int) -> tuple[int, int] | None:
        return (epoch, used) if used > 0 and self._is_last(used) else None

    def set_epoch(self, epoch: int) -> None:
        check_integer("epoch", epoch)
        self._move_to(epoch)
        self._set = epoch
        finished, self._finished = self._finished, None
        if self._is_loaded and finished is not None and finished[0] == epoch:
            self._used = self._skip = finished[1]  # nothing is left of it

    def _move_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._used, self._skip = epoch, 0, 0
            self._is_begun = False
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        epoch, used = self._finished or (self._epoch, self._used)
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
        self._is_begun = False
        self._is_loaded = True
        self._finished = self._end_of(epoch, used)
        if self._finished is not None and self._set != epoch:
            epoch, used = epoch + 1, 0
        self._move_to(epoch)
        if used > 0:
            self._check_repeatable(used)
        self._used = self._skip = used

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
        position: Position with the number of items that were used.
    """

    def __init__(self, items: Any, position: SamplerPosition) -> None:
        self._items = items
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._items), self._position.used, None)

    def __len__(self) -> int:
        return len(self._items)
