"""Locks between processes that share only a store.

A lock is an object that must be new. The process that holds it writes it again every minute, so
that others see that it lives. It cannot notice at once that it has lost the lock, for example after
it was suspended for many minutes. So a lock keeps processes from doing the same work twice, but
what they write must be right even if they do.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...errors import StaleIndexError
from ..byte_source import Stamp
from ..temporary import Owner, OwnerState, this_process
from .options import RemoteOptions
from .process import ask_again
from .remote_file import RemoteFile, stamp_of_info
from .upload import delete_objects, put_object

RENEW_SECONDS = 60.0
# A process on another machine that has not renewed its lock for this time is taken for dead.
LOST_SECONDS = 600.0
_MAX_BYTES = 1 << 10

_held: set[str] = set()  # URLs of the locks of this process


class ObjectLock(NamedTuple):
    """A lock that a process holds, or held when it was killed.

    Attributes:
        state: Whether the process lives, as far as is known.
        age: Seconds since it was renewed, by the clocks of the store and of this machine.
        stamp: Stamp of the object.
    """

    state: OwnerState
    age: float
    stamp: Stamp

    @property
    def is_held(self) -> bool:
        """Whether the process may still live."""
        return self.state == "alive" or (self.state == "elsewhere" and self.age < LOST_SECONDS)


def read_lock(url: str, options: RemoteOptions) -> ObjectLock | None:
    """Return a lock as it is now; None if there is none.

    Raises:
        OSError: If a request failed.
    """
    try:
        info = ask_again(url, options, "head")
        data = RemoteFile(url, stamp_of_info(info), options).read(0, min(info.size, _MAX_BYTES))
    except FileNotFoundError:
        return None
    try:
        machine, process, _ = json.loads(data)
        owner = Owner(str(machine), int(process))
    except (ValueError, TypeError):
        owner = Owner("", 0)  # of another release: it counts as a process elsewhere
    is_left = owner == this_process() and url not in _held
    age = time.time() - info.mtime if info.mtime else 0.0
    return ObjectLock("dead" if is_left else owner.state, age, stamp_of_info(info))


@contextlib.contextmanager
def object_lock(url: str, options: RemoteOptions, refuse: Callable[[], None]) -> Iterator[None]:
    """Hold a lock during a ``with`` block.

    Args:
        url: Public URL of its object.
        options: Options for remote objects.
        refuse: Called if another process holds the lock. It must raise an error.

    Raises:
        OSError: If a request failed.
    """
    data = json.dumps([*this_process(), os.urandom(8).hex()]).encode()
    stamp = _take(url, data, options)
    if stamp is None:
        refuse()
        raise BlockingIOError(url)
    _held.add(url)
    try:
        with kept_fresh(url, data, stamp, options):
            yield
    finally:
        _held.discard(url)
        with contextlib.suppress(OSError):
            delete_objects([url], options)


@contextlib.contextmanager
def kept_fresh(url: str, data: bytes, stamp: Stamp, options: RemoteOptions) -> Iterator[None]:
    """Write an object again every minute during a ``with`` block, as a sign of life.

    Args:
        url: Public URL of the object.
        data: Its content.
        stamp: Its stamp. Another object in its place is not replaced.
        options: Options for remote objects.
    """
    is_done = threading.Event()
    keeper = threading.Thread(target=_keep, args=(url, data, stamp, options, is_done), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        is_done.set()
        keeper.join()


def _take(url: str, data: bytes, options: RemoteOptions) -> Stamp | None:
    """Write the object of a lock; return None if another process has it."""
    with contextlib.suppress(FileExistsError):
        return put_object(url, data, options, only_if="absent")
    found = read_lock(url, options)
    if found is not None and found.is_held:
        return None
    try:
        return put_object(url, data, options, only_if="absent" if found is None else found.stamp)
    except (FileExistsError, FileNotFoundError, StaleIndexError):
        return None  # another process was faster


def _keep(
    url: str, data: bytes, stamp: Stamp, options: RemoteOptions, is_done: threading.Event
) -> None:
    """Write an object again and again, until another process has replaced or removed it."""
    while not is_done.wait(RENEW_SECONDS):
        try:
            stamp = put_object(url, data, options, only_if=stamp)
        except (FileNotFoundError, StaleIndexError):
            return
        except OSError:
            pass  # the store may answer the next time
