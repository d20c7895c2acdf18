"""Check and measure one peer in this process, and print the result as JSON.

python -m benchmarks.image_peers.run MODULE PEER RECIPE CPUS SECONDS
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.image_data import MEAN, RECIPES, STD, Pixels

Epoch = Callable[[], Iterable[Any]]


def check(epoch: Epoch, expected: Pixels) -> dict[str, float]:
    """Compare the pixels of an epoch with those of Pillow."""
    at = 0
    total, most, over_one = 0, 0, 0
    for batch in epoch():
        pixels = _levels_of(np.asarray(batch))
        wanted = expected[at : at + len(pixels)]
        assert pixels.shape == wanted.shape, pixels.shape
        difference = np.abs(pixels.astype(np.int16) - wanted)
        total += int(difference.sum())
        most = max(most, int(difference.max()))
        over_one += int((difference > 1).sum())
        at += len(pixels)
    assert at == len(expected), f"{at} images"
    return {
        "mean_difference": total / expected.size,
        "most_difference": most,
        "share_over_one": over_one / expected.size,
    }


def _levels_of(values: npt.NDArray[Any]) -> Pixels:
    """Return the pixels that normalized values were made of."""
    if values.dtype == np.uint8:
        return values
    assert values.dtype == np.float32, values.dtype
    if values.shape[1] == 3:
        values = values.transpose(0, 2, 3, 1)
    return np.rint((values * STD + MEAN) * 255).astype(np.uint8)


def measure(epoch: Epoch, seconds: float) -> dict[str, float]:
    """Read epochs for some CPU-seconds; the time to start each one counts."""
    images = 0
    wall, cpu = time.perf_counter(), _cpu_seconds()
    while _cpu_seconds() - cpu < seconds:
        images += sum(len(batch) for batch in epoch())
    return {
        "images_per_cpu_s": images / (_cpu_seconds() - cpu),
        "images_per_s": images / (time.perf_counter() - wall),
    }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure the peer of the command line."""
    module, peer, recipe, cpus, seconds = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cpus)])
    # Output of libraries must not mix with the result.
    with open(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)
        chosen = RECIPES[recipe]
        peers = importlib.import_module(f"benchmarks.image_peers.{module}").PEERS
        epoch = peers[peer](chosen, int(cpus))
        found = check(epoch, chosen.pixels) | measure(epoch, float(seconds))
        json.dump(found, out)


if __name__ == "__main__":
    main()
    os._exit(0)  # FFCV's writer does not let a process end
