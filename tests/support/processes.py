"""Other processes: results of several at once, whether they are running, and their end."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def results_at_once(
    method: str, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]
) -> list[Any]:
    """Return what a function returns in processes that run at once, in the order of their ends.

    Args:
        method: Start method of the processes.
        function: The function.
        calls: Arguments of each process.
    """
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    processes = [context.Process(target=_put, args=(results, function, *call)) for call in calls]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    return found


def _put(results: Any, function: Callable[..., Any], *arguments: Any) -> None:
    results.put(function(*arguments))


def is_running(pid: int) -> bool:
    """Return whether there is a process of this number that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_done: Callable[[], bool]) -> None:
    """Wait until a function returns True, which must not take long."""
    end = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.02)
