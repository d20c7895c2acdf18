"""A Ray cluster of this machine for measurements, and the CPU time and memory of its processes."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import ray

CPUS = 2


@contextmanager
def ray_session() -> Iterator[None]:
    """Start Ray with two CPUs, and stop it at the end of the block."""
    os.environ.setdefault("RAY_AUTH_TOKEN", os.urandom(16).hex())
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        "local",
        num_cpus=CPUS,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=1 << 30,
    )
    try:
        yield
    finally:
        ray.shutdown()


def cpu_seconds() -> float:
    """Return the CPU time of this process and all processes of the cluster so far."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        # The times of children that have ended are included; those of others are their own.
        total += times.user + times.system + times.children_user + times.children_system
    return total


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of all processes, and the wall seconds, of a call."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    work()
    return cpu_seconds() - cpu, time.perf_counter() - wall


def measure_reads(
    read: Callable[[list[str]], Any], paths: list[str], rounds: int
) -> dict[str, Any]:
    """Measure passes over files that are read by Ray Data.

    Args:
        read: Function that returns a dataset of files.
        paths: Paths of the files.
        rounds: Number of passes.

    Returns:
        CPU and wall seconds of each pass, the number of records of all passes, and a digest of the
        values in the first file.
    """
    counts = set()

    def run() -> None:
        bundles = read(paths).iter_internal_ref_bundles()
        counts.add(sum(bundle.num_rows() for bundle in bundles))

    with ray_session():
        digest = values_digest(read(paths[:1]))
        times = [timed(run) for _ in range(rounds)]
    return {"times": times, "records": sorted(counts), "digest": digest}


def values_digest(dataset: Any) -> int:
    """Return the sum of the digests of all rows, which does not depend on their order."""
    total = 0
    for row in dataset.iter_rows():
        hashed = hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=8)
        total += int.from_bytes(hashed.digest(), "little")
    return total % 2**64
