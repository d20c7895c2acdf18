"""What a dataset and its copies in DataLoader workers tell each other, in memory they share."""

from __future__ import annotations

import dataclasses

import torch

from ..order.progress import Arrangement, Progress

_WORKER_SLOTS = 1024

# Numbers by their place; behind them two for each worker: damages skipped, and whether it has begun
# where the dataset was resumed.
_EPOCH, _TIMES_SET, _TIMES_SEEN, _IN_WORKERS, _TAKERS, _HAS_RESUME, _RESUME = range(7)
_PROGRESS_FIELDS = len(dataclasses.fields(Progress))
_SKIPPED = _RESUME + _PROGRESS_FIELDS + len(dataclasses.fields(Arrangement))
_TAKEN = _SKIPPED + _WORKER_SLOTS


class Control:
    """Numbers in memory that stays shared when a dataset is pickled or forked into workers."""

    def __init__(self) -> None:
        self._shared = torch.zeros(_TAKEN + _WORKER_SLOTS, dtype=torch.int64)
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration starts with."""
        return int(self._shared[_EPOCH])

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self._shared[_EPOCH] = epoch

    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        self._shared = state["_shared"]
        # Shared with the original only where it is pickled for a process that is being started.
        self._shared.share_memory_()  # type: ignore[no-untyped-call]

    def copy(self) -> Control:
        """The same numbers in memory of its own."""
        other = Control()
        other._shared.copy_(self._shared)
        return other

    @property
    def times_seen(self) -> int:
        """How many times one had said so when an iteration began last."""
        return int(self._shared[_TIMES_SEEN])

    @times_seen.setter
    def times_seen(self, times: int) -> None:
        self._shared[_TIMES_SEEN] = times

    @property
    def times_set(self) -> int:
        """How many times a user said which epoch comes next."""
        return int(self._shared[_TIMES_SET])

    def set_epoch(self, epoch: int) -> None:
        """A user says which epoch comes next."""
        self._shared[_EPOCH] = epoch
        self._shared[_TIMES_SET] += 1

    @property
    def in_workers(self) -> bool:
        """Whether the last iteration was that of DataLoader workers."""
        return bool(self._shared[_IN_WORKERS])

    @in_workers.setter
    def in_workers(self, value: bool) -> None:
        self._shared[_IN_WORKERS] = value

    @property
    def skipped(self) -> int:
        """Damages left out so far, in all processes."""
        return int(self._shared[_SKIPPED:_TAKEN].sum())

    def count_skipped(self, worker: int) -> None:
        """Counts one damage. Each worker has a place of its own, so no count is lost."""
        self._shared[_SKIPPED + worker % _WORKER_SLOTS] += 1

    def resume_from(self, progress: Progress, by: Arrangement) -> None:
        """Has the next iteration, in whatever processes, begin there."""
        numbers = (*dataclasses.astuple(progress), *dataclasses.astuple(by))
        self._shared[_RESUME:_SKIPPED] = torch.tensor(numbers)
        self._shared[_TAKEN:] = 0
        self._shared[_TAKERS] = 0
        self._shared[_HAS_RESUME] = 1

    def drop_resume(self) -> None:
        """Has the next iteration begin at its epoch's start."""
        self._shared[_HAS_RESUME] = 0

    def take_resume(self, worker: int, num_workers: int) -> tuple[Progress, Arrangement] | None:
        """Where an iteration begins, if not at its epoch's start: said once to each of its workers.

        Iterations after it, or by another number of workers, get None. Nothing else tells a worker
        of the next iteration from one of this: with ``persistent_workers`` it is the same process.

        Args:
            worker: Who asks.
            num_workers: Of how many; 0 without DataLoader workers.
        """
        place = _TAKEN + worker % _WORKER_SLOTS
        if self._shared[_TAKERS] == 0:
            self._shared[_TAKERS] = num_workers + 1
        if self._shared[_TAKERS] != num_workers + 1 or self._shared[place]:
            return None
        self._shared[place] = 1
        return self.peek_resume()

    def untaken_resume(self) -> tuple[Progress, Arrangement] | None:
        """Where the dataset was resumed, if no iteration has begun there."""
        return None if self._shared[_TAKERS] else self.peek_resume()

    def peek_resume(self) -> tuple[Progress, Arrangement] | None:
        """Where the dataset was resumed, whoever has begun there."""
        if not self._shared[_HAS_RESUME]:
            return None
        numbers = self._shared[_RESUME:_SKIPPED].tolist()
        return Progress(*numbers[:_PROGRESS_FIELDS]), Arrangement(*numbers[_PROGRESS_FIELDS:])
