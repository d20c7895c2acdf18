"""What is written: dicts of features, and plain bytes.

Nothing but the standard library here: TensorFlow's process imports this module too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from benchmarks.encode_values import examples_of

_BATCHES = 40  # so often are the examples of a workload written


def examples_to_write() -> list[dict[str, Any]]:
    """Examples of 40 scalars, the same in every process."""
    return examples_of("tabular") * _BATCHES


def cpu_of_writing(work: Callable[[str], object], path: str) -> float:
    """CPU seconds, the system's included, of work that writes a file that is not there yet."""
    if os.path.exists(path):
        os.unlink(path)
    begin = time.process_time()
    work(path)
    return time.process_time() - begin
