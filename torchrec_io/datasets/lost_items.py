"""Errors for items that a DataLoader worker cannot send to its main process."""

from __future__ import annotations

import multiprocessing.queues
from typing import Any

from torch.utils.data import get_worker_info

from ..errors import TransformError


def report_lost_items(_worker: int | None = None) -> None:
    """Send an error in place of an item that cannot be pickled, if this process is a worker.

    A queue pickles items in a thread of its own. By default that prints the traceback of what it
    cannot pickle and drops the item, so that an epoch is shorter or never ends. The hook is the
    one that ``concurrent.futures`` overrides; queues look it up when their thread starts, which is
    when the first item is sent. Fits ``worker_init_fn`` of a DataLoader.
    """
    if get_worker_info() is not None:
        multiprocessing.queues.Queue._on_queue_feeder_error = _send_error  # type: ignore[attr-defined]  # noqa: SLF001


def _send_error(queue: Any, error: Exception, item: Any) -> None:
    """Put an error into a queue for an item of a DataLoader: (number, data, ...)."""
    number = item[0] if isinstance(item, tuple) and len(item) > 1 else None
    if not isinstance(number, int):
        raise error
    reason = (
        f"item {number} of this iteration cannot be sent from a worker process "
        f"({type(error).__name__}: {error}). A transform or collate_fn must return what can be "
        "pickled, such as tensors without grad; tensors need room in /dev/shm, a Batch does not. "
        "With num_workers=0 nothing is sent"
    )
    queue.put((number, _wrapped(TransformError(reason)), *item[2:]))


def _wrapped(error: Exception) -> Any:
    """Return an error as workers send it."""
    from torch._utils import ExceptionWrapper  # noqa: PLC0415

    try:
        raise error
    except TransformError:
        wrapper: Any = ExceptionWrapper
        return wrapper(where="in DataLoader worker process")
