"""Ends of objects that are open when the interpreter exits."""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from .._core import stop_daemons

_Owner = TypeVar("_Owner")
_Items = TypeVar("_Items", bound=Generator[Any, None, None])

# Time for daemon threads to come to native code of this package.
_DAEMON_SECONDS = 0.3

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
    return end_at_exit(items, lambda each: each.close())


@atexit.register
def _end_all() -> None:
    # Native code of this package keeps daemon threads from now on: they must not go on with what is
    # ended here. Before they get there they may be in other native code, such as PyTorch's. If they
    # are there when the interpreter is finalized, the process aborts.
    if stop_daemons():
        time.sleep(_DAEMON_SECONDS)
    for owner, end in list(_open.items()):
        with contextlib.suppress(ValueError):  # a generator that a daemon thread is running
            end(owner)
