"""Threads of the package, in tests that they end."""

from __future__ import annotations

import threading
import time

SECONDS = 30  # deadline for what should end shortly


def wait_until_no_thread_loads() -> None:
    """Wait until no thread of an iteration is left: each finishes what it is loading."""
    ends = time.monotonic() + SECONDS
    while names := [
        each.name for each in threading.enumerate() if each.name.startswith("torchrec_io_")
    ]:
        assert time.monotonic() < ends, f"threads are left: {names}"
        time.sleep(0.002)
