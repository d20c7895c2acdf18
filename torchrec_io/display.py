"""Short descriptions of objects: text for consoles, and HTML for notebooks."""

from __future__ import annotations

import base64
import html
import io
import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .checks import printable

# Most entries of nested dicts, rows of a table, characters of a line, bytes of a value, and pixels
# of a side of a thumbnail.
_ENTRIES, _ROWS, _WIDTH, _BYTES, _SIDE = 60, 100, 88, 40, 96
_STYLE = 'style="text-align: left; vertical-align: top"'


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = 6
        self.maxstring = self.maxother = 80

    def repr_bytes(self, value: bytes, _: int) -> str:
        return repr(value[:_BYTES]) + ("..." if len(value) > _BYTES else "")


_BRIEF = _Brief()


def brief(value: Any) -> str:
    """Return the ``repr`` of a value, cut if it is long; of a function or class, its name."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else _BRIEF.repr(value)


def brief_line(value: Any) -> str:
    """Return the ``repr`` of a value, cut to a line."""
    text = brief(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def braced(values: Mapping[str, Any], describe: Callable[[Any], str]) -> str:
    """Return nested dicts as text, with one entry a line. Of many entries, the first are shown.

    Args:
        values: Values and dicts of values by name.
        describe: Function that returns the text of a value that is not a dict.
    """
    lines = [*itertools.islice(_entries(values, describe, "    "), _ENTRIES + 1)]
    if len(lines) > _ENTRIES:
        lines[_ENTRIES:] = [f"    ...  # {_count(values):,} in all"]
    return "\n".join(["{", *lines, "}"])


def _entries(
    values: Mapping[str, Any], describe: Callable[[Any], str], indent: str
) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield f"{indent}{name!r}: {{"
            yield from _entries(value, describe, indent + "    ")
            yield f"{indent}}},"
        else:
            yield f"{indent}{name!r}: {describe(value)},"


def _count(values: Mapping[str, Any]) -> int:
    return sum(_count(each) if isinstance(each, dict) else 1 for each in values.values())


# ---- HTML ----


class Markup(str):
    """Text that is HTML. All other text is escaped."""

    __slots__ = ()


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], count: int
) -> str:
    """Return a table of HTML, without colors of its own. Of many rows, the first are shown.

    Args:
        title: Text above the table.
        columns: Titles of the columns.
        rows: Cells of each row.
        count: Number of all rows.
    """
    shown = [*itertools.islice(rows, _ROWS)]
    lines = [f"<tr>{_cells('th', columns)}</tr>"] if columns else []
    lines += [f"<tr>{_cells('td', row)}</tr>" for row in shown]
    more = f"<div>... {count:,} in all</div>" if count > len(shown) else ""
    table = f"<table>{''.join(lines)}</table>"
    return f'<div style="overflow-x: auto"><div>{_escaped(title)}</div>{table}{more}</div>'


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag} {_STYLE}>{_escaped(text)}</{tag}>" for text in texts)


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(printable(text))


def html_images(images: Iterable[npt.NDArray[np.uint8]]) -> Markup:
    """Return thumbnails as HTML that needs no other file.

    Args:
        images: Images ``[H, W, 3]`` or ``[H, W]``.
    """
    from PIL import Image  # noqa: PLC0415  # only for notebooks

    tags = []
    for pixels in images:
        step = max(1, max(pixels.shape[:2]) // (4 * _SIDE))
        image = Image.fromarray(np.ascontiguousarray(pixels[::step, ::step]))
        image.thumbnail((_SIDE, _SIDE))
        file = io.BytesIO()
        image.save(file, "PNG")
        data = base64.b64encode(file.getvalue()).decode()
        style = "display: inline; height: 64px; max-width: 128px; object-fit: contain; margin: 1px"
        tags.append(f'<img style="{style}" src="data:image/png;base64,{data}">')
    return Markup(" ".join(tags))
