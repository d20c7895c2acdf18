"""Threads of the package."""

from __future__ import annotations

import threading
import time

_SECONDS = 30


def wait_for_threads_to_end() -> None:
    """Wait until no thread loads batches: they end a moment after their iteration.

    Raises:
        AssertionError: If one goes on.
    """
    deadline = time.monotonic() + _SECONDS
    while names := [each.name for each in threading.enumerate() if "torchrec_io load" in each.name]:
        assert time.monotonic() < deadline, names
        time.sleep(0.002)
