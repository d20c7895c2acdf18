"""A pool of threads or processes whose results come in order.

The tools for whole files follow this pattern::

    report = JobReport(on_error, watcher)
    report.watcher.started(total_bytes)
    with OrderedPool(work, jobs, processes=True) as pool, OutputGroup() as group:
        file = group.open_records(path)
        for done in pool.map(pieces):
            for record in done.records:
                file.write(record)
            report.add(len(done.records), done.size, done.errors)

The results come in the order of the items, so the output does not depend on ``jobs``. It is written
by the caller's thread, which is also the one that receives Ctrl-C. An exception in the loop first
ends the work in progress, then discards the output.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Generic, Self, TypeVar

from ..checks import check_integer

Item = TypeVar("Item")
Value = TypeVar("Value")

THREAD_NAME = "torchrec_io job"
# Items per job that are in the pool: one in progress, the others waiting or finished.
_ITEMS_PER_JOB = 3


class OrderedPool(Generic[Item, Value]):
    """A pool of threads or processes whose results come in order.

    With one job, or with a single item, the caller's thread does the work when it asks for the
    result.

    Leaving the ``with`` block drops the waiting items and waits for those in progress. Items that
    take long should check ``is_stopped``.

    Args:
        work: Function that is called with each item. For processes it is pickled with each item, so
            it must be a function of a module, or a ``functools.partial`` of one.
        jobs: Number of threads or processes.
        processes: Whether to use processes, for work in Python, or threads, for work that releases
            the GIL. Processes are spawned, so a script that uses them needs
            ``if __name__ == "__main__":``. They end with this process, however it ends.
        max_items: Largest number of items, and their results, in the pool. By default three per
            job. It matters where items are large.

    Attributes:
        is_stopped: True after the ``with`` block was left: no more results are needed.

    Raises:
        ValueError: If ``jobs`` is not a positive integer.
    """

    def __init__(
        self,
        work: Callable[[Item], Value],
        jobs: int = 1,
        *,
        processes: bool = False,
        max_items: int | None = None,
    ) -> None:
        self._work = work
        self._jobs = check_integer("jobs", jobs, 1)
        self._processes = processes
        self._max_items = max_items or _ITEMS_PER_JOB * self._jobs
        self._executor: Executor | None = None
        self.is_stopped: bool = False

    def __enter__(self) -> Self:
        if self._jobs > 1 and self._processes:
            self._executor = _process_pool(self._jobs)
        elif self._jobs > 1:
            self._executor = ThreadPoolExecutor(self._jobs, THREAD_NAME)
        return self

    def __exit__(self, *_: object) -> None:
        self.is_stopped = True
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def map(self, items: Iterable[Item]) -> Iterator[Value]:
        """Yield the result for each item, in order.

        Items are taken from the iterable in the caller's thread, as they are needed.

        Raises:
            Exception: The exception of ``work``, for the first item that raised one.
            RuntimeError: If a process was killed or could not start.
        """
        items = iter(items)
        first = list(islice(items, 2))
        if self._executor is None or len(first) < 2:
            yield from map(self._work, chain(first, items))
            return
        waiting: deque[Future[Value]] = deque()
        try:
            for item in chain(first, items):
                waiting.append(self._executor.submit(self._work, item))
                if len(waiting) >= self._max_items:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenExecutor:
            raise RuntimeError(
                "a worker process was killed or could not start; if the system ran out of memory, "
                'use fewer jobs; a script needs `if __name__ == "__main__":` to start processes'
            ) from None


def _process_pool(jobs: int) -> Executor:
    # These are slow to import, and most commands use no processes.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _prepare_process)


def _prepare_process() -> None:
    """Leave Ctrl-C to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process  # noqa: PLC0415

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
