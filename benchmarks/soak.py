"""A soak test: many ways to read data at the same time as faults, for an hour.

After each round over all cases, memory, descriptors, threads and shared memory are measured. They
must stay flat after some warm-up rounds. ``soak_cases.py`` has the cases.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import re
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.common import MB, memory_of, table
from benchmarks.soak_cases import Cases

_MOST_GROWTH_MB = 8
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # only listed
_NAME_OF_PYTORCH = re.compile(r"torch_(\d+)_")  # the number is the process that made the file
_SECONDS_TO_SETTLE = 5
_MIN_ROUNDS = 8  # for a statement about growth

_log = logging.getLogger("benchmarks.soak")


class Use(NamedTuple):
    """Resources that this process uses between two rounds.

    Attributes:
        memory: Resident memory in bytes.
        descriptors: Number of open files.
        threads: Number of threads, also of native code.
        shared_files: Number of mapped files of ``/dev/shm``, and of files there that this process
            or its workers have left.
        shared_slots: Number of mapped slots of workers.
    """

    memory: int
    descriptors: int
    threads: int
    shared_files: int
    shared_slots: int


def measure(pids: set[int]) -> Use:
    """Measure the resources of this process.

    Args:
        pids: Process ids of this process and of all its workers so far.
    """
    gc.collect()
    names = os.listdir(_SHARED_MEMORY) if _SHARED_MEMORY.is_dir() else []
    made = [found for found in map(_NAME_OF_PYTORCH.match, names) if found is not None]
    ours = [found for found in made if int(found[1]) in pids]
    maps = Path("/proc/self/maps").read_text("ascii", "replace")
    files, slots = maps.count(f" {_SHARED_MEMORY}/"), maps.count("memfd:torchrec_io_slot")
    memory = memory_of()["VmRSS"]
    descriptors = len(os.listdir("/proc/self/fd"))
    return Use(memory, descriptors, len(os.listdir("/proc/self/task")), files + len(ours), slots)


def settle(pids: set[int], threads: int) -> Use:
    """Measure once threads of PyTorch that outlive a loop for a moment have ended.

    Args:
        pids: Process ids of this process and of all its workers so far.
        threads: Number of threads to wait for, for some seconds.
    """
    end = time.monotonic() + _SECONDS_TO_SETTLE
    use = measure(pids)
    while (use.shared_files or use.threads > threads) and time.monotonic() < end:
        time.sleep(0.1)
        use = measure(pids)
    return use


def run(minutes: float, seed: int, folder: Path) -> tuple[Cases, list[Use]]:
    """Run rounds over all cases until the time is over, at least two, and measure after each."""
    cases = Cases(folder, seed)
    cases.pids.add(os.getpid())
    uses: list[Use] = []
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end or len(uses) < 2:
        for case in cases.all():
            case()
        uses.append(settle(cases.pids, min([use.threads for use in uses], default=1)))
        _log.info("round %d: %d records, %s", len(uses), cases.records, uses[-1])
    return cases, uses


def check(uses: list[Use]) -> list[list[object]]:
    """Check that the use of resources is flat, and return the rows of the table."""
    warm = uses[max(1, len(uses) // 5) :]
    quarter = max(1, len(warm) // 4)
    rows: list[list[object]] = []
    for name in Use._fields:
        values = [getattr(use, name) / (MB if name == "memory" else 1) for use in warm]
        first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        limit = _MOST_GROWTH_MB if name == "memory" else 0
        digits = 1 if name == "memory" else 0
        cells = [f"{value:.{digits}f}" for value in (first, last, max(values))]
        rows.append([name.replace("_", " ") + (", MB" if name == "memory" else ""), *cells, limit])
        if len(uses) >= _MIN_ROUNDS:
            assert last - first <= limit, f"{name} grew from {first} to {last}: {values}"
    assert not uses[-1].shared_files, "files were left in /dev/shm"
    return rows


def main() -> None:
    """Run the soak test and print its tables. Fail if a record is lost or a resource grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="duration")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of the cases")
    parser.add_argument("--verbose", action="store_true", help="print a line for each round")
    args = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("torchrec_io").setLevel(logging.ERROR)  # faults are logged
    _log.setLevel(logging.INFO if args.verbose else logging.ERROR)
    # Leaked descriptors meet a limit soon.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, most), most))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHREC_IO_CACHE"] = os.path.join(folder, "cache")
        start = time.monotonic()
        cases, uses = run(args.minutes, args.seed, Path(folder))
    minutes = (time.monotonic() - start) / 60
    print(
        f"{minutes:.1f} minutes, {len(uses)} rounds, {cases.records:,} records, all accounted for; "
        f"{len(cases.pids) - 1:,} worker processes\n"
    )
    print(table(["Fault", "Times injected"], sorted(cases.faults.items())))
    print()
    headers = ["Resource", "First quarter", "Last quarter", "Maximum", "Most growth allowed"]
    print(table(headers, check(uses)))


if __name__ == "__main__":
    main()
