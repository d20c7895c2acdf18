"""Ends of objects that are open when the interpreter exits."""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from .._core import stop_daemons

_Owner = TypeVar("_Owner")
_Items = TypeVar("_Items", bound=Generator[Any, None, None])

# Threads rest if they are at the same places this often in a row.
_LOOKS_AT_REST = 10
_MOST_LOOKS = 400
_LOOK_SECONDS = 0.005

_open: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def end_at_exit(owner: _Owner, end: Callable[[_Owner], None]) -> _Owner:
    """Return an object that a function ends at exit, if the object still exists.

    The interpreter would collect such objects later. By then it has emptied modules that something
    else keeps alive, as the package ``dill`` does, and their functions fail.

    Args:
        owner: The object.
        end: Function that is called with it.
    """
    _open[owner] = end
    return owner


def close_at_exit(items: _Items) -> _Items:
    """Return a generator that is closed at exit, if it still exists."""
    return end_at_exit(items, _close)


def _wait_for_daemons() -> None:
    """Wait until daemon threads that used the package wait themselves, for two seconds at most.

    Native code of this package keeps them. But before they get there they may be in other native
    code, such as PyTorch's: a thread that is there when the interpreter is finalized aborts the
    process.
    """
    if not stop_daemons():
        return
    threads = [thread for thread in threading.enumerate() if thread.daemon]
    seen: dict[Any, tuple[int, int]] = {}
    unchanged = 0
    for _ in range(_MOST_LOOKS):
        frames = sys._current_frames()  # noqa: SLF001  # documented, for purposes like this one
        places = {
            thread: (id(frame), frame.f_lasti)
            for thread in threads
            if (frame := frames.get(thread.ident or 0)) is not None
        }
        del frames
        is_at_rest = places == seen and not any(map(_is_running, places))
        unchanged = unchanged + 1 if is_at_rest else 0
        if unchanged == _LOOKS_AT_REST or not places:
            return
        seen = places
        time.sleep(_LOOK_SECONDS)


def _is_running(thread: threading.Thread) -> bool:
    """Return whether a thread runs or waits for a processor, as far as the system tells."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"R"
    except OSError:
        return False


def _close(items: Generator[Any, None, None]) -> None:
    items.close()


@atexit.register
def _end_all() -> None:
    _wait_for_daemons()  # they must not go on with what is ended here
    for owner, end in list(_open.items()):
        with contextlib.suppress(ValueError):  # a generator that a daemon thread is running
            end(owner)
