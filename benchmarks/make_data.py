"""Writes the data files, with TensorFlow. The same seed and scale give the same files.

Run it with a Python that has TensorFlow. Files that exist at the asked scale are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.workloads import WORKLOADS, Workload

_SEED = 20240501

# A record before it is serialized: int64 and float32 arrays, or bytes, by name.
_Record = dict[str, Any]


def _tabular(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """A label, 13 normal floats and 26 category numbers below 2^20: small ones are frequent."""
    for _ in range(count):
        record: _Record = {"label": rng.integers(0, 2, 1)}
        floats = rng.standard_normal((13, 1)).astype(np.float32)
        categories = (rng.pareto(0.3, (26, 1)) % (1 << 20)).astype(np.int64)
        record.update((f"f{i}", value) for i, value in enumerate(floats))
        record.update((f"c{i}", value) for i, value in enumerate(categories))
        yield record


def _mnist(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Four of five pixels are zero, as in MNIST."""
    for _ in range(count):
        image = rng.integers(1, 256, 784)
        image[rng.random(784) > 0.19] = 0
        yield {"label": rng.integers(0, 10, 1), "image": image}


def _image_raw(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """An image as the bytes of its pixels, and its shape as the bytes of three int32."""
    shape = np.array([64, 64, 3], "<i4").tobytes()
    for _ in range(count):
        image = rng.integers(0, 256, 64 * 64 * 3, dtype=np.uint8).tobytes()
        yield {"label": rng.integers(0, 1000, 1), "shape": shape, "image": image}


_MAKERS: dict[str, Callable[[np.random.Generator, int], Iterator[_Record]]] = {
    "tabular": _tabular,
    "mnist": _mnist,
    "image_raw": _image_raw,
}


def _serialize(record: _Record) -> bytes:
    train = tf.train
    features = {}
    for name, value in record.items():
        if isinstance(value, bytes):
            features[name] = train.Feature(bytes_list=train.BytesList(value=[value]))
        elif value.dtype == np.float32:
            features[name] = train.Feature(float_list=train.FloatList(value=value))
        else:
            features[name] = train.Feature(int64_list=train.Int64List(value=value))
    example = train.Example(features=train.Features(feature=features))
    return bytes(example.SerializeToString())


def _write_shard(task: tuple[str, int, float]) -> str:
    """Writes one file; returns its name."""
    name, shard, scale = task
    workload = WORKLOADS[name]
    total = int(workload.records * scale)
    count = total * (shard + 1) // workload.shards - total * shard // workload.shards
    rng = np.random.default_rng([_SEED, list(WORKLOADS).index(name), shard])
    path = workload.files[shard]
    with tf.io.TFRecordWriter(path + ".part") as writer:
        for record in _MAKERS[name](rng, count):
            writer.write(_serialize(record))
    os.replace(path + ".part", path)
    return f"{os.path.basename(path)}: {count:,} records, {os.path.getsize(path) / 1e6:.1f} MB"


def _make(workloads: list[Workload], scale: float, jobs: int) -> None:
    for workload in workloads:
        workload.folder.mkdir(parents=True, exist_ok=True)
        workload.mark_unmade()
    tasks = [(w.name, shard, scale) for w in workloads for shard in range(w.shards)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for line in pool.imap(_write_shard, tasks):
            print(line, flush=True)
    for workload in workloads:
        workload.mark_made(scale)


def main() -> None:
    """Makes what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of records")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    args = parser.parse_args()
    chosen = [WORKLOADS[name] for name in args.workloads]
    missing = [workload for workload in chosen if not workload.is_made(args.scale)]
    if missing:
        _make(missing, args.scale, args.jobs)


if __name__ == "__main__":
    main()
