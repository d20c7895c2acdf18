"""Threads of the package, in tests that they end."""

from __future__ import annotations

import gc
import threading
import time

NAMES = ("torchrec_io_", "torchrec_io prefetch")
SECONDS = 30  # deadline for what should end shortly
# Deadline for what other tests left behind: a request to a server that has ended is repeated.
_SECONDS_OF_OTHERS = 120


def wait_until_no_thread_loads() -> None:
    """Wait until no thread of an iteration is left: each finishes what it is loading."""
    ends = time.monotonic() + _SECONDS_OF_OTHERS
    gc.collect()  # what other tests left behind
    while names := _names():
        assert time.monotonic() < ends, f"threads are left: {names}"
        time.sleep(0.05)
        gc.collect()  # what threads of other tests left behind as they ended


def wait_until_threads_end() -> None:
    """Wait like the above for what this test began: no garbage has to be collected."""
    ends = time.monotonic() + SECONDS
    while names := _names():
        assert time.monotonic() < ends, f"threads are left: {names}"
        time.sleep(0.002)


def _names() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith(NAMES)]
