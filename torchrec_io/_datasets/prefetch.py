"""Prefetching: batches that background threads load before they are asked for."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, thread
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, TypeAlias

from .._tensors.loaded import Loaded
from .job_queue import JobQueue
from .record_loader import LoadJob

# Bytes of a run of batches. Half as many take 3 to 10 % more time where batches are small, because
# threads pass the interpreter on more often; more save little.
_RUN_BYTES = 4 << 20

# What was loaded for a job, or the exception that ended its loading.
Result: TypeAlias = "Loaded | BaseException"
# Loads the jobs of a run and returns a result for each.
Load: TypeAlias = Callable[[Sequence[LoadJob]], Sequence[Result]]


class _Run(NamedTuple):
    """Jobs that a thread loads together.

    Attributes:
        jobs: The jobs.
        results: The jobs and their results, once the run has ended. They are not those of a Future:
            a thread that returns an exception keeps it, as its traceback refers to the thread's
            frames. From here it is removed when its batch is asked for, or never is.
        ended: Ends with the run.
    """

    jobs: Sequence[LoadJob]
    results: deque[tuple[LoadJob, Result]]
    ended: Future[None]


class Prefetcher:
    """An iterable over jobs and their results, which threads load up to ``ahead`` runs early.

    A run is a few jobs that a thread loads together. Where no thread can be started, and after a
    fork, the consuming thread loads.

    Args:
        load: Loads the jobs of a run.
        queue: The jobs.
        threads: Number of background threads. 0 loads each job when it is asked for.
        ahead: Number of runs that are started before their results are asked for.
        most_in_run: Maximum number of small jobs that a thread loads together. Passing work between
            threads costs about as much as a batch of a few tens of kilobytes. Long jobs are better
            loaded one by one, since a thread finishes the run that it has started.
        in_thread: Context in which background threads load each run.
    """

    def __init__(
        self,
        load: Load,
        queue: JobQueue,
        threads: int,
        ahead: int,
        most_in_run: int = 1,
        *,
        in_thread: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._load = load
        self._queue = queue
        self._threads = min(threads, ahead + 1)
        self._ahead = ahead
        self._most_in_run = most_in_run
        self._in_thread = in_thread
        self._num_started = 0
        self._is_closed = False
        self._runs: deque[_Run] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[tuple[LoadJob, Result]]:
        """Yield the jobs in their order, each with its result."""
        if self._threads == 0:
            while alone := self._queue.take(1, 0):
                yield alone[0], self._load(alone)[0]
            return
        while True:
            self._start_runs()
            if not self._runs:
                if self._pool is not None:
                    self._pool.shutdown()  # no thread is left where a process forks afterwards
                return
            run = self._runs.popleft()
            run.ended.result()
            results = run.results or deque(zip(run.jobs, self._load(run.jobs), strict=True))
            del run
            try:
                while results:
                    self._start_runs()
                    yield results.popleft()
            finally:
                results.clear()

    def close(self) -> None:
        """End the threads. Each finishes its current run."""
        self._is_closed = True
        if self._pool is not None and self._pid == os.getpid():
            self._pool.shutdown(wait=False, cancel_futures=True)
        for run in self._runs:
            run.results.clear()
        self._runs.clear()

    def _start_runs(self) -> None:
        """Let threads load runs ahead. The first runs are short."""
        if self._pid != os.getpid():  # after a fork: the threads are the parent's
            self._pid, self._pool = os.getpid(), None
            self._runs = deque(self._start(run.jobs) for run in self._runs)
        while len(self._runs) <= self._ahead:
            most = max(1, min(self._num_started, self._most_in_run))
            jobs = self._queue.take(most, _RUN_BYTES)
            if not jobs:
                return
            self._num_started += len(jobs)
            self._runs.append(self._start(jobs))

    def _start(self, jobs: Sequence[LoadJob]) -> _Run:
        results: deque[tuple[LoadJob, Result]] = deque()
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "torchrec_io")
            return _Run(jobs, results, self._pool.submit(self._load_in_thread, jobs, results))
        except RuntimeError:  # the system has no more threads, or the interpreter is exiting
            ended: Future[None] = Future()
            ended.set_result(None)
            return _Run(jobs, deque(zip(jobs, self._load(jobs), strict=True)), ended)

    def _load_in_thread(
        self, jobs: Sequence[LoadJob], results: deque[tuple[LoadJob, Result]]
    ) -> None:
        if getattr(thread, "_shutdown", False):
            return  # the interpreter is exiting, and would wait: a daemon thread loads for itself
        with self._in_thread():
            results.extend(zip(jobs, self._load(jobs), strict=True))
        if self._is_closed:
            results.clear()
