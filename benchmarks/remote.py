"""How fast are objects in an S3 store read, near and far, compared with a plain download?

python -m benchmarks.remote [--scale 0.1] [--rounds 3] [--peers]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from benchmarks.common import MB, arguments, run_child, spread, table
from benchmarks.peers.venvs import SetupError, python_of
from benchmarks.remote_case import RECORD_BYTES, digest_of
from tests.support.proxy import proxy_to
from tests.support.stores import BUCKET, S3Server, s3_server

_SHARDS = 32
# In a shard, at scale 1. An epoch takes seconds, so that its start is a small part of it: the time
# to the first batch is a column of its own.
_RECORDS = 4096
# A uniform shuffle takes long: this part of an epoch is enough.
_SHUFFLED_PART = 2
_LATENCIES = (0.0, 0.020)
_REQUESTS = 64
# 350 records of 12 KB are about 4 MiB.
_BLOCK = {"block": 350, "window": 350 * 16}
_UNIFORM = "`shuffle=True`"


@dataclass(frozen=True)
class _Files:
    """Shards that are in a folder and in the store.

    Attributes:
        sizes: Size of each object in bytes, by its key.
        digest: Digest of all records.
        count: Number of all records.
    """

    folder: Path
    server: S3Server
    sizes: dict[str, int]
    digest: int
    count: int

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def urls(self) -> list[str]:
        return [f"s3://{BUCKET}/{key}" for key in self.sizes]


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--peers", action="store_true", help="measure other libraries, too")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, s3_server() as server:
        os.environ["TORCHREC_IO_CACHE"] = str(Path(folder, "cache"))
        files = _make_files(Path(folder, "files"), server, parsed.scale)
        _check(files)
        rows = []
        for latency in _LATENCIES:
            with _link(server.port, latency) as port:
                rows += _measure(files, port, latency, parsed.rounds)
                if parsed.peers:
                    rows += _measure_peers(files, port, latency, parsed.rounds)
        headers = ["Latency", "Case", "MB/s", "Of the limit", "First batch (s)", "Memory (MB)"]
        print(table(headers, rows), flush=True)
        print()
        _print_cache(files, Path(folder, "blocks"), parsed.rounds)


def _make_files(folder: Path, server: S3Server, scale: float) -> _Files:
    folder.mkdir()
    random = np.random.default_rng(0)
    digest = count = 0
    for shard in range(_SHARDS):
        path = folder / f"x-{shard:05d}-of-{_SHARDS:05d}"
        with tio.TFRecordWriter(path, index=True) as writer:
            for _ in range(max(64, int(_RECORDS * scale))):
                data = random.bytes(RECORD_BYTES)
                writer.write({"data": data})
                digest += digest_of([data])
                count += 1
    sizes = {f"speed/{path.name}": path.stat().st_size for path in sorted(folder.glob("x-*[0-9]"))}
    server.put_files(folder, "speed")
    return _Files(folder, server, sizes, digest % (1 << 64), count)


@contextmanager
def _link(port: int, latency: float) -> Iterator[int]:
    """Provide a port by which answers of a server come later. A process of its own forwards."""
    if not latency:
        yield port
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_forward, args=(port, latency, theirs), daemon=True
    )
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _forward(port: int, latency: float, pipe: Connection) -> None:
    with proxy_to(port) as proxy:
        proxy.latency = latency
        pipe.send(proxy.port)
        pipe.recv()  # until the end


# ---- this library ----


def _download(files: _Files, port: int, **options: int) -> dict[str, Any]:
    """Return the measurement of a plain download."""
    config = files.server.options(port)
    case = {"case": "download", "bucket": BUCKET, "sizes": files.sizes, "config": config}
    return case | options


def _cases(files: _Files, port: int) -> dict[str, dict[str, Any]]:
    """Return what is measured of this library, by name."""
    config = files.server.options(port)
    read = {"case": "read", "paths": files.urls()}
    part = {"records": files.count // _SHUFFLED_PART}
    return {
        "in the order of the files": read | {"options": {"storage_options": config}},
        "`Shuffle(block=350)`, 4 MiB": read
        | {"options": {"storage_options": config, "shuffle": _BLOCK}},
        _UNIFORM: read | part | {"options": {"storage_options": config, "shuffle": True}},
    }


def _check(files: _Files) -> None:
    """Compare all values with those that were written."""
    for name, case in _cases(files, files.server.port).items():
        found = _run(case | {"is_check": True, "records": None})
        assert found["records"] == files.count, name
        assert found["digest"] == files.digest, name


def _run(case: dict[str, Any]) -> Any:
    return run_child("remote_case", json.dumps(case))


def _measure(files: _Files, port: int, latency: float, rounds: int) -> list[list[str]]:
    """Return lines of the table: rates, and their share of a plain download or of the link."""
    cases = _cases(files, port)
    requests = files.count // _SHUFFLED_PART
    by_record = _download(files, port, range_bytes=RECORD_BYTES, requests=requests)
    downloads: list[Any] = []
    small: list[Any] = []
    found: dict[str, list[Any]] = {name: [] for name in cases}
    for _ in range(rounds):
        downloads.append(_run(_download(files, port)))
        small.append(_run(by_record))
        for name, case in cases.items():
            found[name].append(_run(case))
    rows = [_row(latency, "obstore, a plain download", files, downloads, ["", "", ""])]
    shares = [_share_of_link(run, latency) for run in small] if latency else []
    rest = [spread(shares) if latency else "", "", ""]
    rows.append(_row(latency, "obstore, a request for each record", files, small, rest))
    for name, runs in found.items():
        if name == _UNIFORM and latency:
            shares = [_share_of_link(run, latency) for run in runs]
        else:
            parts = [run["records"] / files.count for run in runs]
            limits = [each["seconds"] * part for each, part in zip(downloads, parts, strict=True)]
            shares = [limit / run["seconds"] for limit, run in zip(limits, runs, strict=True)]
        first = statistics.median(run["first"] for run in runs)
        memory = _run(cases[name] | {"watches_memory": True})["memory"]
        rest = [spread(shares), f"{first:.2f}", f"{memory / MB:.0f}"]
        rows.append(_row(latency, name, files, runs, rest))
    return rows


def _share_of_link(run: Any, latency: float) -> float:
    """Return the rate of a request for each record, relative to what a link can have under way."""
    return float(run["records"] * latency / _REQUESTS / run["seconds"])


def _row(latency: float, name: str, files: _Files, runs: list[Any], rest: list[str]) -> list[str]:
    """Return a line of the table; a run may have read a part of the records."""
    rates = [
        files.bytes * run.get("records", files.count) / files.count / run["seconds"] / MB
        for run in runs
    ]
    return [f"{latency * 1000:.0f} ms", name, spread(rates, 0), *rest]


# ---- the cache ----


def _print_cache(files: _Files, folder: Path, rounds: int) -> None:
    """Print the speed of a second epoch from a cache, beside that of local files."""
    local: dict[str, Any] = {
        "case": "read",
        "paths": [str(files.folder / Path(key).name) for key in files.sizes],
        "epochs": 2,
    }
    options = {"storage_options": files.server.options(), "cache": str(folder)}
    cached = local | {"paths": files.urls()}
    rows = []
    for name, shuffle in (("in the order of the files", False), ("`shuffle=True`", True)):
        pairs = [
            (
                _run(local | {"options": {"shuffle": shuffle}}),
                _run(cached | {"options": options | {"shuffle": shuffle}}),
            )
            for _ in range(rounds)
        ]
        rates = [
            [files.bytes / run["seconds"] / MB for run in runs] for runs in zip(*pairs, strict=True)
        ]
        shares = [one["seconds"] / other["seconds"] for one, other in pairs]
        rows.append([name, *(spread(each, 0) for each in rates), spread(shares)])
    print(table(["Second epoch", "Local files (MB/s)", "From the cache (MB/s)", "Ratio"], rows))


# ---- other libraries ----

# A module of peers/requirements, and what it is measured with.
_PEERS = {
    "s3torchconnector": ("s3torchconnector",),
    "tfdata_s3": ("tfdata_s3",),
    "mosaicml": ("mosaicml", "mosaicml-shuffled"),
    "litdata": ("litdata", "litdata-shuffled"),
}


def _measure_peers(files: _Files, port: int, latency: float, rounds: int) -> list[list[str]]:
    rows = []
    for module, names in _PEERS.items():
        try:
            python = python_of(module)
        except SetupError as error:
            print(f"{module} cannot be installed: {error}")
            continue
        _copy_for(module, files, python)
        for name in names:
            case = {
                "url": f"s3://{BUCKET}/speed/",
                "config": files.server.options(port)
                | {"names": [Path(k).name for k in files.sizes]},
                "is_check": False,
            }
            found = run_child(
                "peer_remote", name, json.dumps(case | {"is_check": True}), python=python
            )
            assert found["digest"] == files.digest, name
            runs = [
                run_child("peer_remote", name, json.dumps(case), python=python)
                for _ in range(rounds)
            ]
            first = statistics.median(run["first"] for run in runs)
            watched = json.dumps(case | {"watches_memory": True})
            memory = run_child("peer_remote", name, watched, python=python)["memory"]
            rest = ["", f"{first:.2f}", f"{memory / MB:.0f}"]
            rows.append(_row(latency, name, files, runs, rest))
    return rows


def _copy_for(module: str, files: _Files, python: str) -> None:
    """Write a library's own copy of the records to the store, once."""
    folder = files.folder.parent / module
    if module in {"s3torchconnector", "tfdata_s3"} or folder.exists():
        return
    folder.mkdir()
    run_child(
        "peer_remote",
        module,
        json.dumps({"prepare": str(folder), "count": files.count}),
        python=python,
    )
    files.server.put_files(folder, f"speed/{module}")


if __name__ == "__main__":
    main()
