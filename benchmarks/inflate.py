"""Decompression of a gzip file by several libraries: from front to back, and at random offsets.

All figures are of processor time, and of the same file, which has one member. Rounds alternate.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path

import torchrec_io as tio
from benchmarks.common import MB, arguments, run_child, table
from benchmarks.compressed_data import make_file
from benchmarks.peer_inflate import random_ms
from benchmarks.peers.venvs import python_without_torch
from torchrec_io.storage.byte_source import read_bytes
from torchrec_io.storage.chunk_cache import ChunkCache
from torchrec_io.storage.chunked_file import ChunkedFile
from torchrec_io.storage.compressed_chunks import CompressedChunks
from torchrec_io.storage.local import LocalFile

_OURS = "torchrec_io"
_PEERS = ("zlib", "isal", "zlib-ng", "indexed_gzip", "rapidgzip")
_SMALL_CACHE = 8 << 20  # so that chunks are decompressed for each read


def _measure_ours(path: str) -> dict[str, float]:
    """Return the speed of our reader, with the checksums of the content, and its latency."""
    index = tio.RecordIndex.load(path)
    file = LocalFile(path)
    chunks = CompressedChunks(path, "gzip", index.seek_points, index.stream_bytes)
    with contextlib.closing(ChunkedFile(file, chunks, ChunkCache(_SMALL_CACHE))) as source:
        buffer = memoryview(bytearray(1 << 18))
        start, at = time.process_time(), 0
        while got := source.read_into(at, buffer[: index.stream_bytes - at]):
            at += got
        speed = at / (time.process_time() - start) / 1e6
        return {"speed": speed, "random": random_ms(lambda at: read_bytes(source, at, 600), at)}


def main() -> None:
    """Print the table."""
    if len(sys.argv) == 3 and sys.argv[1] == _OURS:
        print(json.dumps(_measure_ours(sys.argv[2])))
        return
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--megabytes", type=int, default=100)
    args = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (*_PEERS, _OURS)}
    python = python_without_torch("inflate")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.tfrecord.gz")
        make_file(path, args.megabytes * MB)
        tio.RecordIndex.build(path).save()
        for _ in range(args.rounds):
            for name in _PEERS:
                found[name].append(run_child("peer_inflate", name, str(path), python=python))
            found[_OURS].append(run_child("inflate", _OURS, str(path)))
    rows = []
    for name, rounds in found.items():
        speed = max(each["speed"] for each in rounds)
        times = [each["random"] for each in rounds if "random" in each]
        rows.append([name, f"{speed:,.0f}", f"{min(times):.2f}" if times else "from the start"])
    print(table(["Library", "MB per CPU-second", "Random read, CPU ms (median)"], rows))


if __name__ == "__main__":
    main()
