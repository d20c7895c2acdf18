"""Speed, first batch and memory of this library and its peers on the same samples.

python -m benchmarks.side_by_side --scale 0.1 --rounds 3 [--peers NAME...] [--workloads NAME...]

Compares all values before the timing, prints tables as markdown, and draws
results/side_by_side.png if tf.data is measured. Creates missing environments and data.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ceiling, report
from benchmarks.common import arguments, ensure_data
from benchmarks.peers.client import PeerError, Server
from benchmarks.peers.venvs import MODULES, SetupError
from benchmarks.report import OURS, Case, Results
from benchmarks.workloads import WORKLOADS

_WORKERS = (0, 2)
# JPEG decoders may round differently. Average difference of an image's points, of 255.
_MOST_DIFFERENCE = 2.0


class _Peer(NamedTuple):
    name: str
    server: Server


# ---- peers ----


@contextmanager
def _peers(modules: list[str], results: Results) -> Iterator[list[_Peer]]:
    """Start the peers that can be measured, this library first."""
    with ExitStack() as stack:
        peers = []
        for module in ["ours", *(module for module in modules if module != "ours")]:
            try:
                server = Server(module)
            except (SetupError, PeerError) as error:
                results.note(module, f"not measured: {error}")
                continue
            stack.callback(server.close)
            peers += [_Peer(name, server) for name in server.peers]
        yield peers


# ---- comparing values ----


def _checked(peers: list[_Peer], workload: str, results: Results) -> list[tuple[_Peer, Case]]:
    """Return the cases of a workload whose values all equal ours."""
    measured = []
    expected: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        pictures, reference = (str(Path(folder, name)) for name in ("theirs.npy", "ours.npy"))
        for peer in peers:
            for workers in _WORKERS:
                case = Case(peer.name, workload, workers)
                into = pictures if expected else reference
                found = peer.server.ask(peer.name, "check", workload, workers, pictures=into)
                if "skipped" in found:
                    results.note(peer.name, found["skipped"], case)
                    continue
                if not expected:
                    assert "error" not in found, f"{case}: {found}"
                    expected = found
                why = found.get("error") or _difference(expected, found, reference, into)
                # TensorFlow must agree with this library. Other peers that do not are skipped.
                assert not (why and peer.name.startswith((OURS, "tf.data"))), f"{case}: {why}"
                if why:
                    results.note(peer.name, why, case)
                    continue
                measured.append((peer, case))
                _say(f"checked {case}")
    return measured


def _difference(
    expected: dict[str, Any], found: dict[str, Any], reference: str, pictures: str
) -> str | None:
    """Describe the difference between two epochs. Return None if they are equal."""
    if found != expected:
        return f"values differ from ours: {found}, not {expected}"
    if Path(reference).exists():
        ours, theirs = (np.load(path).astype(np.float64) for path in (reference, pictures))
        most = float(np.abs(ours - theirs).mean(axis=(1, 2, 3)).max())
        if most > _MOST_DIFFERENCE:
            return f"an image differs from ours by {most:.1f} on average"
    return None


# ---- speed ----


def _measure(cases: list[tuple[_Peer, Case]], seconds: float, results: Results) -> None:
    """Measure each case once."""
    for peer, case in cases:
        found = peer.server.ask(peer.name, "measure", case.workload, case.workers, seconds=seconds)
        if "error" in found:
            results.note(peer.name, found["error"], case)
            continue
        results.add(case, found)
        _say(f"{case}: {found['records_per_s']:,.0f} records/s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=3)
    parser.set_defaults(scale=0.1)
    parser.add_argument("--peers", nargs="*", default=list(MODULES), choices=MODULES)
    parser.add_argument("--workloads", nargs="*", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=0.5, help="duration of each measurement")
    return parser.parse_args()


def main() -> None:
    """Measure, print the tables, and draw the plot."""
    args = _options()
    ensure_data(args.workloads, args.scale)
    results = Results()
    with _peers(args.peers, results) as peers:
        cases = [case for name in args.workloads for case in _checked(peers, name, results)]
        for number in range(args.rounds):
            _say(f"round {number + 1} of {args.rounds}")
            _measure(cases, args.seconds, results)
            if "image_raw" in args.workloads:
                results.ceilings.append(ceiling.bytes_per_second(WORKLOADS["image_raw"].files))
    print(report.speeds(results))
    print()
    print(report.bars(results))
    print()
    print(report.notes(results))
    if "tfdata" in args.peers:  # bars are relative to it
        report.draw(results, str(Path(__file__).parent / "results" / "side_by_side.png"))


if __name__ == "__main__":
    main()
