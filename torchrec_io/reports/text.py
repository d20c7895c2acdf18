"""Names, texts and numbers in the form in which a report shows them."""

from __future__ import annotations

import math

from ..checks import printable

_NONE = "\u2013"  # a dash
_KEPT_WHITE = "\n\t"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def shown(text: str, most: int = 120) -> str:
    """Return a text in one line, shortened, with all that is not printable escaped."""
    line = printable(text[: most + 1])
    return line if len(line) <= most else f"{line[: most - 1]}…"


def decoded(data: bytes, most: int = 120) -> str:
    """Return bytes as text in one line; bytes that are not UTF-8 are escaped."""
    return shown(data[: 4 * most + 4].decode("utf-8", "backslashreplace"), most)


def sample_text(data: bytes, most: int = 600) -> str:
    """Return the start of a text, with its line breaks."""
    text = data[: 4 * most].decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    kept = "".join(c if c in _KEPT_WHITE else printable(c) for c in text[:most])
    return kept + ("…" if len(data) > len(text[:most].encode("utf-8", "replace")) else "")


def number(value: float | None) -> str:
    """Return a number with at most 5 significant digits; an integer in full."""
    if value is None:
        return _NONE
    if isinstance(value, int) or (value == round(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    if 1e-4 <= abs(value) < 1e6:
        digits = max(0, 4 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.4g}"


def size(count: float | None) -> str:
    """Return a number of bytes in a unit, such as "1.2 MB"."""
    if count is None:
        return _NONE
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    if unit == 0:
        return f"{count:,.0f} byte" + ("" if round(count) == 1 else "s")
    return f"{value:.3g} {_UNITS[unit]}"


def percent(part: float, whole: float) -> str:
    """Return a share in percent: 100 % and 0 % only if they are exact."""
    if not whole:
        return _NONE
    share = 100 * part / whole
    if share in (0, 100):
        return f"{share:.0f} %"
    if share < 0.01:
        return "< 0.01 %"
    if share > 99.99:
        return "> 99.99 %"
    return f"{share:.3g} %" if share < 99.5 else f"{share:.2f} %"
