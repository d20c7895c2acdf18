"""Threads of the package, in tests that say when these end."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Collection

_NAMES = ("torchrec_io_", "torchrec_io prefetch")
_SECONDS = 30  # deadline for what should end shortly
# Other tests may have left requests to a server that has ended, which are repeated.
_SECONDS_OF_OTHERS = 60


def threads_of_other_tests() -> set[threading.Thread]:
    """Return the threads that other tests have left, once most of them have ended.

    Some are left for ever where a test keeps an iterator that it does not use up.
    """
    ends = time.monotonic() + _SECONDS_OF_OTHERS
    gc.collect()
    while _threads() and time.monotonic() < ends:
        time.sleep(0.05)
        gc.collect()  # what threads left behind as they ended
    return _threads()


def wait_until_threads_end(others: Collection[threading.Thread]) -> None:
    """Wait until all threads but those of other tests have ended. No garbage is collected."""
    ends = time.monotonic() + _SECONDS
    while own := _threads().difference(others):
        assert time.monotonic() < ends, f"threads are left: {own}"
        time.sleep(0.002)


def _threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith(_NAMES)}
