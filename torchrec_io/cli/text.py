"""Text for the terminal: errors, numbers, strings, images and other bytes."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from .._records.damage_map import DamageMap
from .._schema.sniff import IMAGES, file_format, image_size
from ..checks import counted
from ..checks import printable as printable  # noqa: PLC0414  # the commands import it from here
from ..errors import TorchRecIOError

# Width of tables if the output is not a terminal.
_TABLE_WIDTH = 160
# Width of a terminal that does not tell its own.
_TERMINAL_WIDTH = 80
_MAX_CHARACTERS = 72
_HEX_BYTES = 16
_BAR_WIDTH = 64
# Width of a value of bytes, and the width from which sizes are in words.
_BYTES_WIDTH = 52
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


def error_members(error: BaseException) -> dict[str, str | int | None]:
    """Return the members of a JSON object about an error: where it is, and the reason."""
    if isinstance(error, TorchRecIOError):
        where = {"file": error.path, "record": error.record, "offset": error.offset}
        return {**where, "feature": error.feature, "reason": error.reason}
    return {"reason": _reason(error)}


def table_width(output: TextIO) -> int:
    """Return the width of tables: ``$COLUMNS``, or the width of the terminal if it is one."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if output.isatty():
        return os.get_terminal_size(output.fileno()).columns or _TERMINAL_WIDTH
    return _TABLE_WIDTH


def damage_bar(damage: DamageMap, encoding: str | None) -> str:
    """Return a bar of a file's length with its damaged parts marked.

    It has block characters if the encoding has them, and otherwise ``.`` and ``#``.
    """
    valid, damaged = "░█"
    try:
        (valid + damaged).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        valid, damaged = ".#"
    cells = damage.cells(_BAR_WIDTH)
    return "[" + "".join(damaged if cell else valid for cell in cells) + "]"


def shorten(text: str) -> str:
    """Shorten text to the width of a column."""
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def values_text(values: Sequence[bytes] | Sequence[float] | Sequence[int]) -> str:
    """Return the first values of a list, shortened to the width of a column."""
    text = ""
    for value in values:
        if len(text) > _MAX_CHARACTERS:
            break
        text += (", " if text else "") + _value_text(value)
    return shorten(text)


def _value_text(value: bytes | float) -> str:
    if isinstance(value, bytes):
        return bytes_text(value)
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def bytes_text(data: bytes, width: int = _BYTES_WIDTH) -> str:
    """Describe bytes: quoted text, the format and size of an image, or the first bytes in hex.

    Args:
        data: Bytes to describe.
        width: Width of the column. Text and bytes are cut to fit; their size is always shown.
    """
    size = counted(len(data), "byte") if width >= _WIDE else f"{len(data):,} B"
    text = _quoted_text(data, width, f" ({size})")
    if text is not None:
        return text
    name = file_format(data)
    if name in IMAGES:
        pixels = image_size(data)
        name += " {}x{}".format(*pixels) if pixels else ""
    if name is None:
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
