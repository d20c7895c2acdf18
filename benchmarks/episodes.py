"""How fast are steps of episodes, and windows of them, in stored order and in a uniform shuffle?

A sample of windows has the frames of two cameras at one step, and the next 16 actions, clamped to
the episode: its 16 actions cost no other frames. TFDS makes the same samples in the same run, with
a shuffle buffer: of decoded samples, as it does by default, and of encoded ones, as Octo does. Each
measurement runs in a process of its own on one CPU, and the sums of all values of an epoch must be
equal. Run it with ``python -m benchmarks.episodes``.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import torchrec_io as tio
from benchmarks.common import MB, arguments, run_child, spread, table, tensorflow_python, warm
from benchmarks.episode_data import CAMERAS, EPISODES, HORIZON, write_episodes
from benchmarks.workloads import data_dir

_BATCH_SIZE = 32
_LEAST_SAMPLES = 1000  # per CPU-second, of shuffled windows
_LEAST_OF_SINGLE = 0.7  # of single steps in stored order
_LEAST_OF_TFDS = 5
_CASES = {
    "single": "single steps, stored order",
    "windows": "windows, stored order",
    "single-shuffled": "single steps, uniform shuffle",
    "windows-shuffled": "windows, uniform shuffle",
}
_PEERS = {
    "early": "TFDS, windows, shuffle buffer of 1,000 decoded samples",
    "late": "TFDS, windows, shuffle buffer of 1,000 encoded samples",
}


def _loader(kind: str, folder: Path) -> Any:
    episodes = tio.TFRecordDataset.from_tfds(
        folder,
        "train",
        batch_size=_BATCH_SIZE,
        shuffle=kind.endswith("shuffled"),
        num_threads=1,
    )
    offsets = {"action": range(HORIZON)} if kind.startswith("windows") else None
    return tio.make_loader(episodes.steps(offsets, outside="repeat"), num_workers=0)


def _measure(kind: str, folder: Path) -> dict[str, Any]:
    """Return the figures of an epoch, as ``peer_episodes.py`` does, and the bytes that it read."""
    torch.set_num_threads(1)
    loader = _loader(kind, folder)
    batches = iter(loader)
    found: dict[str, Any] = {"samples": 0, "sums": _sums_of(next(batches))}
    memory = _peak_memory()
    cpu, wall = time.process_time(), time.perf_counter()
    spent = 0.0  # for the sums
    for batch in batches:
        found["samples"] += len(batch["steps"]["action"])
        start = time.process_time()
        found["sums"] = [sum(pair) for pair in zip(found["sums"], _sums_of(batch), strict=True)]
        spent += time.process_time() - start
    found["cpu"] = time.process_time() - cpu - spent
    found["wall"] = time.perf_counter() - wall - spent
    found["memory"] = _peak_memory()
    found["growth"] = found["memory"] - memory
    found["bytes"] = loader.stats().bytes
    return found


def _sums_of(batch: Any) -> list[float]:
    """Return the sums of pixels and of actions."""
    steps = batch["steps"]
    pixels = sum(int(steps["observation"][name].sum()) for name in CAMERAS)
    return [pixels, float(steps["action"].double().sum())]


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _assert_equal(mine: dict[str, Any], theirs: dict[str, Any], pixels: float = 0.0) -> None:
    assert mine["samples"] == theirs["samples"]
    assert math.isclose(mine["sums"][0], theirs["sums"][0], rel_tol=pixels)
    assert math.isclose(mine["sums"][1], theirs["sums"][1], rel_tol=1e-6, abs_tol=1e-3)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--measure", nargs=2, help="kind and folder; prints the figures as JSON")
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(_measure(args.measure[0], Path(args.measure[1]))))
        return
    data_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data_dir()) as temporary:
        path = write_episodes(Path(temporary), max(2, round(EPISODES * args.scale)))
        warm([str(path)])
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in (*_CASES, *_PEERS)}
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # also of the processes below
        for _ in range(args.rounds):
            for kind in _CASES:
                found[kind].append(run_child("episodes", "--measure", kind, temporary))
            for kind in _PEERS:
                options = (temporary, str(HORIZON), kind)
                found[kind].append(run_child("peer_episodes", *options, python=tensorflow_python()))
            mine = found["windows-shuffled"][-1]
            _assert_equal(mine, found["windows"][-1])
            _assert_equal(mine, found["late"][-1])
            # TFDS itself decodes with the fast transform, whose pixels differ slightly.
            _assert_equal(mine, found["early"][-1], pixels=0.01)
        _print(found, path.stat().st_size)


def _print(found: dict[str, list[dict[str, Any]]], size: int) -> None:
    def rates(kind: str, of: str) -> list[float]:
        return [each["samples"] / each[of] for each in found[kind]]

    def ratio(kind: str) -> str:
        mine = zip(rates("windows-shuffled", "cpu"), rates(kind, "cpu"), strict=True)
        return f"{statistics.median(one / other for one, other in mine):.2f}"

    rows = [
        [
            {**_CASES, **_PEERS}[kind],
            spread(rates(kind, "cpu"), 0),
            spread(rates(kind, "wall"), 0),
            f"{runs[0].get('bytes', size) / _samples(runs[0]):,.0f}",
            f"{statistics.median(each['memory'] for each in runs) / MB:,.0f}",
            f"{runs[0]['growth'] / MB:,.0f}" if "growth" in runs[0] else "",
        ]
        for kind, runs in found.items()
    ]
    headers = ["Samples", "Samples per CPU-second", "Samples/s", "Bytes read per sample"]
    print(table([*headers, "Peak memory, MB", "Growth after the first batch, MB"], rows))
    print(f"\nShuffled windows: at least {_LEAST_SAMPLES:,} samples per CPU-second are wanted.")
    single, early, late = map(ratio, ("single", "early", "late"))
    print(f"Relative to single steps in stored order: {single} (at least {_LEAST_OF_SINGLE})")
    print(f"Relative to TFDS: {early} and {late} (at least {_LEAST_OF_TFDS})")


def _samples(run: dict[str, Any]) -> int:
    return int(run["samples"]) + _BATCH_SIZE  # the first batch is not timed


if __name__ == "__main__":
    main()
