"""Does the consumer's thread limit how many CPUs can decode images?

python -m benchmarks.many_cores [--scale 1] [--rounds 3] [--threads 2]

The consumer's share is the CPU time of the thread that iterates, divided by that of the process.
Fresh pages are the bytes of minor page faults, divided by the bytes of the batches.

The second table has a decoder that sleeps, so that few CPUs show what many would do: time in which
a thread does not sleep is lost, such as that of waiting for a lock. It is built from
tests/native/sleeping_module.cpp.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import torchrec_io as tio
from benchmarks.common import arguments, spread, table
from benchmarks.image_data import HEIGHT, SIZE, WIDTH, photos
from torchrec_io._images import native

_IMAGES = 1024
# Large batches of whole images take fresh pages: memory of less than 32 MiB is reused by malloc.
_BATCH = 256
_THREADS = (1, 4, 16, 64)
_FEATURES = {
    "crops": tio.ImageFeature(size=(SIZE, SIZE), augment=tio.RandomResizedCrop()),
    "crops, with all color changes": tio.ImageFeature(
        size=(SIZE, SIZE),
        augment=tio.RandomResizedCrop(),
        jitter=tio.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ),
    "whole images": tio.ImageFeature(),
}


class Use(NamedTuple):
    """What an epoch used.

    Attributes:
        images: Number of images.
        bytes: Bytes of the batches.
        seconds: Seconds by wall clock.
        cpu_seconds: CPU time of the process in seconds.
        consumer_seconds: CPU time of the thread that iterates in seconds.
        fresh_bytes: Bytes of the pages that the kernel provided.
    """

    images: int
    bytes: int
    seconds: float
    cpu_seconds: float
    consumer_seconds: float
    fresh_bytes: int

    @property
    def consumer_share(self) -> float:
        """CPU time of the consumer's thread, relative to that of the process."""
        return self.consumer_seconds / self.cpu_seconds

    @property
    def fresh_share(self) -> float:
        """Bytes of fresh pages, relative to those of the batches."""
        return self.fresh_bytes / self.bytes


def use_of(batches: Iterable[Any]) -> Use:
    """Read all batches of images and return what that used."""
    images = size = 0
    start = _counters()
    for batch in batches:
        column = batch["image"]
        tensors = [column] if isinstance(column, torch.Tensor) else column
        size += sum(each.nbytes for each in tensors)
        images += len(column)
    seconds, cpu, consumer, fresh = (
        end - begin for begin, end in zip(start, _counters(), strict=True)
    )
    return Use(images, size, seconds, cpu, consumer, round(fresh))


def _counters() -> tuple[float, float, float, int]:
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    fresh = faults * resource.getpagesize()
    return time.perf_counter(), time.process_time(), time.thread_time(), fresh


def _write(path: str, count: int) -> None:
    """Write photos of different sizes, as in ImageNet."""
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.5, 1.5, (count, 2))
    sizes = (scales * (HEIGHT, WIDTH)).astype(int).tolist()
    with tio.TFRecordWriter(path, index=True) as writer:
        for image in photos(sizes):
            writer.write({"image": image})


def _print_shares(path: str, threads: int, rounds: int) -> None:
    """Print what epochs use, in alternating rounds, after one that is not counted."""
    datasets = {
        name: tio.TFRecordDataset(
            path, {"image": image}, batch_size=_BATCH, shuffle=True, num_threads=threads
        )
        for name, image in _FEATURES.items()
    }
    found: dict[str, list[Use]] = {name: [] for name in datasets}
    for counts in [False, *[True] * rounds]:
        for name, dataset in datasets.items():
            use = use_of(dataset)
            if counts:
                found[name].append(use)
    rows = []
    for name, uses in found.items():
        rates = [use.images / use.seconds for use in uses]
        times = [1000 * use.cpu_seconds / use.images for use in uses]
        shares = [100 * use.consumer_share for use in uses]
        fresh = spread([use.fresh_share for use in uses])
        rows.append([name, threads, spread(rates, 0), spread(times), spread(shares, 1), fresh])
    headers = ["Images", "Threads", "Images/s", "CPU time of an image, ms"]
    headers.append("Consumer's share of CPU time, %")
    print(table([*headers, "Fresh pages, bytes relative to the batches"], rows))
    plain, changed = (found[name] for name in list(_FEATURES)[:2])
    costs = [
        100 * (after.cpu_seconds / after.images / (before.cpu_seconds / before.images) - 1)
        for before, after in zip(plain, changed, strict=True)
    ]
    print(f"\nThe color changes cost {spread(costs, 0)} % of the CPU time of a crop.\n")


def _build_sleeping(folder: Path) -> Any:
    """Build and return the module of the decoder that sleeps."""
    find = [sys.executable, "-m", "nanobind", "--cmake_dir"]
    nanobind = subprocess.run(find, check=True, capture_output=True, text=True)
    variables = {
        "SKBUILD": "2",
        "CMAKE_BUILD_TYPE": "Release",
        "TORCHREC_IO_SLEEPING": "ON",
        "Python_EXECUTABLE": sys.executable,
        "nanobind_DIR": nanobind.stdout.strip(),
    }
    options = [f"-D{name}={value}" for name, value in variables.items()]
    root = Path(__file__).parent.parent
    for command in (
        ["cmake", "-S", str(root), "-B", str(folder), "-G", "Ninja", *options],
        ["cmake", "--build", str(folder), "--target", "_sleeping"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    [path] = folder.glob("_sleeping.*")
    spec = importlib.util.spec_from_file_location("_sleeping", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _print_threads(path: str, sleeping: Any, rounds: int) -> None:
    """Print how many images a decoder that sleeps decodes with many threads."""
    rows = []
    for threads in _THREADS:
        cpus = range(threads)
        with (
            mock.patch.object(native, "_jpeg", sleeping),
            mock.patch.object(os, "sched_getaffinity", lambda _, cpus=cpus: cpus),
        ):
            dataset = tio.TFRecordDataset(
                path, {"image": _FEATURES["crops"]}, batch_size=_BATCH, num_threads=1
            )
            part = dataset.take(min(_IMAGES, 64 * threads))
            uses = [use_of(part) for _ in range(rounds)]
        rates = [use.images / use.seconds for use in uses]
        ideal = threads / sleeping.SECONDS
        rows.append(
            [
                str(threads),
                spread(rates, 0),
                spread([rate / ideal for rate in rates]),
                spread([use.cpu_seconds / use.seconds for use in uses]),
            ]
        )
    headers = ["Threads", "Images/s", "Relative to threads that only sleep", "Busy CPUs"]
    print(table(headers, rows))


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--threads", type=int, default=2, help="number of threads that decode")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "photos.tfrecord"))
        _write(path, max(_BATCH, int(_IMAGES * parsed.scale)))
        _print_shares(path, parsed.threads, parsed.rounds)
        _print_threads(path, _build_sleeping(Path(folder, "build")), parsed.rounds)


if __name__ == "__main__":
    main()
