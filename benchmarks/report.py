"""Results of ``side_by_side.py``: tables and a plot."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.common import MB, spread, table
from benchmarks.workloads import WORKLOADS

OURS = "torchrec_io"
_AS_DICTS = "torchrec_io, sent as a dict of tensors"
_TF_DATA = "tf.data"
# Colours of the bars of the plot.
_COLOURS = {
    "torchrec_io": "#ee4c2c",
    "tf.data": "#9aa0a6",
    "the fastest other library for PyTorch": "#cfd4da",
}


class Case(NamedTuple):
    """A peer on a workload with a number of workers."""

    peer: str
    workload: str
    workers: int

    def __str__(self) -> str:
        return f"{self.peer}, {self.workload}, {_how(self.workers)}"


class Results:
    """Measurements, and the reasons for missing ones.

    Attributes:
        of: Measurements of each case, one for each round.
        ceilings: Bytes per second that a C program reads, one value for each round.
        remarks: Cases that were not measured, by peer and reason.
    """

    def __init__(self) -> None:
        self.of: dict[Case, list[dict[str, Any]]] = defaultdict(list)
        self.ceilings: list[float] = []
        self.remarks: dict[tuple[str, str], list[Case]] = defaultdict(list)

    def add(self, case: Case, found: dict[str, Any]) -> None:
        """Add a measurement of one round."""
        self.of[case].append(found)

    def note(self, peer: str, why: str, case: Case | None = None) -> None:
        """Add a reason why a case was not measured. Settings of a peer share their reasons."""
        self.remarks[peer.partition(",")[0], why] += [case] if case else []

    def workloads(self) -> list[str]:
        """Return the measured workloads."""
        return list(dict.fromkeys(case.workload for case in self.of))

    def peers(self, workload: str) -> list[str]:
        """Return the peers measured on a workload, this library first."""
        return list(dict.fromkeys(case.peer for case in self.of if case.workload == workload))

    def rates(self, case: Case) -> list[float]:
        """Return the records per second of each round."""
        return [found["records_per_s"] for found in self.of.get(case, ())]

    def fastest(self, workload: str, workers: int, *, tensorflow: bool) -> Case | None:
        """Return TensorFlow's best setting, or the fastest other peer, by the median."""
        cases = [
            case
            for case in self.of
            if (case.workload, case.workers) == (workload, workers)
            and not case.peer.startswith(OURS)
            and case.peer.startswith(_TF_DATA) == tensorflow
        ]
        return max(cases, key=lambda case: statistics.median(self.rates(case)), default=None)

    def ratios(self, case: Case) -> list[float]:
        """Return the speedup of this library with the same number of workers, for each round."""
        ours = self.rates(Case(OURS, case.workload, case.workers))
        return [a / b for a, b in zip(ours, self.rates(case), strict=False)]


def _how(workers: int) -> str:
    return f"{workers} workers" if workers else "one process"


# ---- tables ----


def speeds(results: Results) -> str:
    """Format the table with a row for each workload and peer."""
    headers = ["Workload", "Library"]
    for figure in (
        "Records/s",
        "Speedup",
        "Records per CPU-second",
        "First batch, ms",
        "Peak memory, MB",
    ):
        headers += [f"{figure}, one process", f"{figure}, 2 workers"]
    rows = []
    for workload in results.workloads():
        for peer in results.peers(workload):
            cases = [Case(peer, workload, workers) for workers in (0, 2)]
            rows.append(
                [
                    workload,
                    peer,
                    *(_median(results, case, "records_per_s", 1) for case in cases),
                    *(_times(results, case) for case in cases),
                    *(_median(results, case, "records_per_cpu_s", 1) for case in cases),
                    *(_median(results, case, "first_batch_s", 1e-3) for case in cases),
                    *(_median(results, case, "peak_bytes", MB) for case in cases),
                ]
            )
    return table(headers, rows)


def _median(results: Results, case: Case, key: str, unit: float) -> str:
    found = [of[key] / unit for of in results.of.get(case, ())]
    return f"{statistics.median(found):,.0f}" if found else ""


