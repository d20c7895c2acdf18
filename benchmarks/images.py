"""How fast images are decoded, cut out and resized, compared with TensorFlow and other libraries.

python -m benchmarks.images [--rounds 5] [--peers NAME...] [--recipes NAME...]

All peers cut the same boxes out of the same photos. Their pixels are first compared with those of
Pillow. Each is then measured in a fresh process, on one CPU; some on two. The limit is a C++
program around libjpeg-turbo and the resizing of this library (``jpeg_limit.cpp``).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import arguments, child_environment, table
from benchmarks.image_data import RECIPES, Recipe, ensure_images
from benchmarks.peers.venvs import SetupError, python_of
from benchmarks.workloads import ROOT

_OURS = "torchrec_io"
_LIMIT = "limit"
_TENSORFLOW = "tf.data"
_ANTIALIASED = "tf.data, antialias=True"
# Largest average difference of pixels from those of Pillow, for peers that resize as Pillow does,
# and for those whose resizing is not antialiased or uses another filter.
_SAME, _OTHER = 0.5, 3.0


class _Peer(NamedTuple):
    """A peer.

    Attributes:
        name: Name in its module, and in the tables.
        module: Module of ``image_peers``.
        recipes: Recipes it is measured with.
        most_difference: Largest average difference from the pixels of Pillow, in levels.
        cpus: Numbers of CPUs it is measured on.
    """

    name: str
    module: str
    recipes: tuple[str, ...]
    most_difference: float = _SAME
    cpus: tuple[int, ...] = (1,)


_ALL = tuple(RECIPES)
_PEERS = (
    _Peer(_OURS, "ours", _ALL, cpus=(1, 2)),
    _Peer("torchrec_io, fast=True", "ours", ("crop", "evaluate"), _OTHER),
    _Peer('torchrec_io, decoder="pillow"', "ours", _ALL),
    _Peer(_TENSORFLOW, "tfdata", _ALL, _OTHER, cpus=(1, 2)),
    _Peer(_ANTIALIASED, "tfdata", ("crop", "train", "evaluate")),
    _Peer("NVIDIA DALI (CPU)", "dali", ("crop",), _OTHER),
    _Peer("OpenCV in a DataLoader", "opencv", ("crop",), _OTHER),
    _Peer("OpenCV in a DataLoader, INTER_AREA", "opencv", ("crop",), _OTHER),
    _Peer("SPDL (FFmpeg)", "spdl", ("crop",), _OTHER),
    _Peer("Pillow in a DataLoader", "pillow", ("crop", "evaluate", "whole", "png")),
    _Peer("simplejpeg and Pillow in a DataLoader", "simplejpeg_pillow", ("crop",)),
    _Peer("torchcodec in a DataLoader", "torchcodec", ("crop", "evaluate", "whole")),
    _Peer("FFCV", "ffcv", ("crop",), _OTHER),
    _Peer("webdataset and Pillow in a DataLoader", "webdataset", ("crop",)),
)
# Rates of a peer with a recipe and a number of CPUs, one for each round: per CPU-second and second.
_Rates = dict[tuple[str, str, int], list[tuple[float, float]]]
# Average difference of a peer's pixels from those of Pillow with a recipe.
_Differences = dict[tuple[str, str], float]


# ---- the limit ----


@cache
def _limit_program() -> str:
    program = str(Path(tempfile.mkdtemp(prefix="limit-")) / "jpeg_limit")
    core = ROOT / "torchrec_io" / "_core"
    sources = [ROOT / "benchmarks" / "jpeg_limit.cpp", *(core / "image").glob("resample*.cpp")]
    flags = ["-std=c++20", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", f"-I{core}"]
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, *flags, "-o", program, *map(str, sources), "-ljpeg"]
    subprocess.run(command, check=True)
    return program


def _measure_limit(recipe: Recipe, seconds: float) -> dict[str, float]:
    """Return the rates of the limit program, after its pixels were compared."""
    with tempfile.NamedTemporaryFile() as out:
        program = [_limit_program(), recipe.limit_input, recipe.name, str(seconds), out.name]
        done = subprocess.run(program, check=True, capture_output=True, text=True)
        pixels = np.fromfile(out.name, np.uint8).reshape(recipe.pixels.shape)
    difference = np.abs(pixels.astype(np.int16) - recipe.pixels).max()
    assert difference <= 1, f"the limit's pixels differ by {difference}"
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


# ---- peers ----


def _measure(peer: _Peer, recipe: str, cpus: int, seconds: float) -> dict[str, float]:
    python = sys.executable if peer.module == "pillow" else python_of(peer.module)
    module = ["-m", "benchmarks.image_peers.run", peer.module, peer.name]
    done = subprocess.run(
        [python, *module, recipe, str(cpus), str(seconds)],
        cwd=ROOT,
        env=child_environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SetupError((done.stderr.strip().splitlines() or ["it failed"])[-1])
    found: dict[str, float] = json.loads(done.stdout)
    difference = found["mean_difference"]
    assert difference <= peer.most_difference, f"{peer.name}, {recipe}: differs by {difference}"
    if peer.module == "ours" and peer.most_difference == _SAME:
        assert found["share_over_one"] <= 0.001, found
        assert found["most_difference"] <= 2, found
    return found


def _run(args: Any) -> tuple[_Rates, dict[str, list[dict[str, float]]], _Differences]:
    rates: _Rates = defaultdict(list)
    limits: dict[str, list[dict[str, float]]] = defaultdict(list)
    differences: _Differences = {}
    failed: set[str] = set()
    for _ in range(args.rounds):
        for name in args.recipes:
            recipe = RECIPES[name]
            if name not in ("png", "train"):
                limits[name].append(_measure_limit(recipe, args.seconds))
            for peer in _PEERS:
                if name not in peer.recipes or peer.module not in args.peers or peer.name in failed:
                    continue
                for cpus in peer.cpus:
                    try:
                        found = _measure(peer, name, cpus, args.seconds)
                    except SetupError as error:
                        print(f"{peer.name} is not measured: {error}", file=sys.stderr)
                        failed.add(peer.name)
                        break
                    both = found["images_per_cpu_s"], found["images_per_s"]
                    rates[peer.name, name, cpus].append(both)
                    differences.setdefault((peer.name, name), found["mean_difference"])
    return rates, limits, differences


# ---- tables ----


def _ratios(ours: list[float], theirs: list[float]) -> str:
    """Return the median of the ratios of the rounds, and their range."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _per_cpu(rates: _Rates, name: str, recipe: str) -> list[float]:
    return [rate for rate, _ in rates[name, recipe, 1]]


