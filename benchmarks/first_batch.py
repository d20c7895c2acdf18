"""Time to the first batch of an indexed file, in fresh processes."""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time

from torch.utils.data import DataLoader

import torchrec_io as tio
from benchmarks.common import (
    BIG_FILE_BYTES,
    MB,
    arguments,
    child_environment,
    ensure_data,
    joined_file,
    run_child,
    spread,
    table,
)
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import BATCH_SIZE, WORKLOADS

_SMALL_FILE_BYTES = 19 * MB
_SHUFFLES: tuple[bool | int, ...] = (False, True, 10_000)
_TARGET_MS = 100
_IMPORT_TARGET_MS = 80
# Prints the milliseconds to import the package and to open a dataset, after PyTorch is imported.
_IMPORT = """
import sys, time
import torch
start = time.perf_counter()
import torchrec_io as tio
tio.TFRecordDataset(sys.argv[1], {"label": tio.FixedLenFeature([], "int64")}, batch_size=256)
print((time.perf_counter() - start) * 1e3)
"""


def _measure(path: str, shuffle: bool | int) -> dict[str, float]:
    """Return the milliseconds to open the dataset, and from ``iter()`` to the first batch."""
    schema = schema_of(WORKLOADS["tabular"])
    dataset_class = tio.TFRecordDataset  # imported before the clock starts
    # Python collects the 165,000 objects of PyTorch once in a process, at whatever allocates next.
    gc.collect()
    start = time.perf_counter()
    dataset = dataset_class(path, schema, batch_size=BATCH_SIZE, shuffle=shuffle)
    opened = time.perf_counter()
    batch = next(iter(DataLoader(dataset, batch_size=None, num_workers=0)))
    end = time.perf_counter()
    assert len(batch["label"]) == BATCH_SIZE
    return {"open": (opened - start) * 1e3, "first": (end - opened) * 1e3}


def _rows(path: str, name: str, rounds: int) -> list[list[object]]:
    """Return the rows of the table for one file."""
    found: dict[bool | int, list[dict[str, float]]] = {shuffle: [] for shuffle in _SHUFFLES}
    with tempfile.TemporaryDirectory() as cache:
        _run(path, False, cache)  # builds the index
        for _ in range(rounds):
            for shuffle in _SHUFFLES:
                found[shuffle].append(_run(path, shuffle, cache))
    return [
        [
            name,
            f"{shuffle:,}" if shuffle > 1 else shuffle,
            spread([times["first"] for times in of], 1),
            f"< {_TARGET_MS}",
            f"{statistics.median(times['open'] for times in of):.1f}",
        ]
        for shuffle, of in found.items()
    ]


def _import_times(path: str, rounds: int) -> list[float]:
    """Return the milliseconds of each round, in fresh processes; the first one builds the index."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**child_environment(), "TORCHREC_IO_CACHE": cache}
        command = [sys.executable, "-c", _IMPORT, path]
        times = [
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
            for _ in range(rounds + 1)
        ]
    return times[1:]


def _run(path: str, shuffle: bool | int, cache: str) -> dict[str, float]:
    options = ["--path", path, "--shuffle", json.dumps(shuffle)]
    times: dict[str, float] = run_child("first_batch", *options, TORCHREC_IO_CACHE=cache)
    return times


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--keep", action="store_true", help="do not remove the concatenated files")
    parser.add_argument("--path", help="run as the measured process, on this file")
    parser.add_argument("--shuffle", type=json.loads, default=False, help="shuffle of that process")
    args = parser.parse_args()
    if args.path:
        json.dump(_measure(args.path, args.shuffle), sys.stdout)
        return

    ensure_data(["tabular"], args.scale)
    with joined_file(_SMALL_FILE_BYTES, keep=args.keep) as path:
        imports = _import_times(path, args.rounds)
        rows = _rows(path, "19 MB", args.rounds)
    with joined_file(BIG_FILE_BYTES, keep=args.keep) as path:
        rows += _rows(path, "2 GB", args.rounds)
    headers = ["File size", "`shuffle`", "First batch, ms", "Target, ms", "Opening the dataset, ms"]
    print(table(headers, rows))
    print(
        f"\nImporting the package and opening the file of 19 MB takes {spread(imports, 0)} ms "
        f"beyond `import torch` (target: < {_IMPORT_TARGET_MS} ms)."
    )


if __name__ == "__main__":
    main()
