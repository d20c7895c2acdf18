"""Prefetching: batches that background threads load before they are asked for."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from .job_queue import JobQueue, LoadJob

_Result = TypeVar("_Result")

# Bytes of a run of batches. Half as many take 3 to 10 % more time where batches are small, because
# threads pass the interpreter on more often; more save little.
_RUN_BYTES = 4 << 20
# Functions of the module threading that hold a lock while they run Python code.
_LOCKING = ("_set_tstate_lock", "_stop", "_maintain_shutdown_locks")


class Outcome(NamedTuple):
    """The result of a job, or the exception that it raised."""

    result: Any
    error: BaseException | None = None


# Loads the jobs of a run and returns an outcome for each.
Work: TypeAlias = Callable[[Sequence[LoadJob]], "list[Outcome]"]


class _Run:
    """Jobs that a thread may do together, and their outcomes."""

    def __init__(self, jobs: Sequence[LoadJob]) -> None:
        self.jobs = jobs
        # One answer: the outcomes, an exception, or None if no thread does the jobs. Unlike a lock,
        # such a queue stays usable when Ctrl-C interrupts the wait.
        self._answers: SimpleQueue[list[Outcome] | BaseException | None] = SimpleQueue()

    def do(self, work: Work) -> None:
        """Do the jobs and answer with their outcomes, or with the exception of the work."""
        answers = self._answers
        try:
            answers.put(work(self.jobs))
        except BaseException as error:  # noqa: BLE001  # raised by outcomes()
            answers.put(error)
        finally:
            # The exception refers to this frame, which must not refer to the exception.
            del self, work, answers

    def cancel(self) -> None:
        """Cancel the run: the consuming thread does its jobs."""
        self._answers.put(None)

    def outcomes(self, work: Work) -> list[Outcome]:
        """Wait for the answer, and do the jobs here if no thread does."""
        answer = self._answers.get()
        if answer is None:
            return work(self.jobs)
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # as above
        return answer


class Prefetcher(Generic[_Result]):
    """Results of jobs in their order, computed by background threads up to ``ahead`` runs early.

    Threads start when there is work. They end shortly after there is none, and after at most one
    run each once the consuming thread has ended. So an abandoned iterator holds no thread and does
    not delay the exit of the process. Jobs that no thread does, as after a fork or :meth:`close`,
    are done by the consuming thread.

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

    # Threads wait this long for another job. An exit of the interpreter may be delayed by it.
    _LINGER_SECONDS = 0.1

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
        self._is_closed = False
        self._reset_threads()

    def _reset_threads(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._serving = 0  # number of threads that take runs; changed under the lock
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[_Run | None] = SimpleQueue()  # None wakes a thread up

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
            self._reset_threads()
            self.requeue()
        self._consumer = threading.current_thread()
        while len(self._pending) <= self._ahead and (jobs := self._next_run()):
            self._start(_Run(jobs))
        if not self._ready:
            if not self._pending:
                return None
            run = self._pending.popleft()
            self._ready.extend(zip(run.jobs, run.outcomes(self._work), strict=True))
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

    def _work_in_thread(self, jobs: Sequence[LoadJob]) -> list[Outcome]:
        try:
            with self._in_thread():
                return self._work(jobs)
        finally:
            # As in do(): the prefetcher holds the run, which holds the exception.
            del self, jobs

    def _is_exiting(self) -> bool:
        """Return whether the interpreter exits without waiting for the consumer's thread."""
        return self._consumer.daemon and not threading.main_thread().is_alive()

    def _may_wait(self) -> bool:
        """Return whether this thread may wait for the end of the other threads.

        Any thread may collect an iterator that is garbage: one of these, or one that holds a lock
        which threads need to start and to end. The exit of the interpreter does not wait for daemon
        threads.
        """
        is_own = threading.get_ident() in [thread.ident for thread in self._threads]
        return not (is_own or self._is_exiting() or _holds_thread_lock())

    def peek(self) -> LoadJob | None:
        """Return the job that :meth:`next` returns; None at the end."""
        if self._ready:
            return self._ready[0][0]
        return self._pending[0].jobs[0] if self._pending else self._queue.peek()

    def requeue(self) -> None:
        """Put the jobs that were started early back into the queue."""
        self._cancel_waiting()
        self._queue.put_back(
            [job for job, _ in self._ready] + [job for run in self._pending for job in run.jobs]
        )
        self._ready.clear()
        self._pending.clear()

    def close(self) -> None:
        """End the threads. Each finishes its current run."""
        self._is_closed = True
        if self._pid != os.getpid():
            return
        self._cancel_waiting()
        for _ in self._threads:
            self._waiting.put(None)
        if self._may_wait():
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()

    def _start(self, run: _Run) -> None:
        self._pending.append(run)
        self._waiting.put(run)
        with self._lock:
            if self._serving >= self._most_threads:
                return
            self._serving += 1
        thread = threading.Thread(target=self._serve, name="torchrec_io")
        self._threads = [*(old for old in self._threads if old.is_alive()), thread]
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or the interpreter is exiting
            self._leave()

    def _serve(self) -> None:
        """Run a background thread."""
        try:
            while self._has_consumer():
                try:
                    run = self._waiting.get(timeout=self._LINGER_SECONDS)
                except Empty:
                    if self._leave_if_idle():
                        return
                    continue
                if run is not None:
                    run.do(self._work_in_thread)
                del run  # do not hold the result while waiting
            self._leave()
        finally:
            del self  # an exception that was not retrieved refers to this frame

    def _has_consumer(self) -> bool:
        """Return whether results may still be requested. Threads must end otherwise."""
        consumer = self._consumer
        if self._is_closed or not consumer.is_alive():
            return False
        return not self._is_exiting()

    def _leave_if_idle(self) -> bool:
        """Stop serving, unless a run arrived in the meantime; return whether it stopped."""
        with self._lock:
            is_idle = self._waiting.empty()
            self._serving -= is_idle
        return is_idle

    def _leave(self) -> None:
        with self._lock:
            self._serving -= 1
            was_last = self._serving == 0
        if was_last:
            self._cancel_waiting()

    def _cancel_waiting(self) -> None:
        """Cancel the runs that no thread has started."""
        while True:
            try:
                run = self._waiting.get_nowait()
            except Empty:
                return
            if run is not None:
                run.cancel()


def _holds_thread_lock() -> bool:
    """Return whether this thread is inside of a function that locks all starts and ends of threads.

    Python 3.13 and later have no such lock.
    """
    frame = sys._getframe()  # noqa: SLF001  # documented
    while frame.f_back is not None:
        frame = frame.f_back
        code = frame.f_code
        if code.co_name in _LOCKING and code.co_filename == threading.__file__:
            return True
    return False
