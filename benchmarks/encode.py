"""Speed of encoding examples, compared with building and serializing TensorFlow's messages."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from benchmarks.common import arguments, run_child, spread, table, tensorflow_python
from benchmarks.encode_values import cpu_of, examples_of

_TARGET = 5.0
_WORKLOADS = ("tabular", "mnist", "image_raw")


def _with_arrays(examples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the same examples with lists converted to NumPy arrays."""
    return [
        {key: np.array(value) if isinstance(value, list) else value for key, value in e.items()}
        for e in examples
    ]


def _ways(examples: list[dict[str, Any]]) -> dict[str, Callable[[], list[bytes]]]:
    ways: dict[str, Callable[[], list[bytes]]] = {
        "one per call": lambda: [tio.encode_example(example) for example in examples],
        "256 per call": lambda: tio.encode_examples(examples),
    }
    if any(isinstance(value, list) for value in examples[0].values()):
        arrays = _with_arrays(examples)
        ways["256 per call, as arrays"] = lambda: tio.encode_examples(arrays)
    return ways


def main() -> None:
    """Print the table."""
    args = arguments(__doc__).parse_args()
    rows = []
    for workload in _WORKLOADS:
        ways = _ways(examples_of(workload))
        encoded = ways["one per call"]()
        assert all(way() == encoded for way in ways.values())
        theirs: list[float] = []
        ours: dict[str, list[float]] = {way: [] for way in ways}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "examples")
            path.write_text("\n".join(example.hex() for example in encoded), "utf-8")
            for _ in range(args.rounds):
                peer = run_child("peer_encode", workload, str(path), python=tensorflow_python())
                theirs.append(peer)
                for way, work in ways.items():
                    ours[way].append(cpu_of(work))
        for way, times in ours.items():
            ratios = [a / b for a, b in zip(theirs, times, strict=True)]
            tensorflow = f"{statistics.median(theirs):.1f}"
            rows.append([workload, way, tensorflow, spread(times), spread(ratios, 1), _TARGET])
    headers = ["Workload", "Examples", "TensorFlow, µs", "torchrec_io, µs", "Ratio", "Target"]
    print(table(headers, rows))


if __name__ == "__main__":
    main()
