"""Decompression of a gzip file by one library: ``python -m benchmarks.peer_inflate NAME FILE``."""

from __future__ import annotations

import importlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

_CHUNK = 1 << 18
_READS, _READ_BYTES = 100, 600
_SPAN = 4 << 20
# Decoders that only go forwards.
_STREAMS = {"zlib": "zlib", "isal": "isal.isal_zlib", "zlib-ng": "zlib_ng.zlib_ng"}


def _decompress(name: str, path: str) -> int:
    """Decompress a file by an object like that of ``zlib``; return the size of the stream."""
    decoder = importlib.import_module(_STREAMS[name]).decompressobj(31)
    size = 0
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            size += len(decoder.decompress(data))
    return size


def _open(name: str, path: str) -> Any:
    if name == "rapidgzip":
        return importlib.import_module("rapidgzip").open(path, parallelization=1)
    return importlib.import_module("indexed_gzip").IndexedGzipFile(path, spacing=_SPAN)


def _read_all(file: Any) -> int:
    size = 0
    while data := file.read(_CHUNK):
        size += len(data)
    return size


def _cpu(work: Callable[[], int]) -> tuple[float, int]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def random_ms(read: Callable[[int], Any], size: int) -> float:
    """Return the median processor time of reads at random offsets, in milliseconds."""
    offsets = random.Random(0).sample(range(size - _READ_BYTES), _READS)  # noqa: S311  # no secrets
    times = []
    for offset in offsets:
        start = time.process_time()
        read(offset)
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    """Print the speed in MB of the stream per CPU-second, and the time of a random read."""
    name, path = sys.argv[1:]
    if name in _STREAMS:
        seconds, size = _cpu(lambda: _decompress(name, path))
        print(json.dumps({"speed": size / seconds / 1e6}))
        return
    file = _open(name, path)
    try:
        seconds, size = _cpu(lambda: _read_all(file))  # which makes its index, too

        def read(offset: int) -> None:
            file.seek(offset)
            assert len(file.read(_READ_BYTES)) == _READ_BYTES

        print(json.dumps({"speed": size / seconds / 1e6, "random": random_ms(read, size)}))
    finally:
        file.close()  # rapidgzip aborts the interpreter if it is open at the exit


if __name__ == "__main__":
    main()
