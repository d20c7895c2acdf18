"""Reading inside gzip files of several sizes: random access, shuffles, threads, memory.

Speeds are records per second of processor time, except with two threads. The files have one member
each; their data is not repeated within the 32 KiB that deflate sees.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from benchmarks.common import MB, arguments, memory_of, run_child, table, tensorflow_python
from benchmarks.compressed_data import make_file, schema
from torchrec_io._storage.chunk_cache import DEFAULT_CACHE_BYTES, Chunk
from torchrec_io._storage.compressed_file import CompressedFile
from torchrec_io._storage.decoder import start_member
from torchrec_io._storage.inflater import Inflater
from torchrec_io._storage.local import LocalFile

_BATCH = 256
_READS = 200
_INPUT_BYTES, _OUTPUT_BYTES = 1 << 16, 1 << 20
_MOST_SECONDS = 60.0  # of an epoch; longer ones are measured in part
_ORDERS: dict[str, Any] = {
    "stored": False,
    "window of 10,000": 10_000,
    "blocks of 16,384": tio.Shuffle(block=16_384, window=65_536),  # of two chunks each
    "uniform": True,
}


def _index(path: str) -> dict[str, float]:
    """Build the index, and measure it against decompressing alone."""
    content = Path(path).read_bytes()

    def decompress() -> int:
        decoder = start_member("gzip")
        size = at = 0
        while not decoder.eof:
            more = _INPUT_BYTES if decoder.needs_input else 0
            size += len(decoder.decompress(content[at : at + more], _OUTPUT_BYTES))
            at += more
        return size

    def read() -> None:
        source = Inflater(LocalFile(path), "gzip")
        out = np.empty(_OUTPUT_BYTES, np.uint8)
        at = 0
        while got := source.read_into(at, out.data):
            at += got

    def build() -> tio.RecordIndex:
        return tio.RecordIndex.build(path)

    index = build()  # loads modules, too
    works = (decompress, read, build)
    # Medians of rounds, which alternate, and of ratios within a round.
    times = [[_cpu(work)[0] for work in works] for _ in range(5)]
    alone, _, building = (statistics.median(each) for each in zip(*times, strict=True))
    size = decompress()
    one, _ = _wall(decompress)
    thread = threading.Thread(target=decompress)
    thread.start()
    two, _ = _wall(decompress)
    thread.join()
    index.save()
    seek_bytes = len(index.seek_points.encode())
    return {
        "decompress GB/s": size / alone / 1e9,
        "decompress, two threads / one": 2 * one / two,
        "index GB/s": size / building / 1e9,
        "index / decompress": statistics.median(each[0] / each[2] for each in times),
        "index / read": statistics.median(each[1] / each[2] for each in times),
        "seek points %": 100 * seek_bytes / len(content),
        "stream MB": size / MB,
    }


def _random(path: str) -> dict[str, float]:
    """Read records at random, each from a chunk that is not in the cache."""
    dataset = tio.TFRecordMapDataset(path, cache_bytes=8 << 20)
    times = []
    for number in np.random.default_rng(0).integers(0, len(dataset), _READS).tolist():
        start = time.perf_counter()
        dataset[number]
        times.append(time.perf_counter() - start)
    return {"random ms": 1000 * statistics.median(times)}


def _epoch(path: str, order: str, threads: str) -> dict[str, float]:
    """Read an epoch, or some of it. Return its speed, memory and number of decodings."""
    decoded = [0]
    original = CompressedFile.load

    def load(self: CompressedFile, number: int, size: int) -> Chunk:
        chunk = original(self, number, size)
        decoded[0] += len(chunk.data)
        return chunk

    CompressedFile.load = load  # type: ignore[method-assign]
    dataset = tio.TFRecordDataset(
        path, schema(), batch_size=_BATCH, shuffle=_ORDERS[order], num_threads=int(threads)
    )
    at_start = memory_of()["VmRSS"]
    gc.collect()  # what imports made; else it falls into an epoch or not
    records = 0
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in dataset:
        records += len(batch["label"])
        if time.perf_counter() - wall > _MOST_SECONDS:
            break
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "records/CPU-s": records / cpu,
        "records/s": records / wall,
        "decodings": decoded[0] / records * dataset.num_records / _stream_bytes(path),
        "growth MB": (memory_of()["VmHWM"] - at_start) / MB,
    }


def _stream_bytes(path: str) -> int:
    """Return the size of the decompressed content."""
    return tio.RecordIndex.load(path).stream_bytes


def _wall(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


_STEPS: dict[str, Callable[..., dict[str, float]]] = {
    "index": _index,
    "random": _random,
    "epoch": _epoch,
}


def _measure(path: str, rounds: int) -> dict[str, Any]:
    """Return all figures of a file: medians, of ratios within a round.

    The speed of a machine varies, so what is compared is measured one after the other.
    """

    def step(*args: str) -> dict[str, float]:
        found: dict[str, float] = run_child("compressed", *args)
        return found

    rounds *= 1 if os.path.getsize(path) > 200 * MB else 3  # short ones vary more
    found: dict[str, Any] = step("index", path)
    all_rounds = [_round(path, step) for _ in range(rounds)]
    found |= {name: statistics.median(each[name] for each in all_rounds) for name in all_rounds[0]}
    found["growth MB"] = max(each["growth MB"] for each in all_rounds)
    size, cache = found["stream MB"] * MB, DEFAULT_CACHE_BYTES
    found["uniform, formula"] = max(1, (size - cache / 6) / (0.75 * cache / 2))
    return found


def _round(path: str, step: Callable[..., dict[str, float]]) -> dict[str, float]:
    """Measure everything once but the index."""
    found = step("random", path)
    stored = step("epoch", path, "stored", "1")
    found["stored, records/CPU-s"] = stored["records/CPU-s"]
    growth = [stored["growth MB"]]
    two = step("epoch", path, "stored", "2")
    found["two threads / one"] = two["records/s"] / stored["records/s"]
    for order in list(_ORDERS)[1:]:
        epoch = step("epoch", path, order, "1")
        found[f"{order} / stored"] = epoch["records/CPU-s"] / stored["records/CPU-s"]
        found[f"{order}, decodings"] = epoch["decodings"]
        growth.append(epoch["growth MB"])
        stored = step("epoch", path, "stored", "1")  # what the next order is compared with
    peer: float = run_child("peer_compressed", path, python=tensorflow_python())
    found["stored / tf.data"] = stored["records/CPU-s"] / peer
    found["growth MB"] = max(growth)
    return found


def main() -> None:
    """Print the table."""
    if len(sys.argv) > 2 and sys.argv[1] in _STEPS:  # a step and its file
        print(json.dumps(_STEPS[sys.argv[1]](*sys.argv[2:])))
        return
    parser = arguments(__doc__, rounds=2)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[10, 100, 1000])
    args = parser.parse_args()
    columns = []
    with tempfile.TemporaryDirectory() as folder:
        for size in args.megabytes:
            path = Path(folder, f"{size}.tfrecord.gz")
            make_file(path, size * MB)
            columns.append(_measure(str(path), args.rounds))
            path.unlink()
    rows = [[name, *(f"{found[name]:.3g}" for found in columns)] for name in columns[0]]
    print(table(["Figure", *(f"{size} MB" for size in args.megabytes)], rows))


if __name__ == "__main__":
    main()
