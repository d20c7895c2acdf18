"""The plan of an epoch: how positions of its order are assigned to ranks and workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checks import check_choice, check_integer
from .batch_sizes import BatchSizes
from .lanes import check_lanes

Uneven: TypeAlias = Literal["keep", "drop", "pad"]

UNEVEN_CHOICES: tuple[Uneven, ...] = ("keep", "drop", "pad")


@dataclass(frozen=True)
class EpochPlan:
    """The positions of an epoch's order that each worker of each rank reads, batch by batch.

    The order is cut into global steps of ``world_size * batch_size`` records. In each step, rank r
    takes the r-th slice. Batch k of a rank goes to worker ``k % num_workers``. So the batches of a
    rank do not depend on its number of workers, and the records of a global step do not depend on
    the process layout. The records of the last, incomplete step are divided evenly among the ranks,
    as ``uneven`` specifies.

    If records come from lanes in turn, rank r takes those of the r-th group of lanes from each
    global step instead of a slice. Then ``uneven`` makes lanes even, so it leaves out, or repeats,
    fewer than ``lanes`` records: the same ones for any number of ranks.

    Attributes:
        num_records: Number of records in the epoch's order.
        batch_size: Number of records in a batch of one rank, or those of all batches of the epoch.
        begin: Number of records before the first step. They were read before a run was resumed.
        rank: Rank of this training process, in ``0..world_size-1``.
        world_size: Number of training processes.
        worker: Number of this loader process, in ``0..num_workers-1``.
        num_workers: Number of loader processes of the rank.
        drop_last: Whether a batch of fewer than ``batch_size`` records is left out.
        uneven: Handling of records that cannot be divided evenly among the ranks. ``"keep"``
            reads all of them, so some ranks get one more (with lanes, one of each lane).
            ``"drop"`` leaves out fewer than ``world_size`` of them. ``"pad"`` repeats fewer than
            ``world_size`` records from the start of the epoch (with lanes, the last record of
            each lane that is shorter by one).
        lanes: Number of lanes: position p belongs to lane ``p % lanes``. ``None`` without lanes.

    Raises:
        ValueError: If a value is out of its range.
    """

    num_records: int
    batch_size: int | BatchSizes = 1
    begin: int = 0
    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1
    drop_last: bool = False
    uneven: Uneven = "keep"
    lanes: int | None = None

    def __post_init__(self) -> None:
        check_integer("num_records", self.num_records)
        if not isinstance(self.batch_size, BatchSizes):  # which are checked
            check_integer("batch_size", self.batch_size, 1)
        check_integer("begin", self.begin, 0, self.num_records)
        check_choice("uneven", self.uneven, UNEVEN_CHOICES)
        check_integer("world_size", self.world_size, 1)
        check_integer("rank", self.rank, 0, self.world_size - 1)
        check_integer("num_workers", self.num_workers, 1)
        check_integer("worker", self.worker, 0, self.num_workers - 1)
        if self.lanes is not None and self.world_size > 1:
            for size in self._sizes.sizes:
                check_lanes(self.lanes, self.world_size, size)
            if self.begin % self.lanes and self.begin < self.num_records:
                raise ValueError(f"begin must be a multiple of {self.lanes}, got {self.begin}")

    @cached_property
    def _sizes(self) -> BatchSizes:
        """The sizes of the rank's batches; batch 0 is the first one from ``begin`` on."""
        if not isinstance(self.batch_size, BatchSizes):
            return BatchSizes.of(self.batch_size)
        return self.batch_size.from_batch(self.batch_size.find(self.begin // self.world_size))

    @cached_property
    def _worker_sizes(self) -> BatchSizes:
        """The sizes of this worker's batches from ``begin`` on."""
        return self._sizes.from_batch(self.worker, self.num_workers)

    @cached_property
    def _end(self) -> int:
        """End of the positions, without those that are left out or with those that are repeated."""
        if self.uneven == "keep" or self.begin >= self.num_records:
            return self.num_records
        # Lanes divide the whole epoch, wherever a run was resumed.
        begin, parts = (self.begin, self.world_size) if self.lanes is None else (0, self.lanes)
        extra = (self.num_records - begin) % parts
        if self.uneven == "pad" and extra:
            return self.num_records + parts - extra
        return max(self.begin, self.num_records - extra)

    @cached_property
    def _full_steps(self) -> int:
        return self._sizes.find((self._end - self.begin) // self.world_size)

    @cached_property
    def _last_step_size(self) -> int:
        """Number of records of all ranks in the incomplete step."""
        return self._end - self._step_begin(self._full_steps)

    def _step_begin(self, number: int) -> int:
        """Return the first position of a step, which may lie before ``begin`` or after the end."""
        return self.begin + self._sizes.begin(number) * self.world_size

    @property
    def num_unrepeated(self) -> int | None:
        """Number of records in the last step of all ranks, without the repeated ones at its end.

        0 if none is repeated there; None if other records follow a repeated one, in lanes.
        """
        number = self._full_steps if self._last_step_size else self._full_steps - 1
        whole = self._sizes.size(number) * self.world_size
        last = self._last_step_size or whole
        is_left_out = self.drop_last and last < whole
        if self._end <= self.num_records or is_left_out:
            return 0
        return None if self.lanes is not None else last - (self._end - self.num_records)

    @property
    def num_rank_records(self) -> int:
        """Number of records of this rank in the epoch, over all its workers."""
        last = self._num_own(self._last_step_size)
        if self.drop_last and last < self._sizes.size(self._full_steps):
            last = 0
        return self._sizes.begin(self._full_steps) + last

    @property
    def num_rank_batches(self) -> int:
        """Number of batches of this rank in the epoch, over all its workers."""
        return self._sizes.num_batches(self.num_rank_records)

    @property
    def num_worker_records(self) -> int:
        """Number of records of this worker in the epoch."""
        batches = len(range(self.worker, self.num_rank_batches, self.num_workers))
        short = self._sizes.begin(self.num_rank_batches) - self.num_rank_records
        has_last = batches > 0 and (self.num_rank_batches - 1) % self.num_workers == self.worker
        return self._worker_sizes.begin(batches) - (short if has_last else 0)

    def step_end(self, position: int) -> int:
        """Return the end of the step of all ranks with a position, as if the step was complete."""
        return self._step_begin(self._sizes.find((position - self.begin) // self.world_size) + 1)

    @property
    def largest_batch(self) -> int:
        """Number of records in the largest batches that the rank may have."""
        return max(self._sizes.sizes)

    # ---- this worker's batches ----

    def size_at(self, consumed: int) -> int:
        """Return the size of the batch with a record of this worker.

        Args:
            consumed: Number of the worker's records before that one.
        """
        return self._worker_sizes.size(self._worker_sizes.find(consumed))

    def num_begun(self, consumed: int) -> int:
        """Return the number of this worker's batches of which the first records were consumed."""
        return self._worker_sizes.num_batches(consumed)

    def num_before(self, batch: int) -> int:
        """Return the number of this worker's records before one of its batches, if all are full."""
        return self._worker_sizes.begin(batch)

    def batches(self, consumed: int = 0) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the positions of each batch of this worker, in order.

        Args:
            consumed: Number of the worker's records to skip at the start. Skipping takes no time.

        Yields:
            int64 ``[batch_size]``; fewer in the last batch, and in the first one if ``consumed`` is
            inside a batch.
        """
        first, within = self._rank_place(consumed)
        for number in range(first, self.num_rank_batches, self.num_workers):
            positions = self.batch(number)[within:]
            within = 0
            if len(positions):
                yield positions

    def before(self, consumed: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the positions that the rank reads before a place in this worker's part.

        Where the run was resumed, the batches before ``begin`` are cut from the same global steps.
        So a resumed run finds the same positions as one that was not interrupted, with any number
        of workers.

        Args:
            consumed: Number of this worker's records before the place.

        Yields:
            int64 ``[n]``, ascending: the part of a batch. The nearest batch comes first.
        """
        number, within = self._rank_place(consumed)
        yield self.batch(number)[:within]
        while self._step_begin(number) > 0:
            number -= 1
            batch = self.batch(number)
            yield batch if number >= 0 else batch[batch >= 0]

    def after(self, consumed: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the positions that the rank reads from a place in this worker's part on.

        Args:
            consumed: Number of this worker's records before the place.

        Yields:
            int64 ``[n]``, ascending: a batch, or the rest of one.
        """
        number, within = self._rank_place(consumed)
        while number < self.num_rank_batches:
            yield self.batch(number)[within:]
            number, within = number + 1, 0

    def _rank_place(self, consumed: int) -> tuple[int, int]:
        """Return a place in this worker's part as a batch of the rank and a record in it."""
        done = self._worker_sizes.find(consumed)
        within = consumed - self._worker_sizes.begin(done)
        return self.worker + done * self.num_workers, within

    def batch(self, number: int) -> npt.NDArray[np.int64]:
        """Return the positions of one batch of the rank.

        Args:
            number: Number of the batch. Batches before ``begin`` have negative numbers.
        """
        number = min(number, self._full_steps)
        whole = self._sizes.size(number) * self.world_size
        count = whole if number < self._full_steps else self._last_step_size
        positions = self._own(self._step_begin(number), count)
        if len(positions) and positions[-1] >= self.num_records:
            repeats = positions >= self.num_records
            if self.lanes is not None and self.lanes <= self.num_records:
                positions[repeats] -= self.lanes  # the last record of the lane is still in memory
            else:
                positions[repeats] %= max(1, self.num_records)
        return positions

    def _num_own(self, count: int) -> int:
        """Return the number of this rank's records in a global step of ``count`` records."""
        if self.lanes is None:
            return count // self.world_size + (self.rank < count % self.world_size)
        own = self.lanes // self.world_size
        rows, extra = divmod(count, self.lanes)
        return rows * own + min(max(0, extra - self.rank * own), own)

    def _own(self, begin: int, count: int) -> npt.NDArray[np.int64]:
        """Return this rank's positions in a global step of ``count`` records."""
        if self.lanes is None:
            each, extra = divmod(count, self.world_size)
            first = begin + self.rank * each + min(self.rank, extra)
            return np.arange(first, first + each + (self.rank < extra), dtype=np.int64)
        size, own = self._num_own(count), self.lanes // self.world_size
        rows = np.arange(-(-size // own), dtype=np.int64) * self.lanes
        lanes = np.arange(own, dtype=np.int64) + (begin + self.rank * own)
        return (rows[:, None] + lanes).reshape(-1)[:size]
