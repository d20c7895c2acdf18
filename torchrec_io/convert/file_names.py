"""File names from data, which are validated so that none leads out of its folder."""

from __future__ import annotations

import re
from typing import Any

from ..errors import DecodeError
from ..inspection.byte_formats import EMPTY, TEXT, sniff

_MAX_PART_BYTES = 200  # most systems allow 255, and a suffix may be added
_MAX_BYTES = 1000
# Patterns in paths that are not valid or lead out of their folder on some system, and the reasons.
_PROBLEMS = (
    (r"\A\Z", "it is empty"),
    (
        r"\\|\A[A-Za-z]:",
        "it contains a backslash or a drive, which lead out of the folder on some systems",
    ),
    (r"\A/", "it is an absolute path"),
    (r"(\A|/)\.{0,2}(/|\Z)", "it has an empty part or leads out of its folder"),
    (r"[. ](/|\Z)", "a part ends with a dot or a space, which some systems remove"),
    (
        r"(?i)(\A|/)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.[^/]*)?(/|\Z)",
        "it names a device on some systems",
    ),
)

_SUFFIXES = {
    "JPEG": "jpg",
    "PNG": "png",
    "GIF": "gif",
    "BMP": "bmp",
    "TIFF": "tiff",
    "WebP": "webp",
    "WAV": "wav",
    "FLAC": "flac",
    "Ogg": "ogg",
    "MP3": "mp3",
    "AVI": "avi",
    "NumPy array": "npy",
    "zip": "zip",
    "gzip": "gz",
    TEXT: "txt",
    EMPTY: "txt",
}


def suffix_of(data: bytes) -> str:
    """Return the suffix for content, without the dot, such as ``jpg``, ``txt`` or ``bin``."""
    return _SUFFIXES.get(sniff(data), "bin")


def name_of(value: Any, feature: str) -> str:
    """Return a value of a feature as the name of a file: an integer, or a path in bytes.

    Args:
        value: Array of one integer, or list of one bytes value; see :func:`checked_path`.
        feature: Name of the feature.
    """
    return checked_path(value[0], feature) if isinstance(value, list) else str(int(value))


def checked_path(value: bytes, feature: str) -> str:
    """Return a path from data, which stays inside the folder that it is joined to.

    Args:
        value: UTF-8 text. ``/`` separates folders. Every part must be a valid name on all common
            systems.
        feature: Name of the feature that has the value, for the error message.

    Raises:
        DecodeError: If the value is not such a path. The message gives the reason.
    """
    try:
        text = value.decode()
        reason = _problem(text)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    if reason is not None:
        shown = value if len(value) <= 60 else value[:60] + b"..."
        raise DecodeError(f"{shown!r} is not a valid file name: {reason}", feature=feature)
    return text


def _problem(text: str) -> str | None:
    if not text.isprintable():
        return "it contains characters that are not printable"
    sizes = [len(part.encode()) for part in text.split("/")]
    if max(sizes) > _MAX_PART_BYTES or len(text.encode()) > _MAX_BYTES:
        return "it is too long"
    return next((reason for pattern, reason in _PROBLEMS if re.search(pattern, text)), None)
