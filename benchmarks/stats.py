"""What do the statistics cost? The processor time of the fastest path, with them and without."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import torchrec_io as tio
from benchmarks.common import arguments

_RECORDS = 25_600
_BATCH_SIZE = 256
_THREADS = (1, 2)


class _NoMeter:
    """Stands in for the meter of an iteration, and does nothing."""

    stored_bytes = 0
    samples_taken = 0

    def __init__(self, *_: Any) -> None: ...

    def begin(self) -> None: ...

    def resume(self) -> None: ...

    def pause(self, records: int = 0, batches: int = 0) -> None: ...

    def end(self) -> None: ...

    def in_thread(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def main() -> None:
    """Measure each case and print the ratio of the times."""
    parsed = arguments(__doc__, rounds=200).parse_args()
    print("| Threads | Without statistics | With statistics | Ratio |")
    print("| ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "scalars")
        schema = _write(path, int(_RECORDS * parsed.scale))
        for threads in _THREADS:
            dataset = tio.TFRecordDataset(path, schema, batch_size=_BATCH_SIZE, num_threads=threads)
            _compare(dataset, threads, parsed.rounds)


def _write(path: str, count: int) -> dict[str, Any]:
    """Write records of 40 scalars, and return their schema."""
    values = np.random.default_rng(0).random((count, 40), np.float32)
    with tio.TFRecordWriter(path) as writer:
        for row in values:
            writer.write({f"x{i}": value for i, value in enumerate(row)})
    return {f"x{i}": tio.FixedLenFeature([], "float32") for i in range(40)}


def _compare(dataset: Any, threads: int, rounds: int) -> None:
    without, having = _alternate(dataset, rounds)
    ratios = [each / other for each, other in zip(having, without, strict=True)]
    times = [f"{statistics.median(each) * 1000:.2f} ms" for each in (without, having)]
    print(f"| {threads} | {times[0]} | {times[1]} | {statistics.median(ratios):.4f} |")


def _alternate(dataset: Any, rounds: int) -> tuple[list[float], list[float]]:
    """Return the times of epochs without statistics and with them, in alternating order."""
    times: tuple[list[float], list[float]] = ([], [])
    for number, is_second in itertools.product(range(rounds), (False, True)):
        on = is_second != bool(number % 2)
        with contextlib.nullcontext() if on else _no_statistics():
            times[on].append(_seconds_of(dataset))
    return times


@contextlib.contextmanager
def _no_statistics() -> Iterator[None]:
    """Leave the statistics out, except for five readings of the clock in native code."""
    with mock.patch("torchrec_io._datasets.session.IterationMeter", _NoMeter):
        yield


def _seconds_of(dataset: Any) -> float:
    begin = time.process_time()
    for _ in dataset:
        pass
    return time.process_time() - begin


if __name__ == "__main__":
    main()
