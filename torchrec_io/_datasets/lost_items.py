"""Errors for items that a DataLoader worker cannot send to its main process."""

from __future__ import annotations

import functools
import multiprocessing.queues
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from .._records.reader import Reader
from ..errors import TransformError

# The modules whose workers send items: (number, item), or (number, (item, worker, state)).
_PYTORCH = "torch.utils.data._utils.worker"
_TORCHDATA = "torchdata.stateful_dataloader.worker"


class ReadRecord(NamedTuple):
    """A record that a worker has read.

    Attributes:
        reader: The reader of the dataset.
        number: Number of the record there.
    """

    reader: Reader
    number: Any


def _nothing() -> ReadRecord | None:
    return None


_latest: Callable[[], ReadRecord | None] = _nothing


def report_lost_items(
    _worker: int | None = None, *, latest: Callable[[], ReadRecord | None] = _nothing
) -> None:
    """Send an error in place of an item that cannot be pickled, if this process is a worker.

    A queue pickles items in a thread of its own. By default that prints the traceback of what it
    cannot pickle and drops the item, so that an epoch is shorter or never ends. Fits
    ``worker_init_fn`` of a DataLoader.

    Args:
        latest: Returns a record of the item that the worker has made last; None if it is not known.
    """
    global _latest  # noqa: PLW0603  # a worker makes one item at a time
    if get_worker_info() is not None:
        _latest = latest
        _observe_queues()


@functools.cache
def _observe_queues() -> None:
    queues: Any = multiprocessing.queues
    queues._ForkingPickler = _Pickler  # noqa: SLF001  # looked up for each message
    queues.Queue.put = _noting(queues.Queue.put)


def _noting(put: Callable[..., None]) -> Callable[..., None]:
    """Return the ``put`` of a queue that notes the record of what DataLoader sends."""

    @functools.wraps(put)
    def put_noted(queue: Any, message: Any, *args: Any, **options: Any) -> None:
        sender = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001
        if sender in {_PYTORCH, _TORCHDATA} and isinstance(message[0], int):
            message = _Noted(message, _latest(), sender == _TORCHDATA)
        put(queue, message, *args, **options)

    return put_noted


class _Noted(NamedTuple):
    """A message of a worker.

    Attributes:
        message: Number of an item, and the item.
        record: A record of the item, if known.
        has_state: Whether the item is the first of a tuple.
    """

    message: tuple[int, Any]
    record: ReadRecord | None
    has_state: bool

    def error(self, cause: Exception) -> tuple[int, Any]:
        """Return the message with an error instead of the item."""
        number, item = self.message
        places = [] if self.record is None else self.record.reader.locate([self.record.number])
        reason = (
            f"item {number} of this iteration cannot be sent from a worker process "
            f"({type(cause).__name__}: {cause}){'; it has this record' if places else ''}"
            ". A transform or collate_fn must return what can be pickled, such as tensors without "
            "grad; tensors need room in /dev/shm, a Batch does not. With num_workers=0 nothing is "
            "sent"
        )
        try:
            raise TransformError(reason, **(places[0].where if places else {}))
        except TransformError:
            wrapper: Any = ExceptionWrapper  # without types
            error = wrapper(where="in DataLoader worker process")
        return number, (error, *item[1:]) if self.has_state else error


class _Pickler(ForkingPickler):
    """Pickles the messages of queues."""

    @classmethod
    def dumps(cls, obj: Any, protocol: int | None = None) -> Any:
        if not isinstance(obj, _Noted):
            return super().dumps(obj, protocol)
        try:
            return super().dumps(obj.message, protocol)
        except Exception as error:  # noqa: BLE001  # a user's object may raise anything
            return super().dumps(obj.error(error), protocol)
