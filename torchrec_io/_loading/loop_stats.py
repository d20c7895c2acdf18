"""Statistics of a training loop: of its dataset, and of the time that the loop waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from time import monotonic_ns, thread_time_ns
from typing import Any

import torch

from .._datasets.statistics import (
    COUNTED,
    COUNTER_NUMBERS,
    WAITING_RANGE,
    LoadingCounters,
    LoadingStats,
    StatsWindow,
    stats_between,
)
from ..timing.steps import active_profiler, profiler_range
from .images import image_features

_WAITING, _COPYING, _CONSUMER = map(COUNTED.index, ("waiting_for_data", "copying", "consumer"))

_END = object()


class LoopStats:
    """Measures a training loop, and adds what its dataset counts.

    Args:
        dataset: The dataset that the loop reads, of any class.
        in_batches: Whether an item is a batch.
    """

    def __init__(self, dataset: Any, *, in_batches: bool) -> None:
        self._datasets = list(_counting_datasets(dataset))
        self._in_batches = in_batches
        self._counters = LoadingCounters(torch.zeros(COUNTER_NUMBERS, dtype=torch.int64))
        self._window = StatsWindow(self._counted())
        # Numbers at the start of the last loop, its start, and its end if it has ended.
        self._loop: tuple[list[int], int, int | None] | None = None

    def measured(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yield the items of a loop, and measure how long it waits for them."""
        meter = self._counters.meter(counts_waiting=True, counts_pauses=False)
        self._counters.begin()
        begin = monotonic_ns()
        before = self._counted()
        self._loop = (before, begin, None)
        batches = int(self._in_batches)
        try:
            while True:
                is_profiled = active_profiler() is not None
                with profiler_range(WAITING_RANGE) if is_profiled else nullcontext():
                    meter.start()
                    busy = thread_time_ns() if batches else 0  # too slow for single samples
                    item = _END
                    try:
                        item = next(items, _END)
                    finally:
                        meter.stop(batches=0 if item is _END else batches)
                        if batches:
                            self._counters.add("consumer", thread_time_ns() - busy)
                if item is _END:
                    return
                yield item
        finally:
            self._loop = (before, begin, monotonic_ns())

    def take(self) -> LoadingStats:
        """Return the statistics since the last call."""
        return self._window.take(self._counted(), self._counters.began)

    def bottleneck(self) -> str | None:
        """Return a sentence about the last loop that names its slowest step; None before it."""
        if self._loop is None:
            return None
        before, begin, end = self._loop
        stats = stats_between(before, self._counted(), (end or monotonic_ns()) - begin)
        if stats.batches + stats.records == 0:
            return None
        decodes_images = any(map(image_features, self._datasets))
        return describe_bottleneck(stats, "images" if decodes_images else "values")

    def _counted(self) -> list[int]:
        """Return the numbers of a :class:`StatsWindow` so far."""
        own = self._counters.snapshot()
        if not self._datasets:
            return own
        each = [dataset._counted() for dataset in self._datasets]
        # Several datasets, of which some are mixtures, have no sources in common.
        known = each if len(each) == 1 else [numbers[: len(COUNTED)] for numbers in each]
        numbers = [sum(column) for column in zip(*known, strict=True)]
        numbers[_COPYING] = own[_COPYING]
        numbers[_CONSUMER] = own[_CONSUMER]
        numbers[_WAITING] = own[_WAITING] - own[_COPYING]
        return numbers


def describe_bottleneck(stats: LoadingStats, decoded: str = "values") -> str:
    """Return a sentence about the wait of the training loop and the slowest step of loading.

    Args:
        stats: Statistics of a loop.
        decoded: Plural noun for the values that are decoded.
    """
    shares = [f"waits {_percent(stats.waiting_for_data, stats.seconds)} of the time"]
    if stats.copying > 0:
        shares.append(f"copies batches for {_percent(stats.copying, stats.seconds)}")
    text = f"the training loop {' and '.join(shares)}"
    steps = {
        "reading files": stats.reading,
        "verifying checksums": stats.checking,
        "parsing records": stats.parsing,
        f"decoding {decoded}": stats.decoding,
        "the transform": stats.transform,
    }
    slowest = max(steps, key=lambda name: steps[name])
    if steps[slowest] > 0:
        text += f"; {slowest} takes {_percent(steps[slowest], sum(steps.values()))} of loading"
    return text


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def _counting_datasets(dataset: Any) -> Iterator[Any]:
    """Yield the datasets of this package that a dataset, such as a ``Subset``, reads."""
    if hasattr(dataset, "_counted"):
        yield dataset
        return
    for part in (getattr(dataset, "dataset", None), *getattr(dataset, "datasets", ())):
        if part is not None:
            yield from _counting_datasets(part)
