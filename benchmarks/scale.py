"""Costs that may grow with the data: 100,000 files, 10^10 records, 1,024 ranks, a uniform shuffle.

Memory is the peak of resident memory minus the resident memory after the imports. As in
``memory.py``, it includes the pages of index files that were read.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchrec_io as tio
from benchmarks.common import MB, arguments, ensure_data, memory_of, run_child, spread, table
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import BATCH_SIZE, WORKLOADS
from torchrec_io import _core
from torchrec_io._datasets.partition import EpochPartition
from torchrec_io._order.progress import Progress
from torchrec_io._order.shuffle import ShuffleChoice, records_at
from torchrec_io._records.formats import TFRECORD
from torchrec_io._records.index_file import SUFFIX
from torchrec_io._storage.local import LocalFile

_FILES = 100_000
_MOST_LINKS = 50_000  # of one file; file systems allow few more
_RANKS = 1_024
_RECORDS_OF_A_FILE = 100_000
_FRAME_BYTES = 623
_SHUFFLES: dict[str, ShuffleChoice] = {
    "False": False,
    "True": True,
    "10,000": 10_000,
    "Shuffle(block=1000, window=10000)": tio.Shuffle(block=1000, window=10_000),
}
_SIZES = (2_000_000, 1_000_000_000, 2**30 + 1)
_PERMUTED_AT_ONCE = 1 << 18

_MOST_PLANNING_MS = 1
_MOST_MB = 300
_MOST_OPENING_S = 5
_MOST_DESCRIPTORS = 10
_LEAST_MILLION_PERMUTED = 20
_LEAST_RATIO = 0.5

_Row = list[object]


# ---- many files ----


def _make_files(folder: Path) -> None:
    """Create sparse files and their indexes, each with many hard links to both."""
    for begin in range(0, _FILES, _MOST_LINKS):
        _make_links(folder, range(begin, min(begin + _MOST_LINKS, _FILES)))


def _make_links(folder: Path, numbers: range) -> None:
    first = folder / f"{numbers[0]:06}.tfrecord"
    with open(first, "wb") as file:
        file.truncate(_RECORDS_OF_A_FILE * _FRAME_BYTES)
    data = LocalFile(first)
    header = _core.IndexHeader(
        format=0,
        compression=_core.Compression.none,
        data_bytes=data.stamp.size,
        data_mtime_ns=data.stamp.mtime_ns,
        data_fingerprint=TFRECORD.fingerprint(data, data.stamp.size),
        stream_end=data.stamp.size,
    )
    starts = np.arange(_RECORDS_OF_A_FILE, dtype=np.uint64) * np.uint64(_FRAME_BYTES)
    seek_points = np.empty(0, np.uint8)
    index = _core.encode_index(header, starts, [], seek_points)
    (folder / (first.name + SUFFIX)).write_bytes(index)
    for number in numbers[1:]:
        name = folder / f"{number:06}.tfrecord"
        os.link(first, name)
        os.link(f"{first}{SUFFIX}", f"{name}{SUFFIX}")


def _open_many(folder: str, shuffle: str) -> dict[str, float]:
    """Open the files and plan a batch. Return seconds, bytes and open descriptors."""
    dataset_class = tio.TFRecordDataset  # imported before the clock starts
    at_start = memory_of()["VmRSS"]
    descriptors = _descriptors()
    start = time.perf_counter()
    dataset = dataset_class(
        folder, batch_size=BATCH_SIZE, shuffle=_SHUFFLES[shuffle], uneven="drop"
    )
    opened = time.perf_counter()
    # Only plan batches: these files contain no records to read.
    pipeline = dataset._session.pipeline
    planning = []
    for rank in range(0, _RANKS, _RANKS // 16):
        start_planning = time.perf_counter()
        partition = EpochPartition(pipeline.order, pipeline.options, rank, _RANKS)
        _, numbers = next(partition.batches(pipeline.loader.reader, Progress(), partition.layout()))
        planning.append(time.perf_counter() - start_planning)
        assert len(numbers) == BATCH_SIZE
    start_finding = time.perf_counter()
    plan = pipeline.loader.reader.plan(numbers)
    end = time.perf_counter()
    assert len(plan.numbers) == BATCH_SIZE
    assert dataset.num_records == _FILES * _RECORDS_OF_A_FILE
    return {
        "open": opened - start,
        "plan": statistics.median(planning),
        "find": end - start_finding,
        "memory": memory_of()["VmHWM"] - at_start,
        "descriptors": _descriptors() - descriptors,
    }


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _many_files(rounds: int) -> list[_Row]:
    rows: list[_Row] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHREC_IO_CACHE"] = str(Path(folder, "cache"))
        _make_files(Path(folder))
        first = run_child("scale", "--open", folder, "--shuffle", "False")
        rows.append(["first opening, without what the cache knows, s", f"{first['open']:.1f}", ""])
        for name in _SHUFFLES:
            runs = [run_child("scale", "--open", folder, "--shuffle", name) for _ in range(rounds)]

            def of(key: str, unit: float, digits: int, runs: list[Any] = runs) -> str:
                return spread([run[key] / unit for run in runs], digits)

            case = f"shuffle={name}"
            rows += [
                [f"{case}: opening, s", of("open", 1, 2), f"< {_MOST_OPENING_S}"],
                [
                    f"{case}: open descriptors",
                    of("descriptors", 1, 0),
                    f"< {_MOST_DESCRIPTORS}",
                ],
                [
                    f"{case}: planning a batch of a rank, ms",
                    of("plan", 1e-3, 2),
                    f"< {_MOST_PLANNING_MS}",
                ],
                [f"{case}: finding its records in the first indexes, ms", of("find", 1e-3, 1), ""],
                [f"{case}: peak memory, MB", of("memory", MB, 0), f"< {_MOST_MB}"],
            ]
    return rows


# ---- the permutation ----


def _permuting(rounds: int) -> list[_Row]:
    rows: list[_Row] = []
    for size in _SIZES:
        positions = np.arange(min(size, _PERMUTED_AT_ONCE), dtype=np.int64)
        speeds = []
        for epoch in range(rounds):
            start = time.process_time()
            numbers = records_at(positions, size, shuffle=True, seed=0, epoch=epoch)
            speeds.append(len(numbers) / (time.process_time() - start) / 1e6)
        assert len(np.unique(numbers)) == len(positions)
        assert numbers.max() < size
        bar = f"> {_LEAST_MILLION_PERMUTED}"
        rows.append([f"uniform, of {size:,}: million numbers/s", spread(speeds, 0), bar])
    return rows


# ---- shuffled epochs ----


def _epoch(dataset: tio.TFRecordDataset) -> tuple[float, float]:
    """Return the CPU and wall seconds of an epoch."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in dataset:
        pass
    return time.process_time() - cpu, time.perf_counter() - wall


