"""Is this tree as fast as another one? Plain, compressed and remote files, in the same run.

python -m benchmarks.trees OTHER [--scale 1] [--rounds 3] [--least 0.7]

OTHER is the Python of another checkout of the repository, in which `make build` was run, such as
`../other/.venv/bin/python`; `make compare BASE=COMMIT` makes one. Both trees take turns, each in
fresh processes, and must return the same values. Objects are on a server of this machine.
"""

from __future__ import annotations

import http.server
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from benchmarks.common import arguments, table
from benchmarks.workloads import ROOT

# The name in trees from before the option ``cache_bytes``.
_CACHE_BYTES = (
    "cache_bytes"
    if "cache_bytes" in inspect.signature(tio.TFRecordDataset).parameters
    else "decode_cache_bytes"
)
_BLOCKS = tio.Shuffle(block=4096, window=40_960)
_LARGE_BLOCKS = tio.Shuffle(block=350, window=5600)  # of 4 MB
_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "small records, in order": ("small", {}),
    "small records, uniform": ("small", {"shuffle": True}),
    "large records, in order": ("large", {}),
    "large records, uniform": ("large", {"shuffle": True}),
    "gzip, in order": ("small.gz", {}),
    "gzip, blocks": ("small.gz", {"shuffle": _BLOCKS}),
    "gzip, uniform": ("small.gz", {"shuffle": True}),
    "gzip, uniform, little memory": (
        "small.gz",
        {"shuffle": True, _CACHE_BYTES: 16 << 20},
    ),
    "objects, in order": ("URL/large", {}),
    "objects, blocks": ("URL/large", {"shuffle": _LARGE_BLOCKS}),
    "objects, uniform": ("URL/large", {"shuffle": True}),
    "gzip objects, in order": ("URL/small.gz", {}),
}
_RANDOM_RECORDS = 300
_VALUES = {"label": tio.FixedLenFeature([], "int64")}
_SCHEMAS = {
    "small": {**_VALUES, "x": tio.FixedLenFeature([40], "int64")},
    "large": {**_VALUES, "x": tio.FixedLenFeature([], "string")},
}


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for ranges of the files of a folder."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder: Path

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self._answer(has_body=False)

    def do_GET(self) -> None:
        """Answer with a range."""
        self._answer(has_body=True)

    def _answer(self, *, has_body: bool) -> None:
        path = self.folder / self.path.strip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size = path.stat().st_size
        given = re.findall(r"\d+", self.headers.get("Range", ""))
        begin, end = (int(given[0]), min(size, int(given[1]) + 1)) if given else (0, size)
        self.send_response(206 if given else 200)
        if given:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Content-Length", str(end - begin))
        self.send_header("ETag", f'"{size}"')
        self.end_headers()
        if has_body:
            self.wfile.flush()
            with path.open("rb") as file:
                while begin < end:
                    begin += os.sendfile(
                        self.connection.fileno(), file.fileno(), begin, end - begin
                    )


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("other", help="Python of the other tree")
    parser.add_argument(
        "--least", type=float, default=0.0, help="fail if a median ratio is below this"
    )
    parser.add_argument("--url", help="run as a measured process; the other tree is then a folder")
    parsed = parser.parse_args()
    if parsed.url:
        print(json.dumps([tio.__file__, _measure(Path(parsed.other), parsed.url)]))
        return
    with tempfile.TemporaryDirectory() as folder:
        _make_files(Path(folder), parsed.scale)
        _Handler.folder = Path(folder)
        server = _Server(("127.0.0.1", 0), _Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        runs = [
            [_run_with(python, folder, url) for python in (parsed.other, sys.executable)]
            for _ in range(parsed.rounds)
        ]
        server.shutdown()
    if len({place for pair in runs for place, _ in pair}) != 2:
        raise SystemExit(f"{parsed.other} has the same package as this Python")
    rows, slower = [], []
    for name in runs[0][0][1]:
        times = [(before[name], after[name]) for (_, before), (_, after) in runs]
        assert len({value for pair in times for _, value in pair}) == 1, name
        seconds = [statistics.median(pair[n][0] for pair in times) for n in (0, 1)]
        ratios = [before[0] / after[0] for before, after in times]
        ratio = statistics.median(ratios)
        if ratio < parsed.least:
            slower.append(name)
        spread = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append([name, f"{seconds[0]:.3f}", f"{seconds[1]:.3f}", spread])
    print(table(["Case", "Other (s)", "This tree (s)", "Other / this tree"], rows))
    if slower:
        raise SystemExit(f"the median ratio is below {parsed.least}: {'; '.join(slower)}")


def _make_files(folder: Path, scale: float) -> None:
    """Write 400,000 records of 40 numbers, plain and gzip, and 32,768 records of 12 KB."""
    random = np.random.default_rng(0)
    for name in ("small", "small.gz"):
        compression: Any = "gzip" if name.endswith("gz") else None
        with tio.TFRecordWriter(folder / name, compression, index=True) as writer:
            for label in range(int(400_000 * scale)):
                writer.write({"x": random.integers(0, 1000, 40), "label": label})
    with tio.TFRecordWriter(folder / "large", index=True) as writer:
        for label in range(int(32_768 * scale)):
            writer.write({"x": random.bytes(12_000), "label": label})


def _run_with(python: str, folder: str, url: str) -> tuple[str, dict[str, list[Any]]]:
    """Return where a Python has the package; the seconds and the sum of labels of each case."""
    # The package is imported before this tree is found.
    start = "import sys, runpy, torchrec_io; sys.path.append(sys.argv.pop(1))"
    done = subprocess.run(
        [
            os.path.abspath(python),
            "-c",
            f"{start}; runpy.run_module('benchmarks.trees', run_name='__main__')",
            str(ROOT),
            folder,
            "--url",
            url,
        ],
        env={**os.environ, "TORCHREC_IO_CACHE": f"{folder}/index"},
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    place, found = json.loads(done.stdout.splitlines()[-1])
    return place, found


def _measure(folder: Path, url: str) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    for threads in (1, 4):
        for case, (name, options) in _CASES.items():
            path = name.replace("URL", url) if "URL" in name else str(folder / name)
            schema = _SCHEMAS["large" if "large" in name else "small"]
            start = time.perf_counter()
            batches = tio.TFRecordDataset(
                path, schema, batch_size=256, num_threads=threads, **options
            )
            total = sum(int(batch["label"].sum()) for batch in batches)
            found[f"{case}, num_threads={threads}"] = time.perf_counter() - start, total
    little: dict[str, Any] = {_CACHE_BYTES: 8 << 20}
    records = tio.TFRecordMapDataset(str(folder / "small.gz"), _SCHEMAS["small"], **little)
    numbers = np.random.default_rng(0).integers(0, len(records), _RANDOM_RECORDS).tolist()
    start = time.perf_counter()
    total = sum(int(records[number]["label"]) for number in numbers)
    found["gzip, random records"] = time.perf_counter() - start, total
    return found


if __name__ == "__main__":
    main()
