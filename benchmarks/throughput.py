"""Records per CPU-second against tf.data: same files, same values, one thread each, interleaved."""

from __future__ import annotations

import statistics
import sys

from benchmarks.common import arguments, ensure_data, run_child, spread, table, tensorflow_python
from benchmarks.workloads import WORKLOADS


def _check_same_values(name: str) -> int:
    """Asserts that both sides give every column the same values; returns the number of records."""
    theirs = run_child("peer_tfdata", name, "--digest", python=tensorflow_python())
    own = run_child("ours", name, "--digest")
    assert theirs == own, f"{name}: the sides differ:\n{theirs}\n{own}"
    assert set(own["columns"]) == set(WORKLOADS[name].columns)
    return int(own["records"])


def _rate(module: str, records: int, *options: str, python: str = sys.executable) -> float:
    """Records per CPU-second of one epoch."""
    result = run_child(module, *options, python=python)
    assert result["records"] == records, f"{module} gave {result['records']} of {records} records"
    return float(result["timed"] / result["cpu_s"])


def _measure(name: str, rounds: int) -> list[list[object]]:
    """The rows of a workload: columns as each library's tensors, and as NumPy arrays."""
    records = _check_same_values(name)
    return [
        _compare(name, records, rounds, "tensors", ()),
        _compare(name, records, rounds, "arrays", ("--arrays",)),
    ]


def _compare(
    name: str, records: int, rounds: int, given_as: str, options: tuple[str, ...]
) -> list[object]:
    """A row of the table."""
    theirs, own = [], []
    for _ in range(rounds):
        theirs.append(_rate("peer_tfdata", records, name, *options, python=tensorflow_python()))
        own.append(_rate("ours", records, name, *options))
    ratios = [ours / tf for ours, tf in zip(own, theirs, strict=True)]
    return [
        name,
        given_as,
        f"{records:,}",
        f"{statistics.median(theirs):,.0f}",
        f"{statistics.median(own):,.0f}",
        spread(ratios),
        WORKLOADS[name].target,
    ]


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    args = parser.parse_args()
    ensure_data(args.workloads, args.scale)
    rows = [row for name in args.workloads for row in _measure(name, args.rounds)]
    print(
        table(
            [
                "workload",
                "columns as",
                "records",
                "tf.data, records per CPU-second",
                "torchrec_io, records per CPU-second",
                "ratio (least to greatest)",
                "target",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
