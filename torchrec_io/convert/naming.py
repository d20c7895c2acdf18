"""Names of files that come from data: checked, so that none leads out of its folder."""

from __future__ import annotations

import os
import re

from ..schema.sniff import EMPTY, TEXT, sniff

_MOST_PART_BYTES = 200  # most systems end at 255, and a suffix may follow
_MOST_BYTES = 1000
# Devices, on Windows, in any folder and with any suffix.
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
    """What files of such content end in, without the dot: ``jpg``, ``txt`` or ``bin``."""
    return _SUFFIXES.get(sniff(data), "bin")


def checked_path(value: bytes) -> str:
    """A path from data, below whatever folder it is put in.

    Folders in it are divided by ``/``. It is text in UTF-8, of parts that are names on any common
    system.

    Raises:
        ValueError: it is none; the message says why.
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{_shown(value)} is no file name: it is not UTF-8") from None
    reason = _whats_wrong(text)
    if reason is not None:
        raise ValueError(f"{_shown(value)} is no file name: {reason}")
    return text


def _whats_wrong(text: str) -> str | None:
    if not text:
        return "it is empty"
    if not text.isprintable():
        return "it has control characters"
    if "\\" in text or _DRIVE.match(text):
        return "it has a backslash or a drive, which lead elsewhere on some systems"
    if text.startswith("/"):
        return "it is absolute"
    if len(text.encode()) > _MOST_BYTES:
        return "it is too long"
    return next(filter(None, map(_whats_wrong_with_part, text.split("/"))), None)


def _whats_wrong_with_part(part: str) -> str | None:
    if part in ("", ".", ".."):
        return "it has an empty part, or leads out of its folder"
    if part[-1] in ". ":
        return "a part of it ends in a dot or a space, which some systems drop"
    if _RESERVED.fullmatch(part):
        return "it names a device on some systems"
    if len(part.encode()) > _MOST_PART_BYTES:
        return "it is too long"
    return None


def _shown(value: bytes) -> str:
    return repr(value if len(value) <= 60 else value[:60] + b"...")


class Taken:
    """The paths that were given away so far, and the folders that these lie in."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def take(self, path: str) -> None:
        """Gives away a path.

        Raises:
            ValueError: it is given already, is a folder of one that is, or lies below one.
        """
        if path in self._files or path in self._folders:
            raise ValueError(f"an earlier record has the file name {path!r} already")
        folders = []
        folder = os.path.dirname(path)
        while folder:
            if folder in self._files:
                raise ValueError(f"an earlier record has the file name {folder!r} already")
            folders.append(folder)
            folder = os.path.dirname(folder)
        self._files.add(path)
        self._folders.update(folders)
