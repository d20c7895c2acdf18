"""A slow function for processes that a test stops."""

from __future__ import annotations

import os
import time


def wait(seconds: float) -> int:
    """Sleep, and return the process id."""
    time.sleep(seconds)
    return os.getpid()
