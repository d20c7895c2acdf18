"""What a page says about a report. The templates call these functions by their names."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..checks import counted
from .text import number, percent, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .content import FeatureReport, Histogram, ImageSummary, NumberSummary
    from .results import Report

_TIMES = "\u00d7"
_FEW_NUMBERS = 12
_MOST_BARS = 100
_UNEVEN = 1.5  # largest to mean number of records, from which files are called uneven


# ---- files ----


def compressions(report: Report) -> list[tuple[str, int]]:
    """Return the compressions of the files and their numbers."""
    return Counter(file.compression or "not compressed" for file in report.files).most_common()


def balance(counts: Sequence[int]) -> str:
    """Say whether files have about the same number of records."""
    least, most = min(counts), max(counts)
    if least == most:
        return f"Each file has {counted(most, 'record')}."
    found = f"A file has {least:,} to {counted(most, 'record')}."
    if most <= _UNEVEN * sum(counts) / len(counts):
        return f"{found} The files are balanced."
    return (
        f"{found} The files are uneven: a reader of whole files would wait for the largest one. "
        "torchrec-io reshard writes files of equal size."
    )


def balance_bars(counts: Sequence[int]) -> tuple[list[float], list[str]]:
    """Return the mean of each group of neighboring files, and its title."""
    step = -(len(counts) // -_MOST_BARS)
    groups = [counts[at : at + step] for at in range(0, len(counts), step)]
    means = [sum(group) / len(group) for group in groups]
    titles = []
    for at, (group, mean) in enumerate(zip(groups, means, strict=True)):
        first, last = at * step + 1, at * step + len(group)
        name = f"file {first}: " if first == last else f"files {first} to {last}, mean: "
        titles.append(f"{name}{mean:,.0f} records")
    return means, titles


# ---- histograms ----


def interval_texts(histogram: Histogram) -> list[str]:
    """Return the intervals of a histogram."""
    starts = [number(edge) for edge in histogram.edges]
    if len(histogram.counts) == 1 or histogram.has_integers:
        return starts[: len(histogram.counts)]
    return [f"{start} to {end}" for start, end in itertools.pairwise(starts)]


def bar_titles(intervals: Sequence[str], counts: Sequence[int]) -> list[str]:
    """Return the titles of the bars of a histogram."""
    return [f"{each}: {count:,}" for each, count in zip(intervals, counts, strict=True)]


def range_of(summary: NumberSummary | None, is_size: bool = False) -> str:
    """Return the smallest and the largest number; "" without any."""
    if summary is None or summary.minimum is None:
        return ""
    show: Any = size if is_size else number
    low, high = show(summary.minimum), show(summary.maximum)
    unit = f" {high.rpartition(' ')[2]}"
    return low if low == high else f"{low.removesuffix(unit)} to {high}"


# ---- features ----


def shape_text(feature: FeatureReport) -> str:
    """Return the number of values of a record, example or step."""
    found = range_of(feature.counts)
    if found:
        found += " value" if found == "1" else " values"
    steps = range_of(feature.steps)
    return f"{found} {_TIMES} {steps} steps" if found and steps else found


def range_text(feature: FeatureReport) -> str:
    """Return the range of the values, or the most frequent size of images."""
    if feature.images is not None and feature.images.sizes:
        width, height, _ = feature.images.sizes[0]
        others = "" if feature.images.distinct_sizes == 1 else " and others"
        return f"{width}{_TIMES}{height}{others}"
    return range_of(feature.numbers) or range_of(feature.lengths, is_size=True)


def sizes_text(images: ImageSummary) -> str:
    """Return the most frequent sizes of images."""
    sizes = [
        f"{width}{_TIMES}{height} ({percent(count, images.count)})"
        for width, height, count in images.sizes[:4]
        if count > 1
    ]
    if images.distinct_sizes == 1:
        width, height, _ = images.sizes[0]
        return f"{width}{_TIMES}{height} pixels"
    found = counted(images.distinct_sizes, "size")
    start = f"{found}: " if images.distinct_sizes <= len(sizes) else f"{found}, the most frequent "
    return start + ", ".join(sizes) if sizes else found


def shows_top(feature: FeatureReport) -> bool:
    """Return whether the most frequent values of a feature say something."""
    values = feature.values
    if values is None or not values.top or feature.samples:
        return False
    total = values.others + sum(top.count for top in values.top)
    return feature.role != "number" or values.distinct <= min(_FEW_NUMBERS, total - 1)
