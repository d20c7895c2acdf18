"""The plan of an epoch: a pure function from how it is shared to positions in its order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Uneven: TypeAlias = Literal["keep", "drop", "pad"]

UNEVEN_CHOICES: tuple[Uneven, ...] = ("keep", "drop", "pad")


@dataclass(frozen=True)
class EpochPlan:
    """Which positions of an epoch's order each worker of each rank reads, batch by batch.

    The order is cut into global steps of ``world_size * batch_size`` records. In each step rank r
    takes the r-th slice; batch k of a rank goes to worker ``k % num_workers``. So the batches a
    rank sees do not depend on its number of workers, and the records of a global step do not depend
    on how ranks and workers are arranged. The last, incomplete step is dealt evenly to the ranks,
    as ``uneven`` says.

    Attributes:
        num_records: Records in the epoch's order.
        batch_size: Records in a batch of one rank.
        begin: Records that were taken off the front of the order before the first step: those seen
            before a run was resumed.
        rank: This training process, of ``world_size``.
        worker: This loader process, of ``num_workers``.
        drop_last: Leave out a batch of fewer than ``batch_size`` records.
        uneven: What ranks do with records that do not divide among them: ``"keep"`` all (some ranks
            then get one more), ``"drop"`` fewer than ``world_size`` of them, or ``"pad"`` by giving
            fewer than ``world_size`` of them again, from the epoch's first on.

    Raises:
        ValueError: a value is out of its range.
    """

    num_records: int
    batch_size: int = 1
    begin: int = 0
    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1
    drop_last: bool = False
    uneven: Uneven = "keep"

    def __post_init__(self) -> None:
        if self.num_records < 0:
            raise ValueError(f"num_records must be at least 0, not {self.num_records}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {self.batch_size}")
        if not 0 <= self.begin <= self.num_records:
            raise ValueError(f"begin must be in 0..{self.num_records}, not {self.begin}")
        if self.uneven not in UNEVEN_CHOICES:
            raise ValueError(f"uneven must be one of {UNEVEN_CHOICES}, not {self.uneven!r}")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank must be in 0..{self.world_size - 1}, not {self.rank}")
        if not 0 <= self.worker < self.num_workers:
            raise ValueError(f"worker must be in 0..{self.num_workers - 1}, not {self.worker}")

    @property
    def _full_steps(self) -> int:
        return (self.num_records - self.begin) // (self.world_size * self.batch_size)

    def _last_step(self) -> tuple[int, int]:
        """First position and size of this rank's share of the incomplete step."""
        begin = self.begin + self._full_steps * self.world_size * self.batch_size
        left = self.num_records - begin
        share, extra = divmod(left, self.world_size)
        if self.uneven == "keep":
            return begin + self.rank * share + min(self.rank, extra), share + (self.rank < extra)
        if self.uneven == "pad" and extra:
            share += 1
        return begin + self.rank * share, share

    @property
    def num_rank_records(self) -> int:
        """Records that this rank sees in the epoch, over all its workers."""
        last = self._last_step()[1]
        if self.drop_last and last < self.batch_size:
            last = 0
        return self._full_steps * self.batch_size + last

    @property
    def num_rank_batches(self) -> int:
        """Batches that this rank sees in the epoch, over all its workers."""
        return -(-self.num_rank_records // self.batch_size)

    @property
    def num_worker_records(self) -> int:
        """Records that this worker sees in the epoch."""
        mine = len(range(self.worker, self.num_rank_batches, self.num_workers))
        short = self.num_rank_batches * self.batch_size - self.num_rank_records
        has_last = mine > 0 and (self.num_rank_batches - 1) % self.num_workers == self.worker
        return mine * self.batch_size - (short if has_last else 0)

    def batches(self, consumed: int = 0) -> Iterator[npt.NDArray[np.int64]]:
        """Positions of each batch of this worker, in order; int64, one array a batch.

        Args:
            consumed: So many of the worker's records are left out, from the first on. Costs
                nothing: what was consumed is not gone through.
        """
        done, within = divmod(consumed, self.batch_size)
        first = self.worker + done * self.num_workers
        for number in range(first, self.num_rank_batches, self.num_workers):
            positions = self.batch(number)[within:]
            within = 0
            if len(positions):
                yield positions

    def batch(self, number: int) -> npt.NDArray[np.int64]:
        """Positions of one of the rank's batches."""
        if number < self._full_steps:
            begin = self.begin + (number * self.world_size + self.rank) * self.batch_size
            size = self.batch_size
        else:
            begin, size = self._last_step()
        positions = np.arange(begin, begin + size, dtype=np.int64)
        if begin + size > self.num_records:  # padded: start over from the first
            positions %= max(1, self.num_records)
        return positions
