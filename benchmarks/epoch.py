"""Checks and timings of epochs of a peer, in this process. All peers run this code."""

from __future__ import annotations

import gc
import hashlib
import itertools
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import memory_of
from benchmarks.peers.base import HostBatch, Peer
from benchmarks.workloads import Column, Workload

_TICKS = os.sysconf("SC_CLK_TCK")
# Pixels of an image that are compared: all channels on a coarse grid.
_GRID = np.s_[:, 3::7, 3::7]


# ---- comparing values ----


def check(peer: Peer, workload: Workload, workers: int, pictures: str) -> dict[str, Any]:
    """Return a digest of all values of an epoch that does not depend on the order of records.

    All columns of a record are hashed together, with lengths, and the hashes are summed. JPEG
    decoders may differ slightly, so the points of a grid of each image are written to the file
    ``pictures`` instead, in the order of the records' numbers.
    """
    records = total = 0
    numbers, grids = [], []
    for batch in peer.batches(workload, workers):
        host = peer.to_host(workload, batch)
        for name, column in workload.columns.items():
            if column.kind == "jpeg":
                image = host[name]
                assert image.shape[1:] == column.shape, f"{name} is of shape {image.shape}"
                assert image.dtype == np.uint8, f"{name} is of {image.dtype}"
                numbers.append(host["number"].copy())
                grids.append(image[_GRID].copy())
        for record in _records(workload, host):
            digest = hashlib.blake2b(record, digest_size=8).digest()
            total = (total + int.from_bytes(digest, "little")) % (1 << 64)
            records += 1
    if grids:
        order = np.argsort(np.concatenate(numbers))
        np.save(pictures, np.concatenate(grids)[order])
    return {"records": records, "digest": f"{total:016x}"}


def _records(workload: Workload, host: HostBatch) -> Iterator[bytes]:
    """Yield the bytes of each record of a batch, without images."""
    missing = workload.columns.keys() - host.keys()
    assert not missing, f"columns {sorted(missing)} are missing"
    columns = [
        _values(name, column, host[name])
        for name, column in workload.columns.items()
        if column.kind != "jpeg"
    ]
    for values in zip(*columns, strict=True):
        yield b"".join(len(value).to_bytes(8, "little") + value for value in values)


def _values(name: str, column: Column, values: Any) -> list[bytes]:
    """Return the bytes of each record's value. Numbers are little-endian, of the column's dtype."""
    if column.kind == "string":
        return [bytes(value) for value in values]
    dtype = np.dtype(np.uint8 if column.kind == "raw" else column.kind)
    if column.shape is not None:
        assert values.dtype == dtype, f"{name} is of {values.dtype}"
        assert values.shape[1:] == column.shape, f"{name} is of shape {values.shape}"
        return [row.tobytes() for row in values]
    flat, ends = values
    assert flat.dtype == dtype, f"{name} is of {flat.dtype}"
    if flat.ndim == 2:  # padded rows and their lengths
        return [row[:length].tobytes() for row, length in zip(flat, ends, strict=True)]
    bounds = itertools.pairwise(ends)
    return [flat[start:end].tobytes() for start, end in bounds]


# ---- speed ----


def measure(peer: Peer, workload: Workload, workers: int, seconds: float) -> dict[str, Any]:
    """Return rates and memory, measured for some seconds. The last epoch may be incomplete.

    Time, records and the CPU time of all processes count only after the first batch of each epoch.
    Every column of a batch is accessed.
    """
    rows = _Rows(workload)
    begin = time.perf_counter()
    epochs = peer.batches(workload, workers)
    first_batch = 0.0
    wall = cpu = 0.0
    timed = 0
    while wall < seconds:
        iterator = iter(epochs)
        rows.of(next(iterator))
        start, start_cpu = time.perf_counter(), _cpu_seconds()
        first_batch = first_batch or start - begin
        stop = start + seconds - wall
        for batch in iterator:
            timed += rows.of(batch)
            if time.perf_counter() > stop:
                break
        wall += time.perf_counter() - start
        cpu += _cpu_seconds() - start_cpu
        del iterator
        begin = time.perf_counter()
    own_peak = memory_of()["VmHWM"]
    del epochs
    _end_workers()
    worker_peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "records_per_s": timed / wall,
        "records_per_cpu_s": timed / max(cpu, 1 / _TICKS),
        "first_batch_s": first_batch,
        "peak_bytes": own_peak + (worker_peak if workers else 0),
    }


class _Rows:
    """Counter of the records in batches."""

    def __init__(self, workload: Workload) -> None:
        self._first = next(iter(workload.columns))

    def of(self, batch: Any) -> int:
        columns = list(batch.values())
        assert columns
        return len(batch[self._first])


def _cpu_seconds() -> float:
    """Return user and system time of this process and of its children, ended or alive."""
    ended = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in ended) + _cpu_of_children()


def _cpu_of_children() -> float:
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text().split():
            try:
                stat = Path(f"/proc/{pid}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):  # the process has ended
                continue
            fields = stat.rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def _end_workers() -> None:
    """End worker processes, because their peak memory is known only afterwards."""
    gc.collect()
    for process in multiprocessing.active_children():
        process.terminate()
        process.join(5)
