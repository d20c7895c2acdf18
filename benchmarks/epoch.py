"""One epoch of one workload in this process, timed or digested. Both sides run this same code.

Nothing but the standard library here: TensorFlow's processes import this module too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.workloads import WORKLOADS, Workload

# Batches of a workload: columns by name. Their ``len`` is the number of records.
Batches = Callable[[Workload], Iterable[Mapping[str, Any]]]
# A column as a NumPy array, or as a list of bytes.
ToHost = Callable[[Any], Any]


def cpu_seconds() -> float:
    """User and system time of this process, all threads together."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main(batches: Batches, to_host: ToHost) -> None:
    """The command line of a side: prints what came out as one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--digest", action="store_true", help="digest all values, time nothing")
    parser.add_argument("--arrays", action="store_true", help="time with columns as NumPy arrays")
    args = parser.parse_args()
    stream = batches(WORKLOADS[args.workload])
    if args.digest:
        result = _digest(stream, to_host)
    else:
        result = _time(stream, to_host if args.arrays else _as_it_is)
    json.dump(result, sys.stdout)


def _as_it_is(column: Any) -> Any:
    return column


def _time(batches: Iterable[Mapping[str, Any]], hand_over: ToHost) -> dict[str, Any]:
    """CPU time of the batches after the first, with every column taken in hand."""
    iterator = iter(batches)
    first = _rows(next(iterator))
    before = cpu_seconds()
    timed = 0
    for batch in iterator:
        columns = [hand_over(column) for column in batch.values()]
        timed += len(columns[0])
    return {"records": first + timed, "timed": timed, "cpu_s": cpu_seconds() - before}


def _rows(batch: Mapping[str, Any]) -> int:
    counts = {len(column) for column in batch.values()}
    if len(counts) != 1:
        raise AssertionError(f"columns of different lengths: {counts}")
    return counts.pop()


def _digest(batches: Iterable[Mapping[str, Any]], to_host: ToHost) -> dict[str, Any]:
    """A digest of each column's values, bit by bit and in order, however they were batched."""
    digests: dict[str, Any] = {}
    records = 0
    for batch in batches:
        records += _rows(batch)
        for name, column in batch.items():
            host = to_host(column)
            if name not in digests:
                digests[name] = hashlib.blake2b(_type_of(host).encode(), digest_size=16)
            _add(digests[name], host)
    return {"records": records, "columns": {name: d.hexdigest() for name, d in digests.items()}}


def _type_of(host: Any) -> str:
    return "bytes" if isinstance(host, list) else f"{host.dtype} {host.shape[1:]}"


def _add(digest: Any, host: Any) -> None:
    if not isinstance(host, list):
        digest.update(host.tobytes())
        return
    for value in host:
        digest.update(len(value).to_bytes(8, "little") + value)
