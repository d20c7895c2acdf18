"""Position of a training loop in what a loader yields."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ..checks import check_integer
from ..datasets.base import RecordDataset
from ..datasets.dealing import EpochDealer
from ..errors import StateMismatchError
from ..order.progress import ProcessLayout, Progress


class LoopPosition:
    """Position of a loop over a loader.

    Attributes:
        description: How the position is known, and what its states allow.
    """

    description: str

    def begin(self) -> None:
        """Note that an iteration starts; called before the loader is asked for its iterator."""

    def count(self) -> None:
        """Note that the loop gets a batch."""

    def end(self) -> None:
        """Note that the iteration is over."""

    def set_epoch(self, epoch: int) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise NotImplementedError


class DatasetPosition(LoopPosition):
    """The dataset's own position: it is read in this process, and nothing reads ahead of it.

    Args:
        dataset: The dataset that is read.
    """

    description = "the dataset's own; can be resumed with any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._dataset.load_state_dict(state)


class UnknownPosition(DatasetPosition):
    """No position: only the worker processes know it, and nothing can ask them."""

    description = "not available: worker processes read ahead, and torchdata is not installed"

    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError(
            "this loader has no state: DataLoader workers read ahead of what was used, and their "
            "batches cannot be counted. Install torchdata, whose StatefulDataLoader saves it"
        )


class CountedPosition(DatasetPosition):
    """The number of batches that came from worker processes.

    The sequence of batches does not depend on workers, so the position is that of a single process
    after the same number of batches.

    Args:
        dataset: The dataset that is read.
    """

    description = "counted batches; can be resumed with any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        super().__init__(dataset)
        self._begun: tuple[Progress, ProcessLayout] | None = None
        self._batches = 0
        self._has_ended = False

    @property
    def _dealer(self) -> EpochDealer:
        dealer = self._dataset.session.dealer
        assert isinstance(dealer, EpochDealer)  # batches of streams are not counted
        return dealer

    def begin(self) -> None:
        self._begun = self._next_start()
        self._batches = 0
        self._has_ended = False

    def count(self) -> None:
        self._batches += 1

    def end(self) -> None:
        self._has_ended = True

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.session.to_state(*self._reached())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._begun = None

    def _next_start(self) -> tuple[Progress, ProcessLayout]:
        """Return where the next iteration of this rank starts."""
        session = self._dataset.session
        now = self._dealer.layout()
        progress, layout = session.state.untaken_resume() or session.start(now)
        return self._dealer.moved(progress, layout, now), now

    def _reached(self) -> tuple[Progress, ProcessLayout]:
        if self._begun is None:
            return self._next_start()
        begun, layout = self._begun
        progress = self._dealer.advanced(begun, layout, self._batches)
        if self._dataset.session.is_sent_elsewhere(progress):
            return self._next_start()
        if self._has_ended:
            count = self._dealer.count(progress.epoch)
            progress = dataclasses.replace(progress, begin=count, consumed=0)
        return progress, layout


class WorkersPosition(LoopPosition):
    """The positions of the workers, which a StatefulDataLoader asks for.

    Args:
        dataset: The dataset that is read.
        loader: The StatefulDataLoader.
    """

    description = "saved by torchdata's StatefulDataLoader; must be resumed with as many workers"

    def __init__(self, dataset: RecordDataset, loader: Any) -> None:
        self._dataset = dataset
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "order" in state:  # saved by a loader without workers
            self._dataset.load_state_dict(state)
        else:
            self._loader.load_state_dict(state)


class SamplerPosition(LoopPosition):
    """The number of items of a sampler that were used, for map-style datasets.

    Args:
        sampler: The sampler. Its ``set_epoch`` is called if it has one.
        batch_size: Number of records in a batch; None for samples.
        num_records: Number of records of the dataset.
    """

    description = "counted batches; can be resumed with any number of workers"

    def __init__(self, sampler: Any, batch_size: int | None, num_records: int) -> None:
        self._sampler = sampler
        self._identity = {"batch_size": batch_size, "records": num_records}
        self._epoch = 0
        self._used = 0  # in the epoch, by the last iteration or by a state
        self._skip = 0  # what the next iteration skips
        self._is_begun = False  # whether that iteration has the latest epoch and position

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

    def count(self) -> None:
        if self._is_begun:
            self._used += 1

    def set_epoch(self, epoch: int) -> None:
        check_integer("epoch", epoch)
        if epoch != self._epoch:
            self._epoch, self._used, self._skip = epoch, 0, 0
            self._is_begun = False
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return {"version": 1, "epoch": self._epoch, "used": self._used, **self._identity}

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
        self.set_epoch(epoch)
        self._used = self._skip = used
        self._is_begun = False


class UnusedItems:
    """The items of a sampler, without those that were used.

    Args:
        items: The sampler, or batches of its items.
        position: Knows how many items were used.
    """

    def __init__(self, items: Any, position: SamplerPosition) -> None:
        self._items = items
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._items), self._position.used, None)

    def __len__(self) -> int:
        return len(self._items)
