"""Epochs of map-style datasets: the items of a sampler, and their positions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .._datasets.epochs import Epochs, NewWeights
from .._datasets.partition import RecordPartition
from .._order.progress import Place, ProcessLayout, Progress, place_of
from ..checks import check_integer
from ..errors import StateMismatchError

# Items of a sampler that are compared after those that were used, so that few used ones suffice.
_MORE_ITEMS = 64


class SamplerPartition(RecordPartition):
    """Gives the items of a sampler to one process. A unit is an item of the loader.

    Args:
        sampler: The sampler.
        batch_size: Number of records in a batch; None for samples.
    """

    def __init__(self, sampler: Any, batch_size: int | None) -> None:
        self.options = {"epochs": 1}
        self.rank, self.world_size = 0, 1
        self._sampler = sampler
        self._batch_size = batch_size or 1

    @property
    def unit_batch_size(self) -> int:
        return 1

    def place_after(self, epoch: int, batches: int) -> Place:
        check_integer("epoch", epoch)
        check_integer("batches", batches)
        return Progress(epoch, epoch, consumed=batches), self.layout()

    def num_units(self, progress: Progress, layout: ProcessLayout) -> int | None:
        del progress, layout
        try:
            return -(-len(self._sampler) // self._batch_size)
        except TypeError:
            return None

    def num_left(self, progress: Progress, layout: ProcessLayout) -> int | None:
        """Return the number of items that are left; None if the sampler has no length."""
        count = self.num_units(progress, layout)
        return None if count is None else count - progress.consumed

    def moved(self, progress: Progress, before: ProcessLayout, now: ProcessLayout) -> Progress:
        del before, now
        return progress

    def advanced(self, progress: Progress, layout: ProcessLayout, batches: int) -> Progress:
        """Return the progress after a number of further items."""
        del layout
        return dataclasses.replace(progress, consumed=progress.consumed + batches)


class SamplerEpochs(Epochs):
    """The epoch of a sampler, and the item with which the next iteration starts.

    Args:
        sampler: The sampler. Its ``set_epoch`` is called for each next epoch if it has one.
        batch_size: Number of records in a batch; None for samples.
        identity: Values that are the same in a state of this loader.
    """

    def __init__(self, sampler: Any, batch_size: int | None, identity: Mapping[str, Any]) -> None:
        super().__init__()
        self._sampler = sampler
        self._partition = SamplerPartition(sampler, batch_size)
        self._most_records = batch_size or 1
        self._identity = dict(identity)

    @property
    def partition(self) -> SamplerPartition:
        return self._partition

    def to_state(self, place: Place) -> dict[str, Any]:
        progress, _ = place
        return {
            "version": 1,
            "epoch": progress.epoch,
            "used": progress.consumed,
            **self._identity,
        }

    def from_state(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> Place:
        if weights is not None:
            raise TypeError(f"weights must be None for a map-style dataset, got {weights!r}")
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
        return Progress(epoch, epoch, consumed=used), self._partition.layout()

    def note_epoch(self) -> None:
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(self.epoch)

    def _resume_from(self, place: Place) -> None:
        used = 0 if self.current(place) is None else place[0].consumed
        most = used * self._most_records + _MORE_ITEMS
        items = self._sampler
        if used > 0 and [*itertools.islice(items, most)] != [*itertools.islice(items, most)]:
            raise StateMismatchError(
                f"a state in the middle of an epoch cannot be resumed with this "
                f"{type(self._sampler).__name__}, because it yields another order each time: use "
                "a sampler with set_epoch, such as torch.utils.data.DistributedSampler(dataset, "
                "num_replicas=1, rank=0)"
            )
        super()._resume_from(place)


class UnusedItems:
    """The items of a sampler, without those that were used.

    Args:
        items: The sampler, or batches of its items.
        starts: Start of the loop that began last; see :class:`ResumableLoader`.
    """

    def __init__(self, items: Any, starts: torch.Tensor) -> None:
        self._items = items
        self._starts = starts

    def __iter__(self) -> Iterator[Any]:
        progress, _ = place_of(self._starts[0].tolist())
        return itertools.islice(iter(self._items), progress.consumed, None)

    def __len__(self) -> int:
        return len(self._items)
