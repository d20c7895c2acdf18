"""Many pieces of work by several processes or threads, in order, and what came of them.

What turns a lot of data into other files goes like this::

    tally = Tally(on_error, watcher)
    watcher.started(total_bytes)
    with Jobs(work, jobs, processes=True) as crew, TheOutput(...) as output:
        for done in crew.map(pieces):
            for record in done.records:
                output.write(record)
            tally.add(len(done.records), done.size, done.refused)

``work`` is called for every piece, the results come in the order of the pieces. So the output does
not depend on ``jobs``, and it is written by one thread: that which also sees Ctrl-C. Whatever ends
the loop ends the pieces under way too, and then the output, which removes what it has written.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Generic, Literal, TypeAlias, TypeVar

from ..errors import TorchRecIOError

Item = TypeVar("Item")
Done = TypeVar("Done")
OnError: TypeAlias = Literal["raise", "skip"]

# Pieces in hand for each job: one that is worked on, others that are ready to be, or were.
_PIECES_AHEAD = 3
# Errors that a tally keeps. A watcher is told of all.
_MOST_KEPT = 1000


class Jobs(Generic[Item, Done]):
    """Calls a function for many pieces of work, several at once; results come in order.

    With one job, or just one piece, the caller's thread does the work when the result is asked for.

    At most three pieces for each job are in memory, their results included. Leaving the ``with``
    block drops the pieces that wait and waits for those that are worked on: a piece should take a
    second, not a minute.

    Args:
        work: What is called with each piece. For processes it is pickled once for each piece:
            a function of a module, or ``functools.partial`` of one.
        jobs: How many pieces are worked on at once.
        processes: Whether by processes, for work in Python; or by threads, for work that lets go of
            the interpreter lock. Processes are started afresh ("spawn"), so a script that asks for
            them needs ``if __name__ == "__main__":``. They end with this process, however it ends.

    Raises:
        ValueError: jobs is less than 1.
    """

    def __init__(
        self, work: Callable[[Item], Done], jobs: int = 1, *, processes: bool = False
    ) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be 1 or more, not {jobs}")
        self._work = work
        self._jobs = jobs
        self._processes = processes
        self._executor: Executor | None = None

    def __enter__(self) -> Jobs[Item, Done]:
        if self._jobs > 1:
            self._executor = _processes(self._jobs) if self._processes else _threads(self._jobs)
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def map(self, pieces: Iterable[Item]) -> Iterator[Done]:
        """What ``work`` gives for each piece, in order.

        Pieces are taken, in the caller's thread, as they are needed.

        Raises:
            Exception: what ``work`` raised; of several pieces, of the first one.
            RuntimeError: a process was killed, or could not start.
        """
        pieces = iter(pieces)
        first = list(islice(pieces, 2))
        if self._executor is None or len(first) < 2:
            yield from map(self._work, chain(first, pieces))
            return
        waiting: deque[Future[Done]] = deque()
        try:
            for piece in chain(first, pieces):
                waiting.append(self._submit(self._executor, piece))
                if len(waiting) >= _PIECES_AHEAD * self._jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise RuntimeError(
                "a process that had a share of the work was killed: the system may have run out of "
                "memory, of which fewer jobs need less; or it could not start, because the script "
                'lacks `if __name__ == "__main__":`'
            ) from None

    def _submit(self, executor: Executor, piece: Item) -> Future[Done]:
        if not self._processes:
            return executor.submit(self._work, piece)
        with _interrupts_held():  # the first call starts the processes, which inherit that
            return executor.submit(self._work, piece)


def _threads(jobs: int) -> Executor:
    return ThreadPoolExecutor(jobs, "torchrec_io convert")


def _processes(jobs: int) -> Executor:
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _prepare)


def _prepare() -> None:
    """Ctrl-C is the parent's to see; without it nobody wants the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Watcher:
    """Is told how work gets on, in the caller's thread. This one does nothing with it."""

    def started(self, total: int) -> None:
        """Work begins, on so many bytes."""

    def advanced(self, size: int, records: int) -> None:
        """So many more bytes were read, and records written."""

    def skipped(self, error: TorchRecIOError) -> None:
        """Something was left out, as was asked for."""


class Tally:
    """Adds up what came of pieces, and decides what becomes of errors.

    Args:
        on_error: "raise", or "skip": count, and tell the watcher.
        watcher: Is told of everything.

    Attributes:
        records: Written so far.
        skipped: Left out so far.
        errors: Why, of the first 1,000.
        ignored: Files that were never meant, by kind; for who fills it.
        raises: Whether errors are raised.

    Raises:
        ValueError: on_error is neither.
    """

    def __init__(self, on_error: OnError = "raise", watcher: Watcher | None = None) -> None:
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", not {on_error!r}')
        self.records = 0
        self.skipped = 0
        self.errors: list[TorchRecIOError] = []
        self.ignored: dict[str, int] = {}
        self.watcher = watcher or Watcher()
        self.raises = on_error == "raise"
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the tally was made."""
        return time.perf_counter() - self._began

    def add(self, records: int, size: int, errors: Sequence[TorchRecIOError] = ()) -> None:
        """Counts a piece: records written of it, bytes read, and what it could not make of it.

        Raises:
            TorchRecIOError: the first error, unless errors are to be skipped.
        """
        for error in errors:
            self.skip(error)
        self.records += records
        self.watcher.advanced(size, records)

    def skip(self, error: TorchRecIOError) -> None:
        """Leaves something out, or raises why it would have to be."""
        if self.raises:
            raise error
        self.skipped += 1
        if len(self.errors) < _MOST_KEPT:
            self.errors.append(error)
        self.watcher.skipped(error)