def _bars(rates: _Rates, limits: dict[str, list[dict[str, float]]], recipes: list[str]) -> str:
    rows: list[list[object]] = []

    def add(recipe: str, what: str, other: list[float], target: str) -> None:
        ours = _per_cpu(rates, _OURS, recipe)
        if ours and other:
            rows.append([RECIPES[recipe].text, what, _ratios(ours, other), target])

    for recipe in recipes:
        found = [rate["images_per_cpu_s"] for rate in limits[recipe]]
        add(recipe, "the limit", found, "0.85")
        bar = {"crop": "1.15", "train": "1.15", "png": "1.5"}.get(recipe, "")
        add(recipe, _TENSORFLOW, _per_cpu(rates, _TENSORFLOW, recipe), bar)
        bar = "2" if recipe in ("crop", "train") else ""
        add(recipe, _ANTIALIASED, _per_cpu(rates, _ANTIALIASED, recipe), bar)
        one, two = ([rate for _, rate in rates[_OURS, recipe, cpus]] for cpus in (1, 2))
        if one:
            rows.append([RECIPES[recipe].text, "one CPU, by wall clock", _ratios(two, one), "1.8"])
    return table(["Images", "Compared with", "Ratio", "Target"], rows)


def _rates_table(rates: _Rates, differences: _Differences, recipe: str) -> str:
    rows: list[list[object]] = []
    for peer in _PEERS:
        for cpus in peer.cpus:
            found = rates.get((peer.name, recipe, cpus))
            if not found:
                continue
            per_cpu, per_second = (statistics.median(values) for values in zip(*found, strict=True))
            difference = f"{differences[peer.name, recipe]:.2f}"
            rows.append([peer.name, cpus, f"{per_cpu:,.0f}", f"{per_second:,.0f}", difference])
    headers = [
        "Peer",
        "CPUs",
        "Images per CPU-second",
        "Images/s",
        "Average difference from Pillow",
    ]
    return table(headers, rows)


def main() -> None:
    """Measure and print the tables."""
    parser = arguments(__doc__)
    modules = list(dict.fromkeys(peer.module for peer in _PEERS))
    parser.add_argument("--peers", nargs="*", default=modules, choices=modules)
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--seconds", type=float, default=3, help="CPU-seconds of a measurement")
    args = parser.parse_args()
    ensure_images()
    rates, limits, differences = _run(args)
    print(_bars(rates, limits, args.recipes))
    for recipe in args.recipes:
        print(f"\n{RECIPES[recipe].text}\n")
        print(_rates_table(rates, differences, recipe))
        if limits[recipe]:
            both, decoded = (
                statistics.median(rate[key] for rate in limits[recipe])
                for key in ("images_per_cpu_s", "decoded_per_cpu_s")
            )
            print(f"\nLimit: {both:,.0f} per CPU-second, decoding alone {decoded:,.0f}.")


if __name__ == "__main__":
    main()
