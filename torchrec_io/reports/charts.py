"""Charts as inline SVG. Colors come from the style sheet of the page, by class."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from .content import Histogram
from .text import number

_WIDTH, _HEIGHT = 300, 80
_MOST_BARS = 100


def _svg(inner: Markup, label: str, width: float, height: float, kind: str) -> Markup:
    """Return a picture that is stretched to the width of its place.

    Without a label it is decoration, and screen readers skip it.
    """
    words = Markup('role="img" aria-label="{}"').format(label)
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" {}>{}</svg>'
    ).format(
        kind, _short(width), _short(height), words if label else Markup('aria-hidden="true"'), inner
    )


def _rect(box: tuple[float, float, float, float], title: str, kind: str = "") -> Markup:
    """Return a rectangle at ``x, y, width, height``."""
    sides = zip(("x", "y", "width", "height"), box, strict=True)
    words = [f'{side}="{_short(length)}"' for side, length in sides]
    start = f"<rect{' class=' + chr(34) + kind + chr(34) if kind else ''} {' '.join(words)}"
    if not title:
        return Markup(f"{start}/>")  # noqa: S704  # numbers and names of classes of this package
    return Markup(f"{start}><title>{escape(title)}</title></rect>")  # noqa: S704


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def bars(counts: Sequence[float], titles: Sequence[str], label: str, kind: str = "bars") -> Markup:
    """Return bars of equal width.

    Args:
        counts: Length of each bar.
        titles: Tooltip of each bar; empty for none.
        label: Description of the picture for those who cannot see it; empty for decoration.
        kind: Class of the picture.
    """
    most = max([*counts, 1e-300])
    step = _WIDTH / max(len(counts), 1)
    gap = min(1.0, step / 8)
    rects = []
    for position, count in enumerate(counts):
        if count <= 0:
            continue
        height = max(1.0, _HEIGHT * count / most)  # a rare value stays visible
        title = titles[position] if titles else ""
        rects.append(_rect((position * step, _HEIGHT - height, step - gap, height), title))
    return _svg(Markup("").join(rects), label, _WIDTH, _HEIGHT, kind)


def interval_texts(histogram: Histogram) -> list[str]:
    """Return the intervals of a histogram in words."""
    if len(histogram.edges) == len(histogram.counts) + 1:
        starts, ends = histogram.edges[:-1], histogram.edges[1:]
        if histogram.has_integers:
            return [number(start) for start in starts]
        return [f"{number(a)} to {number(b)}" for a, b in zip(starts, ends, strict=True)]
    return [number(histogram.edges[0])]


def histogram_chart(histogram: Histogram, name: str) -> Markup:
    """Return the bars of a histogram."""
    texts = interval_texts(histogram)
    titles = [f"{text}: {count:,}" for text, count in zip(texts, histogram.counts, strict=True)]
    first, last = number(histogram.edges[0]), number(histogram.edges[-1])
    peak = texts[max(range(len(texts)), key=lambda at: histogram.counts[at])]
    label = f"Histogram of {name} from {first} to {last}; most values are at {peak}"
    return bars(histogram.counts, titles, label)


def sparkline(counts: Sequence[float]) -> Markup:
    """Return small bars that a table beside them describes in text."""
    return bars(counts, (), "", "spark")


def share_bar(part: float, whole: float) -> Markup:
    """Return the background of a text: a bar whose length is a share, which the text says."""
    return _svg(_rect((0, 0, 100 * part / whole if whole else 0, 1), ""), "", 100, 1, "share")


def balance_chart(counts: Sequence[int], unit: str) -> Markup:
    """Return the number of records of each file, or of groups of neighboring files."""
    size = -(len(counts) // -_MOST_BARS)
    groups = [counts[at : at + size] for at in range(0, len(counts), size)]
    means = [sum(group) / len(group) for group in groups]
    titles = [
        (f"file {at * size + 1}" if size == 1 else f"files {at * size + 1} to "
         f"{at * size + len(group)}, mean") + f": {mean:,.0f} {unit}"
        for at, (group, mean) in enumerate(zip(groups, means, strict=True))
    ]  # fmt: skip
    label = f"{unit} of each of {len(counts)} files: from {min(counts):,} to {max(counts):,}"
    return bars(means, titles, label)


def stacked_chart(rows: Sequence[Sequence[float]], names: Sequence[str], label: str) -> Markup:
    """Return columns of shares that add up to 1."""
    step = _WIDTH / max(len(rows), 1)
    rects = []
    for position, row in enumerate(rows):
        top = 0.0
        for series, share in enumerate(row):
            if share > 0:
                title = f"part {position + 1}: {names[series]}: {100 * share:.0f} %"
                height = _HEIGHT * share
                kind = f"s{series}" if series < len(row) - 1 else "rest"
                rects.append(_rect((position * step, top, step, height), title, kind))
                top += height
    return _svg(Markup("").join(rects), label, _WIDTH, _HEIGHT, "stacked")


def damage_chart(cells: Sequence[bool], label: str) -> Markup:
    """Return a strip of the length of a file with its damaged parts marked."""
    rects = []
    begin = None
    for at, is_damaged in enumerate([*cells, False]):
        if is_damaged and begin is None:
            begin = at
        elif not is_damaged and begin is not None:
            share = f"{100 * begin / len(cells):.0f} % to {100 * at / len(cells):.0f} % of the file"
            rects.append(_rect((begin, 0, at - begin, 10), share, "damage"))
            begin = None
    return _svg(Markup("").join(rects), label, max(len(cells), 1), 10, "strip")
