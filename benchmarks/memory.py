"""Memory of an epoch over a shuffled file of 2 GB, in one process and in DataLoader workers.

The growth is the peak of resident memory minus the resident memory after the imports, or at the
start of a worker. Resident memory includes all pages that a process maps: also those of the index
file and those shared with other processes.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile

import torch

import torchrec_io as tio
from benchmarks.common import (
    BIG_FILE_BYTES,
    MB,
    arguments,
    ensure_data,
    joined_file,
    memory_of,
    run_child,
    table,
)
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import BATCH_SIZE, WORKLOADS

_SHUFFLE = 10_000
_TARGET_MB = 300
_PARTS = ("RssAnon", "RssFile", "RssShmem")


def _iterate(path: str, num_workers: int) -> list[dict[str, int]]:
    """Read one epoch. Return the memory of this process and of each worker, in bytes."""
    at_start = memory_of()["VmRSS"]
    workers_at_start = multiprocessing.RawArray("q", num_workers)

    def note_start(worker: int) -> None:
        workers_at_start[worker] = memory_of()["VmRSS"]

    dataset = tio.TFRecordDataset(
        path, schema_of(WORKLOADS["tabular"]), batch_size=BATCH_SIZE, shuffle=_SHUFFLE
    )
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=None,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,  # their memory is measured afterwards
        multiprocessing_context="fork" if num_workers else None,
        worker_init_fn=note_start,
    )
    records = sum(len(batch["label"]) for batch in loader)
    assert records == dataset.num_records, f"got {records} of {dataset.num_records} records"
    pids = sorted(process.pid or 0 for process in multiprocessing.active_children())
    workers = [memory_of(pid) for pid in pids]
    return [
        {"at_start": start, **memory}
        for start, memory in zip(
            [at_start, *workers_at_start], [memory_of(), *workers], strict=True
        )
    ]


def _rows(case: str, path: str, num_workers: int, cache: str) -> list[list[object]]:
    """Return the rows of the table, one for each process."""
    processes = run_child(
        "memory", "--iterate", path, "--workers", str(num_workers), TORCHREC_IO_CACHE=cache
    )
    rows: list[list[object]] = []
    for number, memory in enumerate(processes):
        process = f"worker {number - 1}" if number else "main process"
        peak, start = memory["VmHWM"], memory["at_start"]
        parts = " / ".join(f"{memory[part] / MB:.0f}" for part in _PARTS)
        cells = [f"{size / MB:.0f}" for size in (start, peak, peak - start)]
        rows.append([f"{case}: {process}", *cells, f"< {_TARGET_MB}", parts])
    return rows


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, rounds=1)
    parser.add_argument("--keep", action="store_true", help="do not remove the 2 GB file")
    parser.add_argument("--iterate", metavar="PATH", help="run as the measured process")
    parser.add_argument("--workers", type=int, default=0, help="number of workers of that process")
    args = parser.parse_args()
    if args.iterate:
        json.dump(_iterate(args.iterate, args.workers), sys.stdout)
        return

    ensure_data(["tabular"], args.scale)
    rows = []
    with joined_file(BIG_FILE_BYTES, keep=args.keep) as path:
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as cache:
                rows += _rows("no index", path, 0, cache)
                rows += _rows("indexed", path, 0, cache)
                rows += _rows("indexed, 2 workers", path, 2, cache)
    headers = [
        "Case and process",
        "At the start, MB",
        "Peak, MB",
        "Growth, MB",
        "Target",
        "At the end: anonymous / file / shared, MB",
    ]
    print(table(headers, rows))


if __name__ == "__main__":
    main()