def _digest(dataset: tio.TFRecordDataset) -> tuple[int, int]:
    """Return the number of records of an epoch, and a digest that ignores their order."""
    count = total = 0
    for batch in dataset:
        rows = [column.contiguous().view(len(column), -1) for column in batch.values()]
        flat = torch.cat([row.view(torch.uint8) for row in rows], dim=1)
        total += sum(hash(record.tobytes()) for record in flat.numpy())
        count += len(flat)
    return count, total


def _shuffled(rounds: int) -> list[_Row]:
    workload = WORKLOADS["tabular"]
    rows: list[_Row] = []
    for threads in (1, 2):
        datasets = {
            name: tio.TFRecordDataset(
                workload.files,
                schema_of(workload),
                batch_size=BATCH_SIZE,
                shuffle=shuffle,
                num_threads=threads,
            )
            for name, shuffle in _SHUFFLES.items()
        }
        # This also warms up.
        digests = {name: _digest(dataset) for name, dataset in datasets.items()}
        assert set(digests.values()) == {digests["False"]}
        assert digests["False"][0] == datasets["False"].num_records
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in datasets}
        for epoch in range(rounds):
            for name, dataset in datasets.items():
                dataset.set_epoch(epoch)
                found[name].append(_epoch(dataset))
        rows += _speeds(threads, digests["False"][0], found)
    return rows


def _speeds(threads: int, records: int, found: dict[str, list[tuple[float, float]]]) -> list[_Row]:
    rows: list[_Row] = []
    for name, times in found.items():
        wall = statistics.median(wall for _, wall in times)
        ratios = [
            [plain[which] / own[which] for plain, own in zip(found["False"], times, strict=True)]
            for which in (0, 1)
        ]
        by_cpu, by_wall = (spread(of) for of in ratios)
        bar = f"> {_LEAST_RATIO}" if name == "True" else ""
        rows.append([threads, name, f"{records / wall / 1e3:,.0f}", by_wall, by_cpu, bar])
    return rows


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--open", metavar="FOLDER", help="run as the process that opens many files")
    parser.add_argument("--shuffle", choices=list(_SHUFFLES), help="shuffle of that process")
    args = parser.parse_args()
    if args.open:
        json.dump(_open_many(args.open, args.shuffle), sys.stdout)
        return

    ensure_data(["tabular"], args.scale)
    torch.set_num_threads(1)
    print(
        table(
            ["10^10 records in 100,000 files, 1,024 ranks", "Value", "Target"],
            _many_files(args.rounds),
        )
    )
    print()
    print(table(["Permutation", "Value", "Target"], _permuting(args.rounds)))
    print()
    headers = ["Threads", "`shuffle`", "Thousand records/s"]
    headers += ["Speed relative to shuffle=False", "Relative speed in CPU time", "Target"]
    print(table(headers, _shuffled(args.rounds)))


if __name__ == "__main__":
    main()
