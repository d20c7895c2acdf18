"""Examples for ``write.py``, and their timer.

Uses only the standard library, because TensorFlow's process imports this module too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.encode_values import examples_of

_BATCHES = 40  # number of times the examples of a workload are written


def examples_to_write() -> list[dict[str, Any]]:
    """Return examples of 40 scalars, the same in every process."""
    return examples_of("tabular") * _BATCHES


def cpu_of_writing(work: Callable[[str], object], path: str) -> float:
    """Return the CPU seconds, system time included, of a function that writes a new file."""
    if os.path.exists(path):
        os.unlink(path)
    begin = time.process_time()
    work(path)
    return time.process_time() - begin
