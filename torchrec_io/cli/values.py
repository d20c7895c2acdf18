"""Values in a few words: numbers, text, images and other bytes."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from ..schema.sniff import IMAGES, file_format, image_size
from .report import printable

# Wide enough for what a table holds where no terminal sets a limit.
TABLE_WIDTH = 160
_MOST_CHARACTERS = 72
_HEX_BYTES = 16


def shorten(text: str) -> str:
    """Text cut to what a line has room for."""
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def values_text(values: Sequence[bytes] | Sequence[float] | Sequence[int]) -> str:
    """The first values of a list, as many as a line has room for."""
    text = ""
    for value in values:
        if len(text) > _MOST_CHARACTERS:
            break
        text += (", " if text else "") + _value_text(value)
    return shorten(text)


def _value_text(value: bytes | float) -> str:
    if isinstance(value, bytes):
        return bytes_text(value)
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def bytes_text(data: bytes) -> str:
    """Text as text, an image as its format and size, anything else as its first bytes."""
    text = _as_text(data)
    if text is not None:
        return text
    name = file_format(data)
    if name in IMAGES:
        size = image_size(data)
        name += " {}x{}".format(*size) if size else ""
    if name is None:
        name = data[:_HEX_BYTES].hex(" ") + (" …" if len(data) > _HEX_BYTES else "")
    return f"{name} ({len(data):,} bytes)"


def _as_text(data: bytes) -> str | None:
    start = data[: 4 * _MOST_CHARACTERS]
    try:
        # Not final: the cut may go through a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=start == data)
    except UnicodeDecodeError:
        return None
    if not all(c.isprintable() or c in "\t\r\n" for c in text):
        return None
    shown = text[: _MOST_CHARACTERS // 2]
    if shown == text and start == data:
        return f"'{printable(shown)}'"
    return f"'{printable(shown)}…' ({len(data):,} bytes)"
