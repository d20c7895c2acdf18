"""The page of a report."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
from collections import Counter
from importlib.resources import files as package_files
from typing import TYPE_CHECKING, Any

from ..checks import counted
from . import text
from .code import MOST_SPECS
from .extra import import_jinja

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .content import FeatureReport, Histogram, ImageSummary, NumberSummary
    from .results import Report

# Limits of what a page lists, so that it opens quickly.
MOST_FILES = 200
MOST_DAMAGED = 50
MOST_CARDS = 150
MOST_ROWS = 1000

_TIMES = "\u00d7"
_FEW_NUMBERS = 12
_MOST_BARS = 100
_UNEVEN = 1.5  # largest to mean number of records, from which files are called uneven


def render(report: Report) -> str:
    """Return the page as HTML."""
    page: str = _template().render(
        reports=(report, *report.other_sets),
        limits={
            "files": MOST_FILES,
            "damaged": MOST_DAMAGED,
            "cards": MOST_CARDS,
            "rows": MOST_ROWS,
            "specs": MOST_SPECS,
        },
    )
    return page


@functools.cache
def _template() -> Any:
    """Return the template of pages, compiled once."""
    templates = package_files(__package__) / "templates"
    style = (templates / "report.css").read_text("utf-8")
    jinja = import_jinja()
    environment = jinja.Environment(
        loader=jinja.FunctionLoader(lambda name: (templates / name).read_text("utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja.StrictUndefined,
    )
    environment.filters |= {"number": text.number, "size": text.size, "shown": text.shown}
    environment.globals |= {
        "balance": _balance,
        "balance_bars": _balance_bars,
        "bar_titles": _bar_titles,
        "counted": counted,
        "compressions": _compressions,
        "interval_texts": _interval_texts,
        "percent": text.percent,
        "quantile_rows": _quantile_rows,
        "range_of": _range_of,
        "range_text": _range_text,
        "shape_text": _shape_text,
        "shows_top": _shows_top,
        "sizes_text": _sizes_text,
        "sketch_of": _sketch_of,
        "style": style,
        # The policy of the page allows this style alone.
        "style_hash": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    }
    return environment.get_template("report.html")


def _compressions(report: Report) -> list[tuple[str, int]]:
    return Counter(file.compression or "not compressed" for file in report.files).most_common()


def _quantile_rows(summary: NumberSummary, *, is_size: bool = False) -> list[tuple[str, str]]:
    """Return titles and texts of the statistics of numbers."""
    show: Any = text.size if is_size else text.number
    rows = [("minimum", show(summary.minimum))] if summary.minimum is not None else []
    titles = {0.01: "1 %", 0.05: "5 %", 0.25: "25 %", 0.5: "median", 0.75: "75 %", 0.95: "95 %"}
    titles[0.99] = "99 %"
    rows += [(titles[rank], show(value)) for rank, value in summary.quantiles.items()]
    if summary.maximum is not None:
        rows.append(("maximum", show(summary.maximum)))
        rows.append(("mean", show(summary.mean)))
        rows.append(("std. deviation", show(summary.std)))
    return rows


def _balance(report: Report) -> str:
    """Say whether files have about the same number of records."""
    counts = [file.records for file in report.files]
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


def _balance_bars(counts: Sequence[int]) -> tuple[list[float], list[str]]:
    """Return the mean of each group of neighboring files, and its title."""
    size = -(len(counts) // -_MOST_BARS)
    groups = [counts[at : at + size] for at in range(0, len(counts), size)]
    means = [sum(group) / len(group) for group in groups]
    ends = [(at * size + 1, at * size + len(group)) for at, group in enumerate(groups)]
    titles = [
        f"file {first}: {mean:,.0f} records"
        if first == last
        else f"files {first} to {last}, mean: {mean:,.0f} records"
        for (first, last), mean in zip(ends, means, strict=True)
    ]
    return means, titles


def _interval_texts(histogram: Histogram) -> list[str]:
    """Return the intervals of a histogram in words."""
    starts = [text.number(edge) for edge in histogram.edges]
    if len(histogram.counts) == 1 or histogram.has_integers:
        return starts[: len(histogram.counts)]
    return [f"{start} to {end}" for start, end in itertools.pairwise(starts)]


def _bar_titles(intervals: Sequence[str], counts: Sequence[int]) -> list[str]:
    return [f"{each}: {count:,}" for each, count in zip(intervals, counts, strict=True)]


def _shape_text(feature: FeatureReport) -> str:
    """Return the number of values of a record, example or step, in words."""
    counts = feature.counts
    if counts is None or counts.maximum is None or counts.minimum is None:
        return ""
    low, high = counts.minimum, counts.maximum
    found = counted(int(high), "value")
    if low != high:
        found = f"{text.number(low)} to {found}"
    if feature.steps is not None and feature.steps.maximum is not None:
        found += f" {_TIMES} {text.number(feature.steps.maximum)} steps"
        if feature.steps.minimum != feature.steps.maximum:
            found = found.replace(_TIMES, f"{_TIMES} up to")
    return found


def _range_text(feature: FeatureReport) -> str:
    numbers = feature.numbers
    if feature.images is not None and feature.images.sizes:
        width, height, _ = feature.images.sizes[0]
        return f"{width}{_TIMES}{height}" + (
            "" if feature.images.distinct_sizes == 1 else " and others"
        )
    if numbers is not None and numbers.minimum is not None:
        return _between(text.number(numbers.minimum), text.number(numbers.maximum))
    if feature.lengths is not None and feature.lengths.minimum is not None:
        return _between(text.size(feature.lengths.minimum), text.size(feature.lengths.maximum or 0))
    return ""


def _sizes_text(images: ImageSummary) -> str:
    """Return the most frequent sizes of images in words."""
    sizes = [
        f"{width}{_TIMES}{height} ({text.percent(count, images.count)})"
        for width, height, count in images.sizes[:4]
        if count > 1
    ]
    if images.distinct_sizes == 1:
        width, height, _ = images.sizes[0]
        return f"All have {width}{_TIMES}{height} pixels"
    found = counted(images.distinct_sizes, "size")
    return f"{found}, the most frequent {', '.join(sizes)}" if sizes else found


def _range_of(summary: NumberSummary, is_size: bool = False) -> str:
    """Return the smallest and the largest number."""
    show: Any = text.size if is_size else text.number
    return _between(show(summary.minimum), show(summary.maximum))


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _shows_top(feature: FeatureReport) -> bool:
    """Return whether the most frequent values of a feature say something."""
    values = feature.values
    if values is None or not values.top:
        return False
    if feature.role == "number":
        total = values.others + sum(top.count for top in values.top)
        return values.distinct <= _FEW_NUMBERS and total > values.distinct
    return values.top[0].count > 1 or not feature.samples


def _sketch_of(feature: FeatureReport) -> Sequence[float]:
    """Return the lengths of the small bars of a feature; none if they would say nothing."""
    values = feature.values
    if feature.role in ("class", "text") and values is not None and values.distinct > 1:
        return [top.count for top in values.top] if values.top[0].count > 1 else ()
    summary = feature.numbers or feature.lengths
    if summary is None or summary.histogram is None or summary.minimum == summary.maximum:
        return ()
    return summary.histogram.counts
