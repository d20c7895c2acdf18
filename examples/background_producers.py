"""Background producers that stop together and report what went wrong, without a Coordinator.

    python examples/background_producers.py [FOLDER]

Whoever prepared records in enqueue threads gives the dataset a function, which its threads call.
Producers that read no records, as a simulation, are an `IterableDataset` in DataLoader's workers.
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
    """What an enqueue thread did to each record. It refuses one of them."""
    number = int(record)
    if number == 37:
        raise ValueError(f"{number} is no good")
    return number


class Dice(IterableDataset[int]):
    """Rolls without end, a producer in each worker; one of them can fail on the way."""

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
    """Batches of rolls from two workers."""
    return DataLoader(Dice(fails=fails), batch_size=8, num_workers=2, collate_fn=list)


def take(batches: Iterable[Any], most: int) -> tuple[list[int], Exception | None]:
    """Numbers, until there are so many, and the exception that came in place of a batch."""
    numbers: list[int] = []
    try:
        for batch in batches:
            numbers += batch
            if len(numbers) >= most:
                break  # as coord.request_stop(), and coord.join()
    except (tio.DecodeError, ValueError) as error:
        print(f"{len(numbers)} numbers, then {str(error).splitlines()[-1]}")
        return numbers, error.with_traceback(None)
    print(f"{len(numbers)} numbers")
    return numbers, None


def main(folder: Path) -> None:
    """Leaves a loop early and fails in one, with threads and with workers."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "numbers.tfrecord"
    with tio.TFRecordWriter(path, index=True) as writer:
        for number in range(64):
            writer.write(str(number).encode())

    dataset = tio.TFRecordDataset(path, read_number, batch_size=8, num_threads=3)
    assert take(dataset, most=16) == (list(range(16)), None)
    numbers, error = take(dataset, most=64)
    assert numbers == list(range(32)), "all batches before the one that fails"
    assert isinstance(error, tio.DecodeError)
    assert (error.record, str(error.__cause__)) == (37, "37 is no good")
    # Leaving a loop, in whichever way, waits for its threads.
    assert "torchrec_io" not in [thread.name for thread in threading.enumerate()]

    numbers, error = take(roll(fails=False), most=80)
    assert (len(numbers), error) == (80, None)
    numbers, error = take(roll(fails=True), most=10_000)
    assert len(numbers) < 10_000
    assert "a die fell off the table" in str(error)
    gc.collect()  # after an exception DataLoader's workers end when its iterator is collected
    assert not multiprocessing.active_children()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
