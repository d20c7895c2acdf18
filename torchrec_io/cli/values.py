"""Values in a few words: numbers, text, images and other bytes."""

from __future__ import annotations

import codecs
import io
import warnings
from collections.abc import Sequence

from .report import printable

_MOST_CHARACTERS = 72
_HEX_BYTES = 16

# How files of a kind start.
_SIGNATURES = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"BM": "BMP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"\x93NUMPY": "NumPy array",
    b"PK\x03\x04": "zip",
    b"\x1f\x8b\x08": "gzip",
}
_RIFF_KINDS = {b"WEBP": "WEBP", b"WAVE": "WAV", b"AVI ": "AVI"}
_IMAGES = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP")


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
    name = _signature(data)
    if name in _IMAGES:
        name += _image_size(data, name)
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


def _signature(data: bytes) -> str | None:
    if data.startswith(b"RIFF"):
        return _RIFF_KINDS.get(data[8:12])
    return next((name for start, name in _SIGNATURES.items() if data.startswith(start)), None)


def _image_size(data: bytes, name: str) -> str:
    """`` WIDTHxHEIGHT``; nothing where the image's header is damaged."""
    from PIL import Image  # noqa: PLC0415  # takes a while, and few records hold images

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=[name]) as image:
                return f" {image.width}x{image.height}"
    except Exception:  # noqa: BLE001  # decoders raise almost anything on damaged data
        return ""
