"""Speed of building an index, compared with a plain reading loop and with ``read()``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks.common import arguments, ensure_data, spread, table, walk_frames, warm
from benchmarks.workloads import WORKLOADS
from torchrec_io import RecordIndex

_TARGET = 3.0  # million records/s


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """Print the table."""
    args = arguments(__doc__).parse_args()
    ensure_data(["tabular"], args.scale)
    files = WORKLOADS["tabular"].files

    expected = [walk_frames(path) for path in files]
    assert [RecordIndex.build(path).offsets.tolist() for path in files] == expected
    records = sum(map(len, expected))
    size = warm(files)

    ways: dict[str, Callable[[], object]] = {
        "read() of the same bytes": lambda: warm(files),
        "`RecordIndex.build`": lambda: [RecordIndex.build(path) for path in files],
        "plain Python loop": lambda: [walk_frames(path) for path in files],
    }
    seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, work in ways.items():
            seconds[way].append(_timed(work))

    reading = [cpu for cpu, _ in seconds["read() of the same bytes"]]
    rows = []
    for way, times in seconds.items():
        cpu = [cpu for cpu, _ in times]
        wall = [wall for _, wall in times]
        rows.append(
            [
                way,
                spread([records / s / 1e6 for s in cpu]),
                f"{records / statistics.median(wall) / 1e6:.2f}",
                f"{size / statistics.median(cpu) / 1e9:.2f}",
                f"{statistics.median(r / s for r, s in zip(reading, cpu, strict=True)):.2f}",
                _TARGET if "build" in way else "",
            ]
        )
    headers = [
        "Method",
        "Million records per CPU-second",
        "Million records/s",
        "GB per CPU-second",
        "Speed relative to read()",
        "Target",
    ]
    print(table(headers, rows))


if __name__ == "__main__":
    main()
