"""The queue of batches that are to be loaded, planned ahead of the threads that load them."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._records.reader import PrefetchLimits
from ..errors import TorchRecIOError

# Jobs that are planned ahead of those that threads have started.
_MOST_PLANNED = 4096
# Jobs are planned ahead for this many times the bytes that were taken: for few at first, because a
# program may want few.
_GROWTH = 8


@dataclass(slots=True)
class LoadJob:
    """A batch that is to be loaded.

    Attributes:
        epoch: Epoch of the batch. No batch has records of two epochs.
        units: The units of the batch, as the order yields them; none if planning failed after the
            batches before.
        plan: The reader's plan of its records; None if there is an error.
        buffer_bytes: Approximate number of bytes to read.
        error: Reason why the batch cannot be loaded. It is raised when the batch is requested.
    """

    epoch: int
    units: Any
    plan: Any
    buffer_bytes: int = 0
    error: Exception | None = None


class JobQueue:
    """Load jobs in their order.

    Args:
        batches: Epoch and units of each batch.
        reader: Reader that plans the jobs.
        plan: Returns the reader's plan of some units. Default: the reader's own.
    """

    def __init__(
        self,
        batches: Iterable[tuple[int, Any]],
        reader: Any,
        plan: Callable[[Any], Any] | None = None,
    ) -> None:
        self._batches = iter(batches)
        self._reader = reader
        self._plan = plan or reader.plan
        self._limits: PrefetchLimits | None = reader.prefetch_limits
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
                self._reader.prefetch(plans)

    def _plan_next(self) -> LoadJob | None:
        """Plan another job; None at the end. Its error is raised when its batch is asked for."""
        epoch, units = 0, ()
        try:
            batch = next(self._batches, None)
            if batch is None:
                return None
            epoch, units = batch
            plan = self._plan(units)
            job = LoadJob(epoch, units, plan, int(plan.buffer_bytes))
        except Exception as error:  # noqa: BLE001  # see above
            job = LoadJob(epoch, units, None, error=error)
        self._planned.append(job)
        self._planned_bytes += job.buffer_bytes
        return job
