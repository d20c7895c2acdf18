"""The queue of batches that are to be loaded, planned ahead of the threads that load them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from typing import Any

from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.reader import PrefetchLimits
from ..errors import TorchRecIOError
from .record_loader import LoadJob, RecordLoader

# Jobs that are planned ahead of those that threads have started.
_MOST_PLANNED = 4096
# Jobs are planned ahead for this many times the bytes that were taken: for few at first, because a
# program may want few.
_GROWTH = 8


class JobQueue:
    """Load jobs in their order.

    Args:
        batches: Epoch and units of each batch.
        loader: Plans the jobs.
        seed: Seed of the random numbers of records.
    """

    def __init__(self, batches: Iterable[tuple[int, Any]], loader: RecordLoader, seed: int) -> None:
        self._batches = iter(batches)
        self._loader = loader
        self._seed = seed
        self._limits: PrefetchLimits | None = loader.reader.prefetch_limits
        self._taken_bytes = 0
        self._planned: deque[LoadJob] = deque()
        self._planned_bytes = 0  # of these

    def take(self, most: int, most_bytes: int) -> list[LoadJob]:
        """Remove and return the next jobs; none at the end.

        Args:
            most: Maximum number of jobs.
            most_bytes: Maximum number of bytes that they read, if they are several.
        """
        jobs: list[LoadJob] = []
        while len(jobs) < most:
            if self._limits is not None:
                self._plan_ahead(self._limits)
            job = self._planned[0] if self._planned else self._plan_next()
            if job is None or (jobs and job.buffer_bytes > most_bytes):
                break
            most_bytes -= job.buffer_bytes
            self._taken_bytes += job.buffer_bytes
            self._planned_bytes -= job.buffer_bytes
            jobs.append(self._planned.popleft())
        return jobs

    def _plan_ahead(self, limits: PrefetchLimits) -> None:
        """Plan further jobs before they are few, and let the reader fetch their records."""
        most = min(limits.most_bytes, max(limits.first_bytes, _GROWTH * self._taken_bytes))
        # Half of it at a time: neighbors among many records are read together, while the other half
        # is under way.
        is_enough = self._planned_bytes >= most // 2
        if self._planned and (is_enough or len(self._planned) * 2 >= _MOST_PLANNED):
            return
        plans = []
        while len(self._planned) < _MOST_PLANNED and (job := self._plan_next()) is not None:
            if job.error is not None:
                break
            plans.append(job.plan)
            if self._planned_bytes >= most:
                break
        if plans:
            # Errors are raised when a batch itself is read. That needs less memory, and no thread.
            with contextlib.suppress(TorchRecIOError, OSError, MemoryError, RuntimeError):
                self._loader.reader.prefetch(plans)

    def _plan_next(self) -> LoadJob | None:
        """Plan another job; None at the end. Its error is raised when its batch is asked for."""
        job = LoadJob(0, (), None, DEFAULT_RANDOM)
        try:
            batch = next(self._batches, None)
            if batch is None:
                return None
            job.epoch, job.units = batch
            job.random = RecordRandom(self._seed, job.epoch)
            job.plan = self._loader.plan(job.units, job.random)
            job.buffer_bytes = int(job.plan.buffer_bytes)
        except Exception as error:  # noqa: BLE001  # see above
            job.error = error
        self._planned.append(job)
        self._planned_bytes += job.buffer_bytes
        return job
