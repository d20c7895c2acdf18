"""What a loading process works through: batches of records, read a few early by threads."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..records.stream_reader import StreamChunk

# Records that are still to be read: their numbers, or where there is no index, the records.
Piece: TypeAlias = "npt.NDArray[np.int64] | StreamChunk"
_Result = TypeVar("_Result")

# A run of batches of so many bytes still fits the caches.
_RUN_BYTES = 1 << 20


@dataclass
class Job:
    """One batch to be read.

    Attributes:
        epoch: That it is of; no batch has records of two epochs.
        records: Of the batch.
        plan: How to read them.
        error: Why that cannot be done. It is told in its turn, behind the batches before it; it is
            kept until then, as the job may be put back.
    """

    epoch: int
    records: Piece
    plan: Any
    error: Exception | None = None

    @property
    def stored_bytes(self) -> int:
        """About how many bytes are read for it."""
        return 0 if self.plan is None else int(self.plan.buffer_bytes)


class Feed:
    """Jobs in their order, which can be cut anew where records turn out to be lost.

    Args:
        batches: Epoch and records of each batch.
        plan: Plans how to read some records.
        batch_size: Records of a full batch.
    """

    def __init__(
        self, batches: Iterable[tuple[int, Any]], plan: Callable[[Any], Any], batch_size: int
    ) -> None:
        self._batches = iter(batches)
        self._plan = plan
        self._batch_size = batch_size
        self._cut: deque[tuple[int, Piece]] = deque()  # goes before the batches
        self._next: Job | None = None
        self._failure: Exception | None = None  # of the batches; comes behind all of them

    def peek(self) -> Job | None:
        """The job that comes next; None at the end."""
        if self._next is None:
            self._next = self._make()
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
        for job in reversed([*jobs, *behind]):
            if job.error is not None and len(job.records) == 0:
                self._failure = job.error
            else:  # a piece without records may have damage to tell of
                self._cut.appendleft((job.epoch, job.records))

    def take(self, epoch: int, count: int) -> Piece | None:
        """Takes up to ``count`` records of an epoch off what comes next; None if none come."""
        self.put_back([])
        taken: list[Piece] = []
        while count > 0 and (part := self._pull()) is not None:
            if part[0] != epoch:
                self._cut.appendleft(part)
                break
            first, rest = _cut(part[1], count)
            taken.append(first)
            if rest is not None:
                self._cut.appendleft((epoch, rest))
            count -= len(first)
        return _joined(taken) if taken else None

    def _make(self) -> Job | None:
        part = self._pull()
        if part is None:
            failure, self._failure = self._failure, None
            return None if failure is None else Job(0, np.empty(0, np.int64), None, failure)
        epoch, records = part
        records = self._filled(epoch, records)
        try:
            return Job(epoch, records, self._plan(records))
        except Exception as error:  # noqa: BLE001  # for who asks for this batch
            return Job(epoch, records, None, error)

    def _pull(self) -> tuple[int, Piece] | None:
        if self._cut:
            return self._cut.popleft()
        try:
            return next(self._batches, None)
        except Exception as error:  # noqa: BLE001  # for who asks for the next batch
            self._failure = error
            return None

    def _filled(self, epoch: int, records: Piece) -> Piece:
        """A batch that is short because records were taken off it, filled up from behind."""
        missing = self._batch_size - len(records)
        more = self.take(epoch, missing) if missing > 0 else None
        return records if more is None else _joined([records, more])


def _cut(piece: Piece, count: int) -> tuple[Piece, Piece | None]:
    """The first ``count`` records of a piece, and the rest, if there is any."""
    if len(piece) <= count:
        return piece, None
    if isinstance(piece, StreamChunk):
        return piece.split(count)
    return piece[:count], piece[count:]


def _joined(pieces: Sequence[Any]) -> Piece:
    if len(pieces) == 1:
        only: Piece = pieces[0]
        return only
    if isinstance(pieces[0], StreamChunk):
        return StreamChunk.joined(pieces)
    return np.concatenate(pieces)


class Outcome(NamedTuple):
    """What became of a job: its result, or what it raised."""

    result: Any
    error: BaseException | None = None


# Does the jobs of a run: an outcome for each, in their order. Is also told the job that follows.
Work: TypeAlias = Callable[[Sequence[Job], "Job | None"], "list[Outcome]"]


class _Task:
    """A run of jobs that a thread may do, and what becomes of it."""

    def __init__(self, jobs: Sequence[Job], following: Job | None) -> None:
        self.jobs = jobs
        self._following = following
        # One answer, once: the outcomes, an exception, or None for "no thread does it". Ctrl-C ends
        # waiting on such a queue at any time, and leaves no lock behind.
        self._answers: SimpleQueue[list[Outcome] | BaseException | None] = SimpleQueue()

    def do(self, work: Work) -> None:
        """Does the jobs; the answer is their outcomes or what it raised."""
        answers = self._answers
        try:
            answers.put(work(self.jobs, self._following))
        except BaseException as error:  # noqa: BLE001  # it is for who asks for the result
            answers.put(error)
        finally:
            # The exception leads to this frame, which must not lead to the exception.
            del self, answers

    def give_back(self) -> None:
        """Answers that no thread does the jobs."""
        self._answers.put(None)

    def outcomes(self, work: Work) -> list[Outcome]:
        """Waits for the answer, and does the jobs if no thread does."""
        answer = self._answers.get()
        if answer is None:
            return work(self.jobs, self._following)
        if isinstance(answer, BaseException):
            try:
                raise answer
            finally:
                del answer  # as above
        return answer


class Lookahead(Generic[_Result]):
    """Results of jobs in their order, worked out by background threads up to ``ahead`` runs early.

    Threads start when there is something to do. They end by themselves a little after there is
    nothing more, and after at most one run each once the thread that asks for results has ended: an
    iterator that lies about holds no thread and does not keep a process from its exit. Jobs that
    no thread does, as after a fork or :meth:`close`, are done by who asks for their results.

    Args:
        work: Does the jobs of a run.
        feed: The jobs.
        threads: How many; 1 is the calling thread, which works nothing out early.
        ahead: How many runs are begun before their results are asked for.
        most_in_run: How many jobs, if they are small, threads do together. Handing work from one
            thread to another costs about as much as a batch of a few tens of kilobytes; but what
            takes long is better done one by one, since threads finish the run that they are at.
    """

    # How long a thread waits for another job; an exit of the interpreter may take as long.
    _LINGER_SECONDS = 0.1

    def __init__(
        self, work: Work, feed: Feed, threads: int, ahead: int, most_in_run: int = 1
    ) -> None:
        self._work = work
        self._feed = feed
        self._ahead = ahead
        self._most_in_run = most_in_run
        self._most_threads = min(threads, ahead + 1) if threads > 1 else 0
        self._pending: deque[_Task] = deque()  # in their order, whether done or not
        self._ready: deque[tuple[Job, Outcome]] = deque()  # of the run before those
        self._begun = 0
        self._asker = threading.current_thread()
        self._closed = False
        self._forget_threads()

    def _forget_threads(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._serving = 0  # threads that take jobs; as _waiting grows, this is looked at
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[_Task | None] = SimpleQueue()  # None is a wake-up call

    def next(self) -> tuple[Job, _Result] | None:
        """The next job and its result; None at the end.

        Raises:
            BaseException: what the job raised; it is then gone, and the one behind it is next.
        """
        if self._most_threads == 0:
            job = self._feed.pop()
            return None if job is None else self._taken(job, *self._work([job], self._feed.peek()))
        if self._pid != os.getpid():  # forked: the threads are the parent's
            self._forget_threads()
            self.recall()
        self._asker = threading.current_thread()
        self._stay_out_of_an_exit()
        while len(self._pending) <= self._ahead and (jobs := self._next_run()):
            self._begin(_Task(jobs, self._feed.peek()))
        if not self._ready:
            if not self._pending:
                return None
            task = self._pending.popleft()
            self._ready.extend(zip(task.jobs, task.outcomes(self._work_here), strict=True))
        return self._taken(*self._ready.popleft())

    def _taken(self, job: Job, outcome: Outcome) -> tuple[Job, _Result]:
        result, error = outcome
        if error is not None:
            job.error = None  # as below
            try:
                raise error
            finally:
                del outcome, error  # its traceback leads here
        return job, cast("_Result", result)

    def _next_run(self) -> list[Job]:
        """The jobs that are done together; none at the end. First runs are short."""
        most = max(1, min(self._begun, self._most_in_run))
        jobs: list[Job] = []
        room = _RUN_BYTES
        while len(jobs) < most and (job := self._feed.peek()) is not None:
            room -= job.stored_bytes
            if jobs and room < 0:
                break
            jobs.append(job)
            self._feed.pop()
        self._begun += len(jobs)
        return jobs

    def _work_here(self, jobs: Sequence[Job], following: Job | None) -> list[Outcome]:
        self._stay_out_of_an_exit()
        return self._work(jobs, following)

    def _stay_out_of_an_exit(self) -> None:
        """Has a daemon thread wait for its end once the main thread has ended.

        The interpreter is then at its exit, which ends such threads where they are; in native code
        that would end the process with an error.
        """
        if self._asker.daemon and not threading.main_thread().is_alive():
            threading.Event().wait()

    def recall(self) -> None:
        """Puts the jobs that were begun early back into the feed."""
        self._give_back_waiting()
        self._feed.put_back(
            [job for job, _ in self._ready] + [job for task in self._pending for job in task.jobs]
        )
        self._ready.clear()
        self._pending.clear()

    def close(self) -> None:
        """Ends the threads, which finish the job that they are at."""
        self._closed = True
        if self._pid != os.getpid():
            return
        self._give_back_waiting()
        for _ in self._threads:
            self._waiting.put(None)
        # An iterator that is garbage is closed by any thread, its own ones among them.
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()

    def _begin(self, task: _Task) -> None:
        self._pending.append(task)
        self._waiting.put(task)
        with self._lock:
            if self._serving >= self._most_threads:
                return
            self._serving += 1
        thread = threading.Thread(target=self._serve, name="torchrec_io")
        self._threads = [*(old for old in self._threads if old.is_alive()), thread]
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or the interpreter is at its exit
            self._leave()

    def _serve(self) -> None:
        """What a thread does."""
        try:
            while self._wanted():
                try:
                    task = self._waiting.get(timeout=self._LINGER_SECONDS)
                except Empty:
                    if self._leave_if_idle():
                        return
                    continue
                if task is not None:
                    task.do(self._work)
                del task  # the result is not held while waiting
            self._leave()
        finally:
            del self  # an exception that nobody asked for leads to this frame, too

    def _wanted(self) -> bool:
        """Whether somebody may still ask; threads must not outlive who does, nor the program."""
        asker = self._asker
        if self._closed or not asker.is_alive():
            return False
        return not asker.daemon or threading.main_thread().is_alive()

    def _leave_if_idle(self) -> bool:
        """Ends a thread's service, unless a job came in at the last moment."""
        with self._lock:
            idle = self._waiting.empty()
            self._serving -= idle
        return idle

    def _leave(self) -> None:
        with self._lock:
            self._serving -= 1
            was_last = self._serving == 0
        if was_last:
            self._give_back_waiting()

    def _give_back_waiting(self) -> None:
        """Answers for the jobs that no thread has begun."""
        while True:
            try:
                task = self._waiting.get_nowait()
            except Empty:
                return
            if task is not None:
                task.give_back()
