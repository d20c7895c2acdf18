"""How fast is a dataset of samples, compared with batches of the dataset itself?"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, RandomSampler

import torchrec_io as tio
from benchmarks.common import arguments, ensure_data, spread, table
from benchmarks.peers.ours import schema_of
from benchmarks.workloads import WORKLOADS, Workload

_NAMES = ("tabular", "mnist", "ragged", "image_raw")
_READ = 2  # features that a plain loop reads of each sample


def main() -> None:
    """Measure each way and print its speed relative to batches of the dataset."""
    args = arguments(__doc__).parse_args()
    ensure_data(_NAMES, args.scale)
    rows = []
    for name in _NAMES:
        workload = WORKLOADS[name]
        ways = _ways_of(workload)
        _check(ways)
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(args.rounds):
            for way, (make, _) in ways.items():
                rates[way].append(_rate(make()))
        rows += [_row(name, way, base, rates) for way, (_, base) in ways.items()]
    print(table(["Workload", "Way", "Records/s", "Relative to batches of the dataset"], rows))


_Ways = dict[str, tuple[Callable[[], Iterable[Any]], str | None]]


def _ways_of(workload: Workload) -> _Ways:
    """Return functions that start an epoch, and the way that each is compared with."""
    files, schema, size = workload.files, schema_of(workload), workload.batch_size
    samples = tio.TFRecordDataset(files, schema)
    batches = tio.TFRecordDataset(files, schema, batch_size=size)
    records = tio.TFRecordMapDataset(files, schema)
    ways: _Ways = {}
    for workers, where in ((0, "one process"), (2, "2 workers")):
        base = f"batches of the dataset, {where}"
        options: dict[str, Any] = {"num_workers": workers}
        ways[base] = (functools.partial(DataLoader, batches, batch_size=None, **options), None)
        ways[f"DataLoader(batch_size={size}), {where}"] = (
            functools.partial(DataLoader, samples, batch_size=size, **options),
            base,
        )
        ways[f"map-style, RandomSampler, {where}"] = (
            functools.partial(
                DataLoader,
                records,
                batch_size=size,
                sampler=RandomSampler(records),
                **options,
            ),
            base,
        )
    names = list(schema)[:_READ]
    ways[f"for sample in dataset, {_READ} of {len(schema)} features read"] = (
        functools.partial(_read, samples, names),
        "batches of the dataset, one process",
    )
    return ways


def _read(samples: Iterable[Any], names: list[str]) -> Iterable[int]:
    """Read some features of each sample."""
    for sample in samples:
        for name in names:
            sample[name]
        yield 1


def _check(ways: _Ways) -> None:
    """Check that DataLoader makes the very batches of the dataset."""
    (batches, _), (line, _), *_ = ways.values()
    for batch, other in zip(batches(), line(), strict=True):
        assert list(batch) == list(other)
        for parts in zip(tree_leaves(batch), tree_leaves(other), strict=True):
            assert torch.equal(*parts)


def _rate(items: Iterable[Any]) -> float:
    """Return the number of records per second of an epoch."""
    begin = time.perf_counter()
    count = 0
    for item in items:
        count += item if isinstance(item, int) else item.num_records
    return count / (time.perf_counter() - begin)


def _row(name: str, way: str, base: str | None, rates: dict[str, list[float]]) -> list[object]:
    middle = f"{statistics.median(rates[way]):,.0f}"
    if base is None:
        return [name, way, middle, ""]
    ratios = [rate / other for rate, other in zip(rates[way], rates[base], strict=True)]
    return [name, way, middle, spread(ratios)]


if __name__ == "__main__":
    main()
