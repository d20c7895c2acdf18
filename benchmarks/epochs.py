"""Memory over many epochs, of one process and of a process with two workers.

Resident memory is measured after each epoch. It must stay flat after some warm-up epochs.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import sys

import numpy as np
from torch.utils.data import DataLoader

import torchrec_io as tio
from benchmarks.common import MB, arguments, ensure_data, memory_of, run_child, table
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import BATCH_SIZE, WORKLOADS

_WARM_UP = 10
_MOST_GROWTH_MB = 5


def _iterate(num_workers: int, epochs: int) -> list[int]:
    """Return the resident memory of this process and its workers after each epoch, in bytes."""
    workload = WORKLOADS["tabular"]
    dataset = tio.TFRecordDataset(
        workload.files[:2], schema_of(workload), batch_size=BATCH_SIZE, shuffle=1_000
    )
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        multiprocessing_context="fork" if num_workers else None,
    )
    resident = []
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        records = sum(len(batch["label"]) for batch in loader)
        assert records == dataset.num_records, f"got {records} of {dataset.num_records} records"
        gc.collect()
        pids = [None, *(worker.pid for worker in multiprocessing.active_children())]
        resident.append(sum(memory_of(pid)["VmRSS"] for pid in pids))
    return resident


def main() -> None:
    """Print the table. Fail if memory grows."""
    parser = arguments(__doc__, rounds=1)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--workers", type=int, help="run as the measured process")
    args = parser.parse_args()
    if args.workers is not None:
        json.dump(_iterate(args.workers, args.epochs), sys.stdout)
        return

    ensure_data(["tabular"], args.scale)
    rows: list[list[object]] = []
    for workers in [0, 2] * args.rounds:
        options = ["--workers", str(workers), "--epochs", str(args.epochs)]
        resident = np.array(run_child("epochs", *options)) / MB
        later = resident[_WARM_UP:]
        slope = float(np.polyfit(np.arange(len(later)), later, 1)[0])
        growth = float(later[-1] - later[0])
        case = f"{workers} workers" if workers else "one process"
        cells = [f"{value:.1f}" for value in (resident[0], later[0], later[-1], growth)]
        rows.append([case, *cells, f"< {_MOST_GROWTH_MB}", f"{slope * 1000:+.0f}"])
        assert growth < _MOST_GROWTH_MB, f"{case}: memory grew by {growth:.1f} MB"
    headers = ["Processes", "After epoch 1, MB", f"After epoch {_WARM_UP + 1}, MB"]
    headers += [f"After epoch {args.epochs}, MB", f"Growth since epoch {_WARM_UP + 1}, MB"]
    headers += ["Target", "Slope, KB per epoch"]
    print(table(headers, rows))


if __name__ == "__main__":
    main()
