"""Threads that work on the values of one batch and end with the call."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

# A thread takes 0.1 ms to start, a small image 0.3 ms to decode: one image alone is not worth one.
_MIN_CALLS_PER_THREAD = 2
_MAX_THREADS = 16


def default_threads() -> int:
    """Return the number of CPUs that this process may use, at most 16."""
    if hasattr(os, "sched_getaffinity"):
        return min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(_MAX_THREADS, os.cpu_count() or 1)


def run_each(work: Callable[[int], None], count: int, threads: int) -> None:
    """Call a function with each number from 0 to ``count - 1``, in this thread and others.

    When it returns or raises, also on Ctrl-C, none of its threads is running.

    Args:
        work: Function to call. If it raises, no further call is started.
        count: Number of calls.
        threads: Maximum number of threads, including this one.

    Raises:
        BaseException: If ``work`` raised; of several exceptions, that of the smallest number.
    """
    todo = deque(range(count))
    raised: list[tuple[int, BaseException]] = []

    def serve() -> None:
        while todo:
            try:
                number = todo.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                work(number)
            except BaseException as error:  # noqa: BLE001  # raised below, in the caller's thread
                raised.append((number, error))
                todo.clear()

    crew: list[threading.Thread] = []
    try:
        for _ in range(min(threads, count // _MIN_CALLS_PER_THREAD) - 1):
            thread = threading.Thread(target=serve, name="torchrec_io images")
            try:
                thread.start()
            except RuntimeError:  # the system has no more, or the interpreter is shutting down
                break
            crew.append(thread)
        serve()
    finally:
        todo.clear()
        _join(crew)
    if raised:
        _, error = min(raised, key=lambda pair: (isinstance(pair[1], Exception), pair[0]))
        raised.clear()
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


def _join(crew: list[threading.Thread]) -> None:
    """Wait for threads, which finish one call each; raise an interrupt afterwards."""
    interrupt: BaseException | None = None
    for thread in crew:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:  # noqa: BLE001  # raised below
                interrupt = error
    if interrupt is not None:
        try:
            raise interrupt
        finally:
            del interrupt
