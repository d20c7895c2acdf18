"""What a loading process works through: batches of record numbers, read a few early by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from .records.reader import ReadPlan

_Numbers = npt.NDArray[np.int64]
_Result = TypeVar("_Result")


@dataclass
class Job:
    """One batch to be read.

    Attributes:
        epoch: That it is of; no batch has records of two epochs.
        numbers: Of its records.
        plan: How to read them.
    """

    epoch: int
    numbers: _Numbers
    plan: ReadPlan


class Feed:
    """Jobs in their order, which can be cut anew where records turn out to be lost.

    Args:
        batches: Epoch and record numbers of each batch.
        plan: Plans how to read some records.
        batch_size: Records of a full batch.
    """

    def __init__(
        self,
        batches: Iterable[tuple[int, _Numbers]],
        plan: Callable[[_Numbers], ReadPlan],
        batch_size: int,
    ) -> None:
        self._batches = iter(batches)
        self._plan = plan
        self._batch_size = batch_size
        self._cut: deque[tuple[int, _Numbers]] = deque()  # goes before the batches
        self._next: Job | None = None

    def peek(self) -> Job | None:
        """The job that comes next; None at the end."""
        if self._next is None:
            part = self._pull()
            if part is not None:
                epoch, numbers = part
                numbers = self._filled(epoch, numbers)
                self._next = Job(epoch, numbers, self._plan(numbers))
        return self._next

    def pop(self) -> Job | None:
        """The job that comes next, which is then gone; None at the end."""
        job = self.peek()
        self._next = None
        return job

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Has jobs come again, before all others."""
        behind = [] if self._next is None else [self._next]
        self._next = None
        self._cut.extendleft((job.epoch, job.numbers) for job in reversed([*jobs, *behind]))

    def take(self, epoch: int, count: int) -> _Numbers:
        """Takes up to ``count`` records of an epoch off what comes next."""
        self.put_back([])
        taken: list[_Numbers] = [np.empty(0, np.int64)]
        while count > 0 and (part := self._pull()) is not None:
            if part[0] != epoch:
                self._cut.appendleft(part)
                break
            taken.append(part[1][:count])
            if len(part[1]) > count:
                self._cut.appendleft((epoch, part[1][count:]))
            count -= len(taken[-1])
        return np.concatenate(taken)

    def _pull(self) -> tuple[int, _Numbers] | None:
        return self._cut.popleft() if self._cut else next(self._batches, None)

    def _filled(self, epoch: int, numbers: _Numbers) -> _Numbers:
        """A batch that is short because records were taken off it, filled up from behind."""
        missing = self._batch_size - len(numbers)
        if missing <= 0:
            return numbers
        more = self.take(epoch, missing)
        return np.concatenate((numbers, more)) if len(more) else numbers


class Lookahead(Generic[_Result]):
    """Results of jobs in their order, worked out by background threads up to ``ahead`` early.

    Args:
        work: Does a job; it is also told the one that follows.
        feed: The jobs.
        threads: How many; 1 is the calling thread, which works nothing out early.
        ahead: How many jobs are begun before their results are asked for.
    """

    def __init__(
        self, work: Callable[[Job, Job | None], _Result], feed: Feed, threads: int, ahead: int
    ) -> None:
        self._work = work
        self._feed = feed
        self._ahead = ahead
        self._pending: deque[tuple[Job, Future[_Result]]] = deque()
        self._pool = None
        if threads > 1:
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="torchrec_io")

    def next(self) -> tuple[Job, _Result] | None:
        """The next job and its result; None at the end."""
        if self._pool is None:
            job = self._feed.pop()
            return None if job is None else (job, self._work(job, self._feed.peek()))
        while len(self._pending) <= self._ahead and (job := self._feed.pop()) is not None:
            future = self._pool.submit(self._work, job, self._feed.peek())
            self._pending.append((job, future))
        if not self._pending:
            return None
        job, future = self._pending.popleft()
        return job, future.result()

    def recall(self) -> None:
        """Puts the jobs that were begun early back into the feed."""
        for _, future in self._pending:
            future.cancel()
        self._feed.put_back([job for job, _ in self._pending])
        self._pending.clear()

    def close(self) -> None:
        """Ends the threads, which finish what they are at."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
