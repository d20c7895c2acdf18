"""How epochs are dealt to the processes that share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import StateMismatchError
from ..order.distributed import resolve_rank
from ..order.length_batches import BatchedOrder
from ..order.mixture import ENDLESS
from ..order.orders import Order, StreamedOrder
from ..order.plan import EpochPlan
from ..order.progress import Arrangement, Progress
from ..records.stream_reader import StreamReader
from .options import LoadOptions
from .record_loader import Reader

# Without a batch size, records are still read and parsed this many at once.
_MOST_AT_ONCE = 256
# So many epochs are looked into for batches by length, where there are too few for each rank.
_EPOCHS_AHEAD = 100
# So many workers have something to do where there are few records.
_WORKERS = 8


@dataclass(frozen=True)
class Shares:
    """An order of records, and how it is dealt to ranks and workers.

    Attributes:
        order: Which record comes when. Of a :class:`BatchedOrder` batches are dealt, each as one
            thing, in the place of records.
        options: With the batch size, ranks and epochs.
    """

    order: Order | StreamedOrder | BatchedOrder
    options: LoadOptions

    @property
    def by_length(self) -> bool:
        """Whether batches are made by the lengths of their records, before they are dealt."""
        return isinstance(self.order, BatchedOrder)

    @property
    def num_records(self) -> int:
        """Records of an epoch, for all ranks together.

        Raises:
            TypeError: there is no index to know it from.
        """
        if isinstance(self.order, StreamedOrder):
            raise TypeError("without an index nobody knows how many records there are")
        return len(self.order)

    def num_dealt(self, epoch: int) -> int:
        """What an epoch deals to all ranks together: records, or batches made by length.

        Raises:
            TypeError: there is no index.
        """
        return self.order.count(epoch) if isinstance(self.order, BatchedOrder) else self.num_records

    def arrangement(self, worker: int, num_workers: int) -> Arrangement:
        """The place of a DataLoader worker of this rank; worker 0 of 1 where there are none."""
        rank, world_size = resolve_rank(self.options.rank, self.options.world_size)
        batch_size = 1 if self.by_length else self.options.batch_size
        if batch_size is None:
            streamed = isinstance(self.order, StreamedOrder)
            batch_size = _chunk_size(ENDLESS if streamed else self.num_records, world_size)
        return Arrangement(rank, world_size, worker, num_workers, batch_size)

    def plan(self, by: Arrangement, progress: Progress) -> EpochPlan:
        """The plan of the epoch that a progress is in.

        Raises:
            TypeError: there is no index.
        """
        return self._plan_of(self.num_dealt(progress.epoch), by, progress)

    def _plan_of(self, count: int, by: Arrangement, progress: Progress) -> EpochPlan:
        return EpochPlan(
            num_records=count,
            batch_size=by.batch_size,
            begin=progress.begin,
            rank=by.rank,
            world_size=by.world_size,
            # Whose turn it is goes on from epoch to epoch.
            worker=(by.worker - progress.dealt) % by.num_workers,
            num_workers=by.num_workers,
            drop_last=self.options.drop_last,
            uneven=self.options.uneven,
        )

    def moved(self, progress: Progress, before: Arrangement, now: Arrangement) -> Progress:
        """What ``now`` goes on from where ``before`` has come; see :meth:`Progress.moved`."""
        if isinstance(self.order, StreamedOrder):
            if before != now and progress.consumed:
                raise StateMismatchError(
                    "without an index only the same rank and worker of as many can go on"
                )
            return progress
        return progress.moved(
            before,
            now,
            num_records=self.num_dealt(progress.epoch),
            share=self.plan(before, progress).num_worker_records,
            by_batches=self.options.in_batches,
        )

    def check_state(self, progress: Progress, by: Arrangement) -> None:
        """Raises StateMismatchError if a progress cannot be in this order."""
        if isinstance(self.order, StreamedOrder):
            return
        try:
            self.plan(by, progress)
        except ValueError as error:
            raise StateMismatchError(f"this is no state of a dataset: {error}") from None

    def next_epoch(self, progress: Progress, by: Arrangement) -> Progress:
        """The start of the epoch behind that of a progress."""
        dealt = 0
        if not isinstance(self.order, StreamedOrder):
            dealt = progress.dealt + self.plan(by, progress).num_rank_batches
        return Progress(progress.epoch + 1, progress.first_epoch, dealt=dealt)

    def advanced(self, progress: Progress, by: Arrangement, batches: int) -> Progress:
        """How far a rank without workers comes from a progress with so many batches given.

        Where it ends an epoch, it stands there and not at the start of the next.
        """
        while batches > 0:
            plan = self.plan(by, progress)
            done = -(-progress.consumed // by.batch_size)
            left = plan.num_rank_batches - done
            if batches <= left:
                consumed = min((done + batches) * by.batch_size, plan.num_rank_records)
                return dataclasses.replace(progress, consumed=consumed)
            batches -= max(0, left)
            progress = self.next_epoch(progress, by)
        return progress

    def batches(
        self, reader: Reader, progress: Progress, by: Arrangement
    ) -> Iterator[tuple[int, Any]]:
        """Epoch and records of each batch that is left of an iteration."""
        epochs = self.options.epochs
        while epochs is None or progress.epoch < progress.first_epoch + epochs:
            reader.begin_epoch()
            came = progress.consumed > 0
            for records in self._epoch_batches(reader, progress, by):
                came = came or len(records) > 0
                yield progress.epoch, records
            if not came and not self._may_come_later(progress, by):
                return
            progress = self.next_epoch(progress, by)

    def _epoch_batches(self, reader: Reader, progress: Progress, by: Arrangement) -> Iterator[Any]:
        if isinstance(self.order, StreamedOrder):
            assert isinstance(reader, StreamReader)
            return reader.chunks(
                by.worker * by.world_size + by.rank,
                by.world_size * by.num_workers,
                size=by.batch_size,
                window=max(1, int(self.order.shuffle)),
                seed=self.order.seed,
                epoch=progress.epoch,
                skip=progress.consumed,
            )
        if isinstance(self.order, BatchedOrder):
            return self._batches_by_length(self.order, progress, by)
        order = self.order
        positions = self.plan(by, progress).batches(progress.consumed)
        return (order.at(some, progress.epoch) for some in positions)

    def _batches_by_length(
        self, order: BatchedOrder, progress: Progress, by: Arrangement
    ) -> Iterator[npt.NDArray[np.int64]]:
        batches = order.epoch(progress.epoch)
        consumed = progress.consumed
        # How many there are is known at the end of the lengths alone. Until then a step is a full
        # one if its last batch is there.
        for [number] in self._plan_of(ENDLESS, by, progress).batches(consumed):
            if not batches.reaches(int(number) + by.world_size - 1 - by.rank):
                break
            yield batches.records(int(number))
            consumed += 1
        for [number] in self.plan(by, progress).batches(consumed):
            yield batches.records(int(number))

    def _may_come_later(self, progress: Progress, by: Arrangement) -> bool:
        """Whether a worker that got nothing in an epoch may get something in a later one."""
        if isinstance(self.order, StreamedOrder):
            return False
        later = range(progress.epoch + 1, progress.epoch + 1 + _EPOCHS_AHEAD)
        if not self.by_length:  # all epochs are alike
            later = later[:1]
        return any(self.plan(by, Progress(epoch)).num_rank_batches > 0 for epoch in later)


def _chunk_size(num_records: int, world_size: int) -> int:
    """Records that are dealt to a worker at once where there is no batch size.

    A power of two, so that DataLoader's batches of the usual sizes are all full but the last; small
    enough that some workers all get some; the same for any number of workers, so that ranks with
    other numbers of them still share the records.
    """
    chunk = _MOST_AT_ONCE
    while chunk > 1 and chunk * world_size * _WORKERS * 2 > num_records:
        chunk //= 2
    return chunk