def _times(results: Results, case: Case) -> str:
    ratios = results.ratios(case)
    if case.peer == OURS or not ratios:
        return ""
    return f"{statistics.median(ratios):.1f}x"


def bars(results: Results) -> str:
    """Format the table of the ratios, with the fastest of the others only."""
    rows = [row for workload in results.workloads() for row in _bars_of(results, workload)]
    rows += _from_workers(results)
    rows += _of_ceiling(results)
    return table(["Workload", "Compared with", "Ratio (minimum to maximum)"], rows)


def _bars_of(results: Results, workload: str) -> list[list[object]]:
    rows: list[list[object]] = []
    best = results.fastest(workload, 0, tensorflow=True)
    if best:
        rows.append([workload, best.peer, spread(results.ratios(best))])
    for workers in (0, 2):
        best = results.fastest(workload, workers, tensorflow=False)
        if best:
            against = f"{best.peer}, the fastest PyTorch peer, {_how(workers)}"
            rows.append([workload, against, spread(results.ratios(best))])
    return rows


def _from_workers(results: Results) -> list[list[object]]:
    sent = results.rates(Case(OURS, "tabular", 2))
    rows: list[list[object]] = []
    for against, case in (
        ("tabular, one process", Case(OURS, "tabular", 0)),
        ("the same batches as dicts of 40 tensors", Case(_AS_DICTS, "tabular", 2)),
    ):
        ratios = [a / b for a, b in zip(sent, results.rates(case), strict=False)]
        if ratios:
            rows.append(["tabular, from 2 workers", against, spread(ratios)])
    return rows


def _of_ceiling(results: Results) -> list[list[object]]:
    rates = results.rates(Case(OURS, "image_raw", 0))
    if not rates or not results.ceilings:
        return []
    workload = WORKLOADS["image_raw"]
    records = workload.made_records
    size = sum(os.path.getsize(file) for file in workload.files) / records
    ratios = [rate * size / most for rate, most in zip(rates, results.ceilings, strict=False)]
    most = statistics.median(results.ceilings) / 1e9
    against = f"read() + CRC + one copy, in C: {most:.1f} GB/s"
    return [["image_raw", against, spread(ratios)]]


def notes(results: Results) -> str:
    """Format the list of cases that were not measured, with reasons."""
    lines = []
    for (peer, why), cases in results.remarks.items():
        if peer == OURS:
            continue
        workloads = ", ".join(dict.fromkeys(case.workload for case in cases))
        ways = ", ".join(dict.fromkeys(_how(case.workers) for case in cases))
        lines.append(f"- {peer}: {why}{f' ({workloads}; {ways})' if cases else ''}")
    return "\n".join(lines)


# ---- the plot ----


def draw(results: Results, path: str) -> None:
    """Draw the records per second of one process, relative to the best setting of tf.data."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    workloads = results.workloads()
    bars: dict[str, list[float]] = {label: [] for label in _COLOURS}
    for workload in workloads:
        tensorflow = results.fastest(workload, 0, tensorflow=True)
        assert tensorflow is not None, f"{workload}: tf.data was not measured"
        ours = statistics.median(results.ratios(tensorflow))
        other = results.fastest(workload, 0, tensorflow=False)
        theirs = ours / statistics.median(results.ratios(other)) if other else 0.0
        for label, ratio in zip(_COLOURS, (ours, 1.0, theirs), strict=True):
            bars[label].append(ratio)
    mpl.use("agg")
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    for number, (label, ratios) in enumerate(bars.items()):
        at = [position + 0.27 * (number - 1) for position in range(len(workloads))]
        drawn = axes.barh(at, ratios, 0.25, color=_COLOURS[label], label=label)
        axes.bar_label(drawn, [f"{ratio:.2g}" for ratio in ratios], padding=3, fontsize=8)
    axes.set_yticks(range(len(workloads)), [WORKLOADS[workload].title for workload in workloads])
    axes.invert_yaxis()
    axes.set_xlabel("records per second, relative to the best setting of tf.data")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
