"""A function for processes that a test stops."""

from __future__ import annotations

import os
import time


def wait(seconds: float) -> int:
    """Takes its time, and says which process it is."""
    time.sleep(seconds)
    return os.getpid()
