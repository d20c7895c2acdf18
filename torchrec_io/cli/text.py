"""Text for the terminal: errors, numbers, strings, images and other bytes."""

from __future__ import annotations

import codecs
import json
import os
from dataclasses import fields
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from .._records.damage_map import DamageMap
from ..checks import counted
from ..checks import printable as printable  # noqa: PLC0414  # the commands import it from here
from ..errors import TorchRecIOError
from ..inspection.byte_formats import IMAGES, OTHER, TENSOR, image_size, sniff

# Width of tables if the output is not a terminal: nothing is cut or wrapped.
_NO_LIMIT = 1 << 20
_MAX_CHARACTERS = 72
_HEX_BYTES = 16
_BAR_WIDTH = 64
# Width from which the sizes of values are in words.
_WIDE = 40


def error_line(path: str, error: BaseException) -> str:
    """Return ``path: reason`` in one line."""
    if isinstance(error, TorchRecIOError):
        return printable(str(error))
    return printable(f"{path}: {_reason(error)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror
    return str(error)


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON. Errors and dataclasses in it are objects with their members."""
    return json.dumps(value, default=members_of, indent=indent, allow_nan=False)


def members_of(value: Any) -> dict[str, Any]:
    """Return the members of an error or a dataclass, except for what its text does not show."""
    if isinstance(value, TorchRecIOError):
        where = {"file": value.path, "record": value.record, "offset": value.offset}
        return {**where, "feature": value.feature, "reason": value.reason}
    if isinstance(value, BaseException):
        return {"reason": _reason(value)}
    return {each.name: getattr(value, each.name) for each in fields(value) if each.repr}


def console_of(output: TextIO) -> Console:
    """Return a console for tables: as wide as ``$COLUMNS`` says, or as its terminal."""
    return Console(file=output, highlight=False, width=width_of(output) or _NO_LIMIT)


def width_of(output: TextIO) -> int | None:
    """Return the width of an output by ``$COLUMNS`` or its terminal; None for a pipe or file."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return os.get_terminal_size(output.fileno()).columns or None if output.isatty() else None


def damage_bar(damage: DamageMap) -> str:
    """Return a bar of a file's length with its damaged parts marked."""
    cells = "".join("█" if cell else "░" for cell in damage.cells(_BAR_WIDTH))
    return f"[{cells}] damaged parts"


def shorten(text: str) -> str:
    """Shorten text to the width of a column."""
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def number_text(value: float) -> str:
    """Return a number with the digits that a float32 has."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def bytes_text(data: bytes, width: int) -> str:
    """Describe bytes: quoted text, the format and size of an image, or the first bytes in hex.

    Args:
        data: Bytes to describe.
        width: Width of the column. Text and bytes are cut to fit; their size is always shown.
    """
    size = counted(len(data), "byte") if width >= _WIDE else f"{len(data):,} B"
    text = _quoted_text(data, width, f" ({size})")
    if text is not None:
        return text
    name = sniff(data)
    if name in IMAGES:
        pixels = image_size(data)
        name += " {}x{}".format(*pixels) if pixels else ""
    if name in (OTHER, TENSOR):
        most = min(_HEX_BYTES, max(1, (width - len(size) - 5) // 3))
        name = data[:most].hex(" ") + (" …" if len(data) > most else "")
    return f"{name} ({size})"


def _quoted_text(data: bytes, width: int, size: str) -> str | None:
    start = data[: 4 * width]
    try:
        # The end of the excerpt may split a character, so decoding is final only for all the data.
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=start == data)
    except UnicodeDecodeError:
        return None
    if not all(c.isprintable() or c in "\t\r\n" for c in text):
        return None
    text = printable(text)
    if start == data and cell_len(text) + 2 <= width:
        return f"'{text}'"
    # Some characters take two cells.
    return f"'{set_cell_size(text, max(1, width - len(size) - 3)).rstrip()}…'{size}"
