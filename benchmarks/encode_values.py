"""Examples of the workloads as plain Python values, for ``encode.py``.

Uses only the standard library, because TensorFlow's process imports this module too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks.workloads import WORKLOADS, Column

BATCH_SIZE = 256
_SECONDS = 0.5  # minimum duration of a measurement


def examples_of(workload: str) -> list[dict[str, Any]]:
    """Return a batch of examples, the same in every process: scalars, lists of int, bytes."""
    source = random.Random(workload)  # noqa: S311  # not for secrets
    return [
        {name: _value(column, source) for name, column in WORKLOADS[workload].columns.items()}
        for _ in range(BATCH_SIZE)
    ]


def _value(column: Column, source: random.Random) -> Any:
    if column.kind == "int64" and column.shape:
        # Four of five values are zero.
        return [max(0, source.randrange(-1024, 256)) for _ in range(column.shape[0])]
    if column.kind == "int64":
        return source.randrange(1_000_000)
    if column.kind == "float32":
        return source.random()
    return source.randbytes(12_288 if column.kind == "raw" else 24)


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU microseconds per example of a function that encodes a batch."""
    work()
    rounds = 0
    begin = time.process_time()
    while time.process_time() - begin < _SECONDS:
        work()
        rounds += 1
    return (time.process_time() - begin) / (rounds * BATCH_SIZE) * 1e6
