"""Threads of the package, in tests that they end."""

from __future__ import annotations

import gc
import threading
import time

NAMES = ("torchrec_io_", "torchrec_io prefetch")
SECONDS = 30  # deadline for what should end shortly


def wait_until_no_thread_loads() -> None:
    """Wait until no thread of an iteration is left: each finishes what it is loading."""
    gc.collect()  # what other tests left behind
    wait_until_threads_end()


def wait_until_threads_end() -> None:
    """Wait like the above, but collect no garbage."""
    ends = time.monotonic() + SECONDS
    while names := [each.name for each in threading.enumerate() if each.name.startswith(NAMES)]:
        assert time.monotonic() < ends, f"threads are left: {names}"
        time.sleep(0.002)
