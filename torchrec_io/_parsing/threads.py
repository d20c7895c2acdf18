"""A pool of threads that work on the values of one batch, and end with the call."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

# A thread takes 0.1 ms to start, a small image 0.3 ms to decode: one image alone is not worth one.
_MIN_CALLS_PER_THREAD = 2
_MAX_THREADS = 16  # started for each batch


def default_threads() -> int:
    """Return the number of CPUs for this process: its share, if ``torchrun`` started several."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, cpus // max(1, int(ranks) if ranks.isdigit() else 1))


def run_each(work: Callable[[int], None], count: int, threads: int) -> None:
    """Call a function with each number from 0 to ``count - 1``, in this thread and others.

    It waits for its threads before it returns or raises.

    Args:
        work: Function to call. If it raises, no further call is started.
        count: Number of calls.
        threads: Maximum number of threads, including this one.

    Raises:
        BaseException: If ``work`` raised.
    """
    numbers = iter(range(count))

    def serve() -> None:
        try:
            for number in numbers:  # each goes to one thread
                work(number)
        except BaseException:
            deque(numbers, maxlen=0)
            raise

    helpers = min(threads, _MAX_THREADS, count // _MIN_CALLS_PER_THREAD) - 1
    with ThreadPoolExecutor(max(1, helpers), "torchrec_io images") as pool:
        started: list[Future[None]] = []
        # The system may have no more threads, or the interpreter may be exiting.
        with contextlib.suppress(RuntimeError):
            started += (pool.submit(serve) for _ in range(helpers))
        serve()
    while started:  # a list of them would keep an exception that refers to this call
        started.pop().result()
