"""Speed of reading and of jobs on Ray, on the two CPUs of one machine.

python -m benchmarks.cluster [--scale 0.2] [--rounds 3]

CPU time is that of the driver and of all processes of Ray together.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torchrec_io as tio
from benchmarks.common import (
    MB,
    arguments,
    ensure_data,
    run_child,
    spread,
    table,
    warm,
)
from benchmarks.peers.venvs import SetupError, python_of
from benchmarks.workloads import WORKLOADS, data_dir
from torchrec_io._records.verify import verify_file

_READS = ("tabular", "jpeg")
# Number of files that the peer reads, and names of each file that we read: tasks must take longer
# than their start.
_PEER_FILES = {"tabular": 1, "jpeg": 4}
_NAMES = {"tabular": 16, "jpeg": 24}
_MIN_SPEEDUP = 5
_MIN_JOB_SPEED = 0.7
_JOB_BYTES = 1_600 * MB
_JOB_FILES = 8
_JOB_NAMES = 8  # names of each file, so that jobs take long enough


def _schema(name: str) -> dict[str, Any]:
    """Return the features of a workload; images stay bytes."""
    dtypes = {"jpeg": "string", "raw": "string"}
    return {
        feature: tio.FixedLenFeature([], dtypes.get(column.kind, column.kind))
        for feature, column in WORKLOADS[name].columns.items()
    }


def _linked(paths: Sequence[str], folder: Path, names: int) -> list[str]:
    """Give files several new names each, and return all of these."""
    found = []
    for path in paths:
        for number in range(names):
            found.append(str(folder / f"{number}-{os.path.basename(path)}"))
            os.link(path, found[-1])
    return found


# ---- reading ----


def _read(name: str, rounds: int) -> None:
    """Print the measurements of our reading, in a fresh process."""
    from benchmarks.ray_session import measure_reads  # noqa: PLC0415  # imports Ray

    schema = _schema(name)
    with tempfile.TemporaryDirectory(dir=data_dir()) as folder:
        paths = _linked(WORKLOADS[name].files, Path(folder), _NAMES[name])
        found = measure_reads(
            lambda paths: tio.cluster.read_tfrecords(paths, schema), paths, rounds
        )
    print(json.dumps(found))


def _reads(rounds: int) -> list[list[object]]:
    """Return the rows of the table of reading."""
    rows: list[list[object]] = []
    try:
        peer = python_of("ray_data")
    except SetupError as error:
        return [[f"ray.data.read_tfrecords cannot be installed: {error}", *[""] * 4]]
    for name in _READS:
        records = WORKLOADS[name].made_records
        ours = run_child("cluster", "--read", name, "--rounds", str(rounds))
        # Ray Data takes minutes for all files.
        few = WORKLOADS[name].files[: _PEER_FILES[name]]
        theirs = run_child("peer_cluster", str(rounds), *few, python=peer)
        fewer = records * len(few) // len(WORKLOADS[name].files)
        records *= _NAMES[name]
        assert (ours["records"], theirs["records"]) == ([records], [fewer])
        assert ours["digest"] == theirs["digest"], f"{name}: other values"
        speeds = [
            [count / cpu for cpu, _ in side["times"]]
            for side, count in ((theirs, fewer), (ours, records))
        ]
        rows.append(
            [
                f"`{name}`" + (", images as bytes" if name == "jpeg" else ""),
                *(spread(speed, 0) for speed in speeds),
                f"{max(speeds[1]) / max(speeds[0]):.1f}",
                f"> {_MIN_SPEEDUP}",
            ]
        )
    return rows


# ---- jobs ----


def _make_files(folder: Path, count: int, size: int) -> list[str]:
    """Write files of tabular records."""
    source = b"".join(Path(path).read_bytes() for path in WORKLOADS["tabular"].files)
    paths = []
    for number in range(count):
        path = folder / f"data-{number:05d}-of-{count:05d}"
        with path.open("wb") as file:
            for _ in range(max(1, size // len(source))):
                file.write(source)
        paths.append(str(path))
    warm(paths)
    return paths


def _in_threads(work: Callable[[str], object], paths: Sequence[str]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, paths))


def _build_index(path: str) -> None:
    tio.RecordIndex.build(path).save()


def _jobs(rounds: int) -> None:
    """Print the times of jobs on one machine and on Ray, in a fresh process."""
    from benchmarks.ray_session import ray_session, timed  # noqa: PLC0415  # imports Ray

    with tempfile.TemporaryDirectory(dir=data_dir()) as name, ray_session():
        folder = Path(name)
        paths = _make_files(folder, _JOB_FILES, _JOB_BYTES // _JOB_FILES)
        paths = _linked(paths, folder, _JOB_NAMES)
        jobs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "index": (
                lambda: _in_threads(_build_index, paths),
                lambda: tio.cluster.index(paths, force=True),
            ),
            "verify": (
                lambda: _in_threads(verify_file, paths),
                lambda: tio.cluster.verify(paths),
            ),
        }
        found: dict[str, Any] = {}
        for job, ways in jobs.items():
            for work in ways:
                work()
            size = sum(map(os.path.getsize, paths))
            found[job] = size, [[timed(work) for work in ways] for _ in range(rounds)]
        reports = tio.cluster.verify(paths)
        assert reports == [verify_file(path) for path in paths]
        print(json.dumps(found))


def _job_rows(rounds: int) -> list[list[object]]:
    found = run_child("cluster", "--jobs", "--rounds", str(rounds))
    rows: list[list[object]] = []
    for job, (size, times) in found.items():
        for clock, name in enumerate(("CPU", "wall clock")):
            speeds = [[size / way[clock] / MB for way in round_] for round_ in times]
            best = [min(round_[way][clock] for round_ in times) for way in (0, 1)]
            rows.append(
                [
                    f"`{job}`, {name}",
                    *(spread([speed[way] for speed in speeds], 0) for way in (0, 1)),
                    f"{best[0] / best[1]:.2f}",
                    f"> {_MIN_JOB_SPEED}",
                ]
            )
    return rows


def _print_tables(scale: float, rounds: int) -> None:
    ensure_data(_READS, scale)
    headers = ["Workload", "`ray.data.read_tfrecords`, records per CPU-second"]
    headers += ["`read_tfrecords`, records per CPU-second", "Ratio", "Target"]
    print(table(headers, _reads(rounds)), flush=True)
    headers = ["Job, and time", "One machine, MB per second", "Ray, MB per second"]
    headers += ["Speed relative to one machine", "Target"]
    print("\n" + table(headers, _job_rows(rounds)), flush=True)


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--read", help="measure our reading of a workload")
    parser.add_argument("--jobs", action="store_true", help="measure jobs")
    args = parser.parse_args()
    if args.read:
        _read(args.read, args.rounds)
    elif args.jobs:
        _jobs(args.rounds)
    else:
        _print_tables(args.scale, args.rounds)


if __name__ == "__main__":
    main()
