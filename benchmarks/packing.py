"""How full are packed rows, how fast are they read, and what does planning them cost?

python -m benchmarks.packing [--scale 0.1] [--peer]
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import torchrec_io as tio
from benchmarks.common import arguments, run_child
from benchmarks.peers.venvs import python_of
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.packed_rows import PackedOrder, pack_rows
from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.selection import Span
from torchrec_io._order.windows import Lengths

_LENGTH = 2048
_ROWS = 32
_SIGMA = 1.1
_MEDIANS = (250, 1400)
# Documents in the files of each set, at scale 1, and documents that are planned without files.
_DOCUMENTS = {250: 100_000, 1400: 20_000}
_MANY = 100_000_000
_SCHEMAS: dict[str, Any] = {
    "tokens": {"tokens": tio.VarLenFeature("int64")},
    "tokens, id": {
        "tokens": tio.VarLenFeature("int64"),
        "id": tio.FixedLenFeature([], "int64"),
    },
}


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__, rounds=15)
    parser.add_argument("--peer", action="store_true", help="measure grain, too ($GRAIN_PYTHON)")
    parser.add_argument("--plan", type=int, help="plan that many documents, and print the cost")
    parsed = parser.parse_args()
    if parsed.plan:
        _plan_many(parsed.plan)
        return
    _print_fill(parsed.scale)
    with tempfile.TemporaryDirectory() as folder:
        _print_speed(Path(folder), parsed.scale, parsed.rounds)
    if parsed.peer:
        _print_peer(parsed.scale)
    print(f"\n#### Planning {int(_MANY * parsed.scale):,} documents\n", flush=True)
    count = str(int(_MANY * parsed.scale))
    subprocess.run([sys.executable, "-m", "benchmarks.packing", "--plan", count], check=True)


def lengths_of(median: int, count: int) -> npt.NDArray[np.int64]:
    """Return lengths of documents, distributed as those of texts are."""
    random = np.random.default_rng(0)
    lengths = np.rint(median * np.exp(_SIGMA * random.standard_normal(count)))
    found: npt.NDArray[np.int64] = np.maximum(1, lengths).astype(np.int64)
    return found


def _order(lengths: npt.NDArray[np.int64], **options: Any) -> PackedOrder:
    count = len(lengths)
    whole = RecordOrder(Span(0, count, count), shuffle=True)
    return pack_rows(whole, Lengths(lengths), tio.Pack(_LENGTH, "tokens", **options))


def _print_fill(scale: float) -> None:
    """Print how full rows are. No packing takes fewer rows than the tokens need."""
    print(f"#### Rows of {_LENGTH}\n")
    print("| Median length | Window | Rows | At least | Full |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for median in _MEDIANS:
        lengths = lengths_of(median, int(1_000_000 * scale))
        least = -(-int(lengths.sum()) // _LENGTH)
        for window in (100, 1000, 10_000):
            rows = _order(lengths, window=window).count(0)
            full = lengths.sum() / (rows * _LENGTH)
            print(f"| {median} | {window:,} | {rows:,} | {least:,} | {full:.2%} |")


def _print_speed(folder: Path, scale: float, rounds: int) -> None:
    print("\n#### Tokens per second of CPU time\n")
    print("| Median length | Features | Shuffle | Ragged batches | Packed rows | Ratio |")
    print("| ---: | --- | --- | ---: | --- | ---: |")
    for median in _MEDIANS:
        count = int(_DOCUMENTS[median] * scale)
        path = _write(folder, median, count)
        tokens = int(lengths_of(median, count).sum())
        batch_size = max(1, round(_ROWS * _LENGTH * count / tokens))
        for features, shuffle in itertools.product(_SCHEMAS, (False, True)):
            ragged = tio.TFRecordDataset(
                path, _SCHEMAS[features], batch_size=batch_size, shuffle=shuffle
            )
            for name, pairs in _compare(ragged, rounds):
                plain, rows = (statistics.median(each) for each in zip(*pairs, strict=True))
                speeds = f"{tokens / plain / 1e6:.0f} M | {name}: {tokens / rows / 1e6:.0f} M"
                ratio = statistics.median(before / after for before, after in pairs)
                print(f"| {median} | {features} | {shuffle} | {speeds} | {ratio:.2f} |", flush=True)


def _compare(
    ragged: tio.TFRecordDataset, rounds: int
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield each way to pack, and the CPU times of ragged batches and of packed rows, in turn."""
    cases = {
        "fit": tio.Pack(_LENGTH, "tokens"),
        "fit, labels": tio.Pack(_LENGTH, "tokens", labels="next"),
        "chunk": tio.Pack(_LENGTH, "tokens", mode="chunk"),
    }
    for name, pack in cases.items():
        packed = ragged.replace(pack=pack, batch_size=_ROWS)
        yield name, [(_seconds(ragged), _seconds(packed)) for _ in range(rounds)]


def _write(folder: Path, median: int, count: int) -> str:
    random = np.random.default_rng(1)
    path = str(folder / f"{median}.tfrecord")
    with tio.TFRecordWriter(path) as writer:
        for number, length in enumerate(lengths_of(median, count).tolist()):
            writer.write({"tokens": random.integers(0, 50_000, length), "id": [number]})
    return path


def _seconds(dataset: tio.TFRecordDataset) -> float:
    """Return the CPU time of an epoch, of all threads."""
    dataset.set_epoch(0)
    begin = time.process_time()
    for _ in dataset:
        pass
    return time.process_time() - begin


def _print_peer(scale: float) -> None:
    """Print what grain makes of the same documents, which it gets from memory."""
    print("\n#### grain, from memory\n")
    print("| Median length | Packer | Full | Tokens per second |")
    print("| ---: | --- | ---: | ---: |")
    python = os.environ.get("GRAIN_PYTHON") or python_of("arrayrecord_grain")
    for median in _MEDIANS:
        count = str(int(_DOCUMENTS[median] * scale))
        found = run_child("peer_packing", str(median), count, str(_LENGTH), python=python)
        for name, each in found.items():
            speed = f"{each['tokens_per_second'] / 1e6:.1f} M"
            print(f"| {median} | `{name}` | {each['fill']:.2%} | {speed} |")


def _plan_many(count: int) -> None:
    """Print the time and the memory of planning, for each mode, without any file."""
    lengths = lengths_of(250, count)
    print("| Mode | `len` | First rows | First rows, resumed at 90 % of an epoch | Memory |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for mode in ("fit", "chunk"):
        order = _order(lengths, mode=mode)
        begin = time.perf_counter()
        rows = order.count(0)
        counted = time.perf_counter() - begin
        first = _seconds_to_rows(_order(lengths, mode=mode), rows, 0)
        later = _seconds_to_rows(_order(lengths, mode=mode), rows, rows * 9 // 10)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"| {mode} | {counted:.1f} s | {first:.3f} s | {later:.1f} s | {peak:.1f} GB |")


def _seconds_to_rows(order: PackedOrder, rows: int, consumed: int) -> float:
    begin = time.perf_counter()
    next(order.batches(0, lambda count: EpochPlan(min(count, rows), _ROWS), consumed))
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
