"""Steps of the training, which are counted over all epochs."""

from __future__ import annotations

from dataclasses import dataclass

from .batch_sizes import BatchSizes
from .plan import EpochPlan, Uneven


@dataclass(frozen=True)
class TrainingSteps:
    """The units of all ranks in each step of the training.

    Attributes:
        sizes: Number of units of one rank in each step, from the start of epoch 0 on.
        world_size: Number of ranks.
        uneven: Handling of units that cannot be divided evenly among the ranks.
        drop_last: Whether a batch that is not full is left out.
        lanes: Number of lanes that units come from; None without lanes.
        is_continued: Whether each pass over the data begins where the one before ended, also inside
            a step: so in virtual epochs.
    """

    sizes: BatchSizes
    world_size: int
    uneven: Uneven
    drop_last: bool
    lanes: int | None = None
    is_continued: bool = False

    def num_steps(self, count: int, first: int) -> int:
        """Return the number of steps of an epoch.

        Args:
            count: Number of units in the epoch.
            first: Number of steps before the epoch.
        """
        return EpochPlan(
            num_records=count,
            batch_size=self.sizes.from_batch(first),
            world_size=self.world_size,
            drop_last=self.drop_last,
            uneven=self.uneven,
            lanes=self.lanes,
        ).num_rank_batches

    def begin_after(self, begin: int, count: int) -> int:
        """Return the number of units before the next epoch, as if all steps were full.

        Args:
            begin: The same number before the epoch.
            count: Number of units in the epoch.
        """
        if self.is_continued:
            return begin + count
        first = self.sizes.find(begin // self.world_size)
        return self._begin_of(first + self.num_steps(count, first))

    def by_unit(self, limits: BatchSizes) -> BatchSizes:
        """Return the limits of the units of the training, as if all steps were full.

        Args:
            limits: Limits of the units of each step.
        """
        return BatchSizes(tuple(map(self._begin_of, limits.firsts)), limits.sizes)

    def _begin_of(self, step: int) -> int:
        return self.sizes.begin(step) * self.world_size
