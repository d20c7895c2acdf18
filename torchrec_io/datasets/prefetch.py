"""Prefetching: batches that background threads load before they are asked for."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from .job_queue import JobQueue, LoadJob

_Result = TypeVar("_Result")

THREAD_NAME = "torchrec_io load"
# Bytes of a run of batches. Half as many take 3 to 10 % more time where batches are small, because
# threads pass the interpreter on more often; more save little.
_RUN_BYTES = 4 << 20
# close() waits this long for jobs that are being done, which may wait for this thread.
_SECONDS_TO_CLOSE = 5.0


class Outcome(NamedTuple):
    """The result of a job, or the exception that it raised."""

    result: Any
    error: BaseException | None = None


# Loads the jobs of a run and returns an outcome for each.
Work: TypeAlias = Callable[[Sequence[LoadJob]], "list[Outcome]"]


class _Run(NamedTuple):
    """Jobs that a thread does together.

    Attributes:
        jobs: The jobs.
        outcomes: Their outcomes, once they are done. It is cancelled if no thread does the jobs.
    """

    jobs: list[LoadJob]
    outcomes: Future[list[Outcome]]


class Prefetcher(Generic[_Result]):
    """Results of jobs in their order, computed by background threads up to ``ahead`` runs early.

    The threads end with this object, or after at most one run each once the consuming thread has
    ended. So an abandoned iterator does not delay the exit of the process. Where no threads can be
    started, the consuming thread does the jobs.

    Args:
        work: Does the jobs of a run.
        queue: The jobs.
        threads: Number of threads. 1 is the consuming thread, which prefetches nothing.
        ahead: Number of runs that are started before their results are asked for.
        most_in_run: Maximum number of small jobs that a thread does together. Passing work between
            threads costs about as much as a batch of a few tens of kilobytes. Long jobs are better
            done one by one, since a thread finishes the run that it has started.
        in_thread: Context in which background threads do each run.
        is_consumer_busy: Whether the consuming thread is one of the threads. There is then one less
            in the background, but at least one.
    """

    def __init__(
        self,
        work: Work,
        queue: JobQueue,
        threads: int,
        ahead: int,
        most_in_run: int = 1,
        *,
        in_thread: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_consumer_busy: bool = False,
    ) -> None:
        self._work = work
        self._in_thread = in_thread
        self._queue = queue
        self._ahead = ahead
        self._most_in_run = most_in_run
        self._most_threads = min(threads - is_consumer_busy, ahead + 1) if threads > 1 else 0
        self._pending: deque[_Run] = deque()  # in their order, done or not
        self._ready: deque[tuple[LoadJob, Outcome]] = deque()  # of the run before those
        self._started = 0
        self._consumer = threading.current_thread()
        self._pool: ThreadPoolExecutor | None = None
        self._own: set[int] = set()  # identifiers of the threads
        self._pid = os.getpid()

    def next(self) -> tuple[LoadJob, _Result] | None:
        """Return the next job and its result; None at the end.

        Raises:
            BaseException: The exception of the job. The job is then removed; the next call returns
                the one after it.
        """
        if self._most_threads == 0:
            job = self._queue.pop()
            if job is None:
                return None
            return self._result_of(job, *self._work([job]))
        if self._pid != os.getpid():  # after a fork: the threads are the parent's
            self.recall()
            self._pool, self._pid = None, os.getpid()
        self._consumer = threading.current_thread()
        while len(self._pending) <= self._ahead and (jobs := self._next_run()):
            self._pending.append(_Run(jobs, self._start(jobs)))
        if not self._ready:
            if not self._pending:
                return None
            jobs, future = self._pending[0]
            try:
                outcomes = future.result()
            except CancelledError:
                outcomes = self._work(jobs)
            self._pending.popleft()  # not before: Ctrl-C may interrupt the wait
            self._ready.extend(zip(jobs, outcomes, strict=True))
            outcomes.clear()  # the future holds it, which the frames of an exception hold
        return self._result_of(*self._ready.popleft())

    def _result_of(self, job: LoadJob, outcome: Outcome) -> tuple[LoadJob, _Result]:
        result, error = outcome
        if error is not None:
            job.error = None  # as below
            try:
                raise error
            finally:
                del outcome, error  # its traceback refers to this frame
        return job, cast("_Result", result)

    def _next_run(self) -> list[LoadJob]:
        """Return the jobs of the next run; none at the end. The first runs are short."""
        most = max(1, min(self._started, self._most_in_run))
        jobs: list[LoadJob] = []
        room = _RUN_BYTES
        while len(jobs) < most and (job := self._queue.peek()) is not None:
            room -= job.buffer_bytes
            if jobs and room < 0:
                break
            jobs.append(job)
            self._queue.pop()
        self._started += len(jobs)
        return jobs

    def _start(self, jobs: list[LoadJob]) -> Future[list[Outcome]]:
        """Let a thread do the jobs of a run."""
        try:
            if self._pool is None:
                self._own = set()
                self._pool = ThreadPoolExecutor(
                    self._most_threads, THREAD_NAME, _add_own_identifier, (self._own,)
                )
            return self._pool.submit(self._work_in_thread, jobs)
        except RuntimeError:  # closed, no more threads, or the interpreter exits
            undone: Future[list[Outcome]] = Future()
            undone.cancel()
            return undone

    def _work_in_thread(self, jobs: list[LoadJob]) -> list[Outcome]:
        if not self._has_consumer():
            raise CancelledError
        try:
            with self._in_thread():
                return self._work(jobs)
        finally:
            # The prefetcher holds the run, which holds an exception, which holds this frame.
            del self, jobs

    def _has_consumer(self) -> bool:
        """Return whether the consuming thread may ask for results.

        The interpreter exits without waiting for daemon threads.
        """
        is_exiting = self._consumer.daemon and not threading.main_thread().is_alive()
        return self._consumer.is_alive() and not is_exiting

    def peek(self) -> LoadJob | None:
        """Return the job that :meth:`next` returns; None at the end."""
        if self._ready:
            return self._ready[0][0]
        return self._pending[0].jobs[0] if self._pending else self._queue.peek()

    def recall(self) -> None:
        """Put the jobs that were started early back into the queue."""
        if self._pid == os.getpid():  # a thread of the parent may hold a lock of a future
            for run in self._pending:
                if not run.outcomes.cancel():
                    run.outcomes.add_done_callback(_drop_outcomes)
        self._queue.put_back(
            [job for job, _ in self._ready] + [job for run in self._pending for job in run.jobs]
        )
        self._ready.clear()
        self._pending.clear()

    def close(self) -> None:
        """End the threads. Each finishes its current run."""
        if self._pool is None or self._pid != os.getpid():
            return
        self._pool.shutdown(wait=False)
        futures = [run.outcomes for run in self._pending]
        self.recall()
        # Any thread may collect an iterator that is garbage: also one of these.
        if threading.get_ident() not in self._own:
            wait([each for each in futures if each.running()], timeout=_SECONDS_TO_CLOSE)


def _drop_outcomes(done: Future[list[Outcome]]) -> None:
    if done.exception() is None:
        done.result().clear()  # as in next()


def _add_own_identifier(identifiers: set[int]) -> None:
    identifiers.add(threading.get_ident())
