"""TFDS's side of ``tfds.py``. Needs a Python that has tensorflow-datasets.

Prints the CPU and wall seconds of each epoch.
"""

from __future__ import annotations

import json
import sys
import time

import tensorflow_datasets as tfds


def main() -> None:
    """Read epochs. Arguments: directory, batch size, number of epochs."""
    folder, batch_size, rounds = sys.argv[1:]
    # TFDS caches decoded images of small directories by default.
    config = tfds.ReadConfig(try_autocache=False)
    builder = tfds.builder_from_directory(folder)
    dataset = builder.as_dataset("train", batch_size=int(batch_size), read_config=config)
    times = []
    for _ in range(int(rounds) + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in dataset:
            pass
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    print(json.dumps(times[1:]))  # the first epoch warms up


if __name__ == "__main__":
    main()
