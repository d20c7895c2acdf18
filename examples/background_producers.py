"""Run background producers that stop together and report errors, without a Coordinator.

    python examples/background_producers.py [FOLDER]

To prepare records in threads, pass a function to the dataset: its threads call the function. To
generate records, for example in a simulation, run an `IterableDataset` in DataLoader workers.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import torchrec_io as tio


def read_number(record: bytes) -> int:
    """Parse a record, as an enqueue thread would do. Record 37 raises an error."""
    number = int(record)
    if number == 37:
        raise ValueError(f"{number} is no good")
    return number


class Dice(IterableDataset[int]):
    """Rolls of a die without end. Each worker is a producer, and one of them can fail."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        assert worker is not None
        random = np.random.default_rng(worker.seed)  # each worker has its own
        for number in range(1_000_000):
            if self.fails and worker.id == 1 and number == 20:
                raise ValueError("a die fell off the table")
            yield int(random.integers(1, 7))


def roll(*, fails: bool) -> DataLoader[int]:
    """Return a loader of batches of rolls from two workers."""
    return DataLoader(Dice(fails=fails), batch_size=8, num_workers=2, collate_fn=list)


def take(batches: Iterable[Any], most: int) -> tuple[list[int], Exception | None]:
    """Return at least ``most`` numbers, or fewer and the exception that ended the loop."""
    numbers: list[int] = []
    try:
        for batch in batches:
            numbers += batch
            if len(numbers) >= most:
                break  # replaces coord.request_stop() and coord.join()
    except (tio.DecodeError, ValueError) as error:
        print(f"{len(numbers)} numbers, then {str(error).splitlines()[-1]}")
        return numbers, error.with_traceback(None)
    print(f"{len(numbers)} numbers")
    return numbers, None


def main(folder: Path) -> None:
    """Leave loops early, and let loops fail, with threads and with workers."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "numbers.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        for number in range(64):
            writer.write(str(number).encode())

    dataset = tio.TFRecordDataset(path, read_number, batch_size=8, num_threads=3)
    assert take(dataset, most=16) == (list(range(16)), None)
    numbers, error = take(dataset, most=64)
    assert numbers == list(range(32)), "all batches before the failure must be yielded"
    assert isinstance(error, tio.DecodeError)
    assert (error.record, str(error.__cause__)) == (37, "37 is no good")
    # A loop that ends, for whatever reason, waits for its threads.
    assert "torchrec_io" not in [thread.name for thread in threading.enumerate()]

    numbers, error = take(roll(fails=False), most=80)
    assert (len(numbers), error) == (80, None)
    numbers, error = take(roll(fails=True), most=10_000)
    assert len(numbers) < 10_000
    assert "a die fell off the table" in str(error)
    gc.collect()  # after an exception, workers end when DataLoader's iterator is collected
    assert not multiprocessing.active_children()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
