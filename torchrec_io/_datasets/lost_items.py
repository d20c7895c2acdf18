"""Errors for items that a DataLoader worker cannot send to its main process."""

from __future__ import annotations

import multiprocessing.queues
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from ..errors import TransformError

# The module of workers that send (number, (item, worker, state)), not (number, item).
_STATEFUL = "torchdata.stateful_dataloader.worker"


def report_lost_items(_worker: int | None = None) -> None:
    """Send an error in place of an item that cannot be pickled, if this process is a worker.

    A queue pickles items in a thread of its own. By default that prints the traceback of what it
    cannot pickle and drops the item, so that an epoch is shorter or never ends. Fits
    ``worker_init_fn`` of a DataLoader.
    """
    if get_worker_info() is not None:
        queues: Any = multiprocessing.queues
        queues._ForkingPickler = _Pickler  # noqa: SLF001  # looked up for each message


class _Pickler(ForkingPickler):
    """Pickles the messages of queues: a number of an item, and the item."""

    @classmethod
    def dumps(cls, obj: Any, protocol: int | None = None) -> Any:
        try:
            return super().dumps(obj, protocol)
        except Exception as cause:  # a user's object may raise anything
            if not (isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], int)):
                raise
            return super().dumps((obj[0], _error_of(*obj, cause)), protocol)


def _error_of(number: int, item: Any, cause: Exception) -> Any:
    """Return the error that a worker sends in place of an item."""
    reason = (
        f"item {number} of this iteration cannot be sent from a worker process "
        f"({type(cause).__name__}: {cause}). A transform or collate_fn must return what can be "
        "pickled, such as tensors without grad; tensors need room in /dev/shm, a Batch does not. "
        "With num_workers=0 nothing is sent"
    )
    try:
        raise TransformError(reason)
    except TransformError:
        wrapper: Any = ExceptionWrapper  # without types
        error = wrapper(where="in DataLoader worker process")
    target = getattr(multiprocessing.current_process(), "_target", None)
    return (error, *item[1:]) if getattr(target, "__module__", "") == _STATEFUL else error
