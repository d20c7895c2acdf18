"""How far a loop over a loader has come, by whoever knows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from ..datasets.base import RecordDataset
from ..datasets.options import check_number
from ..errors import StateMismatchError
from ..order.progress import Arrangement, Progress, to_state


class Place:
    """How far a loop over a loader has come.

    Attributes:
        words: Who knows it, and what that allows.
    """

    words: str

    def begin(self) -> None:
        """An iteration begins; before the loader is asked for its iterator."""

    def count(self) -> None:
        """The loop gets a batch."""

    def end(self) -> None:
        """The iteration has no more."""

    def set_epoch(self, epoch: int) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise NotImplementedError


class InProcess(Place):
    """The dataset knows: nobody is ahead of what it gives."""

    words = "the dataset's, for any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        self._dataset = dataset

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self._dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._dataset.load_state_dict(state)


class Unknown(InProcess):
    """Workers know and there is nobody to ask them."""

    words = "none: worker processes read ahead, and torchdata is not installed"

    def state_dict(self) -> dict[str, Any]:
        raise RuntimeError(
            "DataLoader workers read this dataset, ahead of what was used, and it cannot be "
            "counted: only torchdata's StatefulDataLoader can save its state, and torchdata is not "
            "installed"
        )


class Counted(InProcess):
    """Worker processes read ahead; the batches that came from them are counted.

    The sequence of batches does not depend on workers: where one process would be with as many
    batches is where the loop is.
    """

    words = "batches that were handed out, counted; for any number of workers"

    def __init__(self, dataset: RecordDataset) -> None:
        super().__init__(dataset)
        self._begun: tuple[Progress, Arrangement] | None = None
        self._batches = 0
        self._ended = False

    def begin(self) -> None:
        self._begun = self._next_begin()
        self._batches = 0
        self._ended = False

    def count(self) -> None:
        self._batches += 1

    def end(self) -> None:
        self._ended = True

    def state_dict(self) -> dict[str, Any]:
        progress, by = self._come_to()
        dataset = self._dataset
        return to_state(progress, by, dataset._shares.order.describe(), dataset._batch_size_dealt)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._begun = None

    def _next_begin(self) -> tuple[Progress, Arrangement]:
        """Where the next iteration of this rank begins."""
        shares = self._dataset._shares
        now = shares.arrangement(0, 1)
        progress, by = self._dataset._control.untaken_resume() or self._dataset._start(now)
        return shares.moved(progress, by, now), now

    def _come_to(self) -> tuple[Progress, Arrangement]:
        if self._begun is None:
            return self._next_begin()
        begun, by = self._begun
        shares = self._dataset._shares
        progress = shares.advanced(begun, by, self._batches)
        if self._dataset._wanted_elsewhere(progress):
            return self._next_begin()
        if self._ended:
            whole = shares.num_dealt(progress.epoch)
            progress = dataclasses.replace(progress, begin=whole, consumed=0)
        return progress, by


class OfWorkers(Place):
    """A StatefulDataLoader asks its workers."""

    words = "of torchdata's StatefulDataLoader, for as many workers"

    def __init__(self, dataset: RecordDataset, loader: Any) -> None:
        self._dataset = dataset
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = self._loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "order" in state:  # of one process
            self._dataset.load_state_dict(state)
        else:
            self._loader.load_state_dict(state)


class Numbered(Place):
    """Numbers of records that a sampler gives: those that were used are passed over.

    Args:
        sampler: Gives the numbers; told of epochs if it wants to know.
        batch_size: Of them in a batch.
        num_records: Of the dataset.
    """

    words = "batches that were handed out, counted; for any number of workers"

    def __init__(self, sampler: Any, batch_size: int | None, num_records: int) -> None:
        self._sampler = sampler
        self._described = {"batch_size": batch_size, "records": num_records}
        self._epoch = 0
        self._used = 0  # in the epoch, by the iteration that began last, or by a state
        self._skip = 0  # what the next iteration passes over
        self._is_begun = False  # that iteration is of the epoch and place that were set last

    def numbers(self, items: Any) -> Numbers:
        """What a sampler gives, less what the next iteration passes over."""
        return Numbers(items, self)

    @property
    def used(self) -> int:
        """What the iteration that began last has used, or passed over."""
        return self._used

    def begin(self) -> None:
        self._used, self._skip = self._skip, 0
        self._is_begun = True

    def count(self) -> None:
        if self._is_begun:
            self._used += 1

    def set_epoch(self, epoch: int) -> None:
        check_number("epoch", epoch, 0)
        if epoch != self._epoch:
            self._epoch, self._used, self._skip = epoch, 0, 0
            self._is_begun = False
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return {"version": 1, "epoch": self._epoch, "used": self._used, **self._described}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        try:
            epoch, used = int(state["epoch"]), int(state["used"])
            found = {name: state[name] for name in self._described}
        except (KeyError, TypeError, ValueError) as error:
            raise StateMismatchError(
                f"this is no state of a dataset by number: {error!r}"
            ) from None
        for name, value in self._described.items():
            if found[name] != value:
                raise StateMismatchError(
                    f"the state does not fit: {name} is {value!r} here and {found[name]!r} in it"
                )
        self.set_epoch(epoch)
        self._used = self._skip = used
        self._is_begun = False


class Numbers:
    """What a sampler gives, less what was used."""

    def __init__(self, items: Any, place: Numbered) -> None:
        self._items = items
        self._place = place

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._items), self._place.used, None)

    def __len__(self) -> int:
        return len(self._items)
