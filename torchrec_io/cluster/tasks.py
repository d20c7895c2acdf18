"""Work on many items in tasks of a Ray cluster, which gives the results in order."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from .extra import import_ray

logger: logging.Logger = logging.getLogger("torchrec_io")

T = TypeVar("T")
R = TypeVar("R")

# About the number of bytes of a task: large compared with the time to start it, and small enough
# that little is done again if a machine fails. Less data has smaller tasks, so that all CPUs work.
TASK_BYTES = 256 << 20
_LEAST_TASK_BYTES = 16 << 20
_FEW_TASKS = 64
_MOST_ITEMS = 1000
# Ray runs a task again if its process or machine is lost.
_RETRIES = 20
# Errors that may pass, and seconds to wait before a task tries again.
_TRANSIENT = (
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNABORTED,
    errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH,
)  # fmt: skip
_WAITS = (1, 5, 25)
_CONNECT_SECONDS = 10


def connect(address: str) -> None:
    """Connect this process to a cluster.

    Args:
        address: Address of the cluster, "auto" for the one that this machine belongs to, or "local"
            to start one on this machine that ends with this process.

    Raises:
        ImportError: If Ray is not installed.
        ConnectionError: If there is no such cluster.
    """
    ray = import_ray()
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in address:
        _check_listening(host, int(port))
    ray.init(address, log_to_driver=False, logging_level="error", ignore_reinit_error=True)


def _check_listening(host: str, port: int) -> None:
    """Raise ConnectionError unless a program listens; Ray would wait for it for many minutes."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ConnectionError(
            f"there is no Ray cluster at {host}:{port} ({error}): give the address that ray start "
            "printed, or local"
        ) from None


def run_tasks(
    function: Callable[[T], R], items: Sequence[T], sizes: Sequence[int]
) -> Generator[tuple[R, int]]:
    """Call a function with each item in tasks, and yield the results in order.

    Small items share a task. A task that is lost with its process or machine is run again, and so
    is a call that fails because a file server or disk does not answer. So the function must have
    the same effect if it is called twice.

    Args:
        function: Function of a module, or an object that can be pickled.
        items: Arguments.
        sizes: Number of bytes of each item.

    Yields:
        The result of each item, and its size.

    Raises:
        Exception: The first one that the function raised, by the order of the items.
    """
    ray = import_ray()
    if not ray.is_initialized():
        ray.init()  # as Ray does by itself when a task is started
    run = ray.remote(max_retries=_RETRIES)(_run)
    groups = group_items(sizes)
    waiting = deque(run.remote(function, [items[item] for item in group]) for group in groups)
    try:
        for group in groups:
            with plain_errors():
                results = ray.get(waiting[0])
            waiting.popleft()  # frees the memory of the results
            yield from zip(results, (sizes[item] for item in group), strict=True)
    finally:
        for reference in waiting:
            ray.cancel(reference)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise the errors of tasks without the text that Ray adds."""
    try:
        yield
    except import_ray().exceptions.RayTaskError as error:
        raise error.cause from None


def _run(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [_try_again(function, item) for item in items]


def _try_again(function: Callable[[T], R], item: T) -> R:
    """Call a function, again if a file server or disk does not answer for a while."""
    for seconds in _WAITS:
        try:
            return function(item)
        except OSError as error:
            if error.errno not in _TRANSIENT:
                raise
            logger.warning("trying again in %d s: %s", seconds, error)
            time.sleep(seconds)
    return function(item)


def group_items(sizes: Sequence[int]) -> list[range]:
    """Return the numbers of the items of each task, by the sizes of the items in bytes."""
    most = min(TASK_BYTES, max(_LEAST_TASK_BYTES, sum(sizes) // _FEW_TASKS))
    groups: list[range] = []
    begin = 0
    total = 0
    for item, size in enumerate(sizes):
        if item > begin and (total + size > most or item - begin == _MOST_ITEMS):
            groups.append(range(begin, item))
            begin, total = item, 0
        total += size
    if begin < len(sizes):
        groups.append(range(begin, len(sizes)))
    return groups
