"""Writer of the data files. The same seed and scale produce the same files.

Run it with a Python that has TensorFlow. Existing files of the requested scale are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.workloads import WORKLOADS, Workload

_SEED = 20240501
_JPEG_SIZE = 224

# A record before it is serialized: int64 and float32 arrays, or bytes, by name.
_Record = dict[str, Any]


def _tabular(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield a label, 13 normal floats and 26 category numbers below 2^20, mostly small."""
    for _ in range(count):
        record: _Record = {"label": rng.integers(0, 2, 1)}
        floats = rng.standard_normal((13, 1)).astype(np.float32)
        categories = (rng.pareto(0.3, (26, 1)) % (1 << 20)).astype(np.int64)
        record.update((f"f{i}", value) for i, value in enumerate(floats))
        record.update((f"c{i}", value) for i, value in enumerate(categories))
        yield record


def _mnist(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield images in which four of five pixels are zero, as in MNIST."""
    for _ in range(count):
        image = rng.integers(1, 256, 784)
        image[rng.random(784) > 0.19] = 0
        yield {"label": rng.integers(0, 10, 1), "image": image}


def _image_raw(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield images as the bytes of their pixels, and shapes as the bytes of three int32."""
    shape = np.array([64, 64, 3], "<i4").tobytes()
    for _ in range(count):
        image = rng.integers(0, 256, 64 * 64 * 3, dtype=np.uint8).tobytes()
        yield {"label": rng.integers(0, 1000, 1), "shape": shape, "image": image}


def _jpeg(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield crops of smooth noise as JPEG of quality 90. A number identifies each record."""
    picture = _smooth_noise()
    for _ in range(count):
        y, x = rng.integers(0, len(picture) - _JPEG_SIZE, 2)
        crop = picture[y : y + _JPEG_SIZE, x : x + _JPEG_SIZE]
        # Add fine grain, as in photographs.
        grainy = np.clip(crop + rng.normal(0, 10, crop.shape), 0, 255).astype(np.uint8)
        image = tf.io.encode_jpeg(grainy, quality=90).numpy()
        yield {
            "label": rng.integers(0, 1000, 1),
            "number": rng.integers(0, 1 << 62, 1),
            "image": image,
        }


def _smooth_noise() -> Any:
    rng = np.random.default_rng(_SEED)
    octaves = [
        tf.image.resize(rng.random((2**k, 2**k, 3)) / 2 ** (0.7 * k), (512, 512), "bicubic").numpy()
        for k in range(1, 8)
    ]
    noise = np.sum(octaves, axis=0)
    return (noise - noise.min()) / np.ptp(noise) * 255


def _embeddings(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield a name and 768 normal float32 values."""
    for _ in range(count):
        name = b"doc-%019d" % rng.integers(0, 1 << 62)
        yield {"id": name, "vector": rng.standard_normal(768, dtype=np.float32)}


def _ragged(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield 1 to 256 token numbers with a weight each."""
    for _ in range(count):
        length = rng.integers(1, 257)
        yield {
            "label": rng.integers(0, 2, 1),
            "tokens": rng.integers(0, 50_000, length),
            "weights": rng.random(length, dtype=np.float32),
        }


def _sequence(rng: np.random.Generator, count: int) -> Iterator[_Record]:
    """Yield 1 to 64 steps with a token and a label each."""
    for _ in range(count):
        length = rng.integers(1, 65)
        yield {
            "length": np.array([length]),
            "tokens": rng.integers(0, 50_000, length),
            "labels": rng.integers(0, 20, length),
        }


_MAKERS: dict[str, Callable[[np.random.Generator, int], Iterator[_Record]]] = {
    "tabular": _tabular,
    "mnist": _mnist,
    "image_raw": _image_raw,
    "jpeg": _jpeg,
    "embeddings": _embeddings,
    "ragged": _ragged,
    "sequence": _sequence,
    "gzip": _tabular,
}


def _feature(value: Any) -> Any:
    train = tf.train
    if isinstance(value, bytes):
        return train.Feature(bytes_list=train.BytesList(value=[value]))
    if value.dtype == np.float32:
        return train.Feature(float_list=train.FloatList(value=value))
    return train.Feature(int64_list=train.Int64List(value=value))


def _serialize(record: _Record, workload: Workload) -> bytes:
    train = tf.train
    in_lists = {name for name, column in workload.columns.items() if column.in_lists}
    features = train.Features(
        feature={name: _feature(value) for name, value in record.items() if name not in in_lists}
    )
    if not workload.is_sequence:
        return bytes(train.Example(features=features).SerializeToString())
    lists = train.FeatureLists(
        feature_list={
            name: train.FeatureList(feature=[_feature(step) for step in record[name][:, None]])
            for name in in_lists
        }
    )
    example = train.SequenceExample(context=features, feature_lists=lists)
    return bytes(example.SerializeToString())


def _write_shard(task: tuple[str, int, float]) -> str:
    """Write one file and return a line that describes it."""
    name, shard, scale = task
    workload = WORKLOADS[name]
    total = int(workload.records * scale)
    count = total * (shard + 1) // workload.shards - total * shard // workload.shards
    rng = np.random.default_rng([_SEED, list(WORKLOADS).index(name), shard])
    path = workload.files[shard]
    with tf.io.TFRecordWriter(path + ".part", workload.compression or None) as writer:
        for record in _MAKERS[name](rng, count):
            writer.write(_serialize(record, workload))
    os.replace(path + ".part", path)
    return f"{os.path.basename(path)}: {count:,} records, {os.path.getsize(path) / 1e6:.1f} MB"


def _make(workloads: list[Workload], scale: float, jobs: int) -> None:
    for workload in workloads:
        # This also removes the indexes and copies that peers keep there.
        shutil.rmtree(workload.folder, ignore_errors=True)
        workload.folder.mkdir(parents=True)
    tasks = [(w.name, shard, scale) for w in workloads for shard in range(w.shards)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for line in pool.imap(_write_shard, tasks):
            print(line, flush=True)
    for workload in workloads:
        workload.mark_made(scale)


def main() -> None:
    """Create the missing files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of records")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of processes")
    args = parser.parse_args()
    chosen = [WORKLOADS[name] for name in args.workloads]
    missing = [workload for workload in chosen if not workload.is_made(args.scale)]
    if missing:
        _make(missing, args.scale, args.jobs)


if __name__ == "__main__":
    main()
