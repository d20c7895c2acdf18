"""From what a user names to data files: names, glob patterns, directories."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable

from .local import StrPath

# What TFRecord files are called in a directory that also holds other things.
_DATA_NAME = re.compile(r"\.(tfrecords?|tfrec|recordio)\b|-\d{5}-of-\d{5}|^part-")
_COMPANION_NAME = re.compile(r"\.(tfidx|idx|index|json|pbtxt|txt|md|crc|csv|sha256|md5)$")


def expand_paths(paths: StrPath | Iterable[StrPath], *, tfrecord_names: bool = True) -> list[str]:
    """The files that names, glob patterns and directories stand for, in order.

    A directory stands for the files in it that are named as TFRecord files are (``*.tfrecord*``,
    ``*.tfrec``, ``*.recordio``, ``name-00000-of-00008``, ``part-*``), sorted; a pattern for its
    matches, sorted. ``**`` in a pattern crosses directories.

    Args:
        paths: A name, pattern or directory, or several.
        tfrecord_names: Whether the files are TFRecord files. Of others, a directory stands for all
            in it but hidden ones and indexes (``*.tfidx``).

    Raises:
        FileNotFoundError: a file does not exist, or a pattern or directory stands for nothing.
        ValueError: no path at all, or a URL.
    """
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [file for name in names for file in _expand(os.fspath(name), tfrecord_names)]
    if not files:
        raise ValueError("paths is empty: name at least one file")
    return files


def _expand(name: str, tfrecord_names: bool) -> list[str]:
    if "://" in name:
        raise ValueError(f"only local files can be read, not {name!r}")
    if os.path.isdir(name):
        return _tfrecord_files(name) if tfrecord_names else _all_files(name)
    if os.path.exists(name):
        return [name]
    if not glob.has_magic(name):
        raise FileNotFoundError(f"no such file: {name!r}")
    matches = sorted(match for match in glob.glob(name, recursive=True) if os.path.isfile(match))
    matches = [match for match in matches if not match.endswith(".tfidx")]
    if not matches:
        raise FileNotFoundError(f"the pattern {name!r} matches no file")
    return matches


def _tfrecord_files(name: str) -> list[str]:
    found = sorted(
        entry.path
        for entry in os.scandir(name)
        if entry.is_file()
        and not entry.name.startswith((".", "_"))
        and _DATA_NAME.search(entry.name)
        and not _COMPANION_NAME.search(entry.name)
    )
    if not found:
        raise FileNotFoundError(
            f"the directory {name!r} holds no file named as TFRecord files are; use a pattern"
        )
    return found


def _all_files(name: str) -> list[str]:
    found = sorted(
        entry.path
        for entry in os.scandir(name)
        if entry.is_file() and not entry.name.startswith(".") and not entry.name.endswith(".tfidx")
    )
    if not found:
        raise FileNotFoundError(f"the directory {name!r} holds no file; use a pattern")
    return found
