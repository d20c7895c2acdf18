"""File names from data, which are validated so that none leads out of its folder."""

from __future__ import annotations

import os
import re

from ..inspection.byte_formats import EMPTY, TEXT, sniff

_MAX_PART_BYTES = 200  # most systems allow 255, and a suffix may be added
_MAX_BYTES = 1000
# Devices on Windows, in any folder and with any suffix.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")

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


def checked_path(value: bytes) -> str:
    """Return a path from data, which stays inside the folder that it is joined to.

    Args:
        value: UTF-8 text. ``/`` separates folders. Every part must be a valid name on all common
            systems.

    Raises:
        ValueError: If the value is not such a path. The message gives the reason.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{_shown(value)} is not a valid file name: it is not UTF-8") from None
    reason = _problem(text)
    if reason is not None:
        raise ValueError(f"{_shown(value)} is not a valid file name: {reason}")
    return text


def _problem(text: str) -> str | None:
    if not text:
        return "it is empty"
    if not text.isprintable():
        return "it contains characters that are not printable"
    if "\\" in text or _DRIVE.match(text):
        return "it contains a backslash or a drive, which lead out of the folder on some systems"
    if text.startswith("/"):
        return "it is an absolute path"
    if len(text.encode()) > _MAX_BYTES:
        return "it is too long"
    return next(filter(None, map(_problem_of_part, text.split("/"))), None)


def _problem_of_part(part: str) -> str | None:
    if part in ("", ".", ".."):
        return "it has an empty part or leads out of its folder"
    if part[-1] in ". ":
        return "a part ends with a dot or a space, which some systems remove"
    if _RESERVED.fullmatch(part):
        return "it names a device on some systems"
    if len(part.encode()) > _MAX_PART_BYTES:
        return "it is too long"
    return None


def _shown(value: bytes) -> str:
    return repr(value if len(value) <= 60 else value[:60] + b"...")


class UsedPaths:
    """The paths used so far, and their folders."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def add(self, path: str) -> None:
        """Use a path.

        Raises:
            ValueError: If the path is used already, or is a folder of a used path, or is inside a
                used path.
        """
        if path in self._files or path in self._folders:
            raise ValueError(f"an earlier record has the file name {path!r}")
        folders = []
        folder = os.path.dirname(path)
        while folder:
            if folder in self._files:
                raise ValueError(f"an earlier record has the file name {folder!r}")
            folders.append(folder)
            folder = os.path.dirname(folder)
        self._files.add(path)
        self._folders.update(folders)
