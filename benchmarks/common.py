"""Helpers of the measurements: child processes, data files, memory, tables."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.workloads import ROOT, WORKLOADS, data_dir

MB = 1_000_000
BIG_FILE_BYTES = 2_000 * MB

_FRAME_HEADER_BYTES = 12
_FRAME_FOOTER_BYTES = 4


# ---- the command line ----


def arguments(description: str | None, *, rounds: int = 5) -> argparse.ArgumentParser:
    """Return a parser with the options of every measurement."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data files")
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="number of times each case is measured"
    )
    return parser


# ---- child processes ----


def tensorflow_python() -> str:
    """Return the Python with TensorFlow: ``$TF_PYTHON``, or that of ``.venv-tf``."""
    found = os.environ.get("TF_PYTHON") or str(ROOT / ".venv-tf" / "bin" / "python")
    if not os.path.exists(found):
        raise SystemExit(f"{found} does not exist; run `make setup-tf` to create .venv-tf")
    return found


def child_environment() -> dict[str, str]:
    """Return the environment of child processes, which keep indexes with the data files."""
    return {
        "TORCHREC_IO_CACHE": str(data_dir() / "index"),
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
    }


def run_child(module: str, *args: str, python: str = sys.executable, **environment: str) -> Any:
    """Run a module of this folder in a fresh process and return the JSON that it prints."""
    done = subprocess.run(
        [python, "-m", f"benchmarks.{module}", *args],
        cwd=ROOT,
        env=child_environment() | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{module} {' '.join(args)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ensure_data(names: Sequence[str], scale: float) -> None:
    """Create missing files of workloads, and read all files into the page cache."""
    missing = [name for name in names if not WORKLOADS[name].is_made(scale)]
    if missing:
        make = [tensorflow_python(), "-m", "benchmarks.make_data"]
        command = [*make, *missing, "--scale", str(scale)]
        subprocess.run(command, cwd=ROOT, env=child_environment(), check=True, stdout=sys.stderr)
    for name in names:
        warm(WORKLOADS[name].files)


# ---- files ----


def warm(paths: Sequence[str]) -> int:
    """Read files into the page cache and return their size."""
    buffer = bytearray(1 << 20)
    total = 0
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while got := file.readinto(buffer):
                total += got
    return total


def walk_frames(path: str) -> list[int]:
    """Return the offset of each frame, found by a plain reading loop."""
    offsets = []
    at = 0
    with open(path, "rb") as file:
        while header := file.read(_FRAME_HEADER_BYTES):
            (length,) = struct.unpack("<Q", header[:8])
            offsets.append(at)
            file.read(length + _FRAME_FOOTER_BYTES)
            at += _FRAME_HEADER_BYTES + length + _FRAME_FOOTER_BYTES
    return offsets


@contextmanager
def joined_file(size: int, *, keep: bool = False) -> Iterator[str]:
    """Provide a file of about ``size`` bytes: the tabular shards, concatenated and repeated."""
    path = data_dir() / f"tabular-{size // MB}MB.tfrecord"
    try:
        if not path.exists() or not size <= path.stat().st_size < size + MB:
            _join_shards(path, size)
        warm([str(path)])
        yield str(path)
    finally:
        if not keep:
            path.unlink(missing_ok=True)


def _join_shards(path: Path, size: int) -> None:
    with open(path, "wb") as out:
        for shard in itertools.cycle(WORKLOADS["tabular"].files):
            rest = size - out.tell()
            with open(shard, "rb") as file:
                if os.path.getsize(shard) < rest:
                    shutil.copyfileobj(file, out, 1 << 20)
                    continue
                ends = [*walk_frames(shard)[1:], os.path.getsize(shard)]
                out.write(file.read(next(end for end in ends if end >= rest)))
                return


# ---- memory ----


def memory_of(pid: int | None = None) -> dict[str, int]:
    """Return the memory of a process in bytes: VmRSS, VmHWM (the peak), RssAnon and others.

    Args:
        pid: Process to inspect. Default: this process.
    """
    found = {}
    for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.startswith(("Vm", "Rss")):
            found[name] = int(value.split()[0]) * 1024
    return found


# ---- printing ----


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a markdown table. All columns except the first are right-aligned."""
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Format the median and, in brackets, the minimum and the maximum."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
