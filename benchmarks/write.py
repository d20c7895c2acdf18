"""Speed of writing records, compared with TensorFlow's writer and with a plain file."""

from __future__ import annotations

import filecmp
import os
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import torchrec_io as tio
from benchmarks.common import MB, arguments, run_child, spread, table, tensorflow_python
from benchmarks.workloads import data_dir
from benchmarks.write_values import cpu_of_writing, examples_to_write
from torchrec_io import _core

_BYTES = 100 * MB
_TARGET_OF_TENSORFLOW = 10.0
_TARGETS_OF_PLAIN = {1_000: "", 100_000: "0.7", 1_000_000: ""}


def _write(records: list[Any], **options: Any) -> Callable[[str], None]:
    def work(path: str) -> None:
        with tio.TFRecordWriter(path, **options) as writer:
            for record in records:
                writer.write(record)

    return work


def _write_plainly(frames: list[bytes]) -> Callable[[str], None]:
    def work(path: str) -> None:
        with open(path, "wb") as file:
            for frame in frames:  # noqa: FURB122  # as a program that gets them one by one
                file.write(frame)

    return work


def _examples(folder: str, rounds: int) -> list[list[object]]:
    examples = examples_to_write()
    path = f"{folder}/ours"
    ways = {"": _write(examples), ", with an index": _write(examples, index=True)}
    theirs: list[float] = []
    ours: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, work in ways.items():
            ours[way].append(cpu_of_writing(work, path) / len(examples) * 1e6)
        peer = run_child("peer_write", path, f"{folder}/theirs", python=tensorflow_python())
        theirs.append(peer)
    rows: list[list[object]] = []
    for way, times in ours.items():
        ratios = [a / b for a, b in zip(theirs, times, strict=True)]
        tensorflow = f"{statistics.median(theirs):.1f}"
        row = [f"dicts of 40 scalars{way}", tensorflow, spread(times), spread(ratios, 1)]
        rows.append([*row, _TARGET_OF_TENSORFLOW])
    return rows


def _bytes(folder: str, size: int, rounds: int) -> list[object]:
    records = [os.urandom(size) for _ in range(_BYTES // size)]
    frames = [_core.frame_records([record])[0].tobytes() for record in records]
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(cpu_of_writing(_write_plainly(frames), f"{folder}/theirs"))
        ours.append(cpu_of_writing(_write(records), f"{folder}/ours"))
        assert filecmp.cmp(f"{folder}/theirs", f"{folder}/ours", shallow=False)
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    speeds = [[_BYTES / 1e9 / seconds for seconds in times] for times in (theirs, ours)]
    return [f"{size:,} bytes", *map(spread, speeds), spread(ratios), _TARGETS_OF_PLAIN[size]]


def main() -> None:
    """Print the tables."""
    args = arguments(__doc__).parse_args()
    # Plain files and TensorFlow's writer do not wait for the disk.
    os.fsync = os.fstat  # type: ignore[assignment]
    data_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data_dir()) as folder:
        headers = ["Records", "TensorFlow, µs", "torchrec_io, µs", "Ratio", "Target"]
        print(table(headers, _examples(folder, args.rounds)))
        headers = ["Size of a record", "Plain file, GB/s", "torchrec_io, GB/s", "Ratio", "Target"]
        rows = [_bytes(folder, size, args.rounds) for size in _TARGETS_OF_PLAIN]
        print(f"\n{table(headers, rows)}")


if __name__ == "__main__":
    main()
