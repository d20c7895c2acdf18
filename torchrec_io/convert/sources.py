"""The files that a conversion reads."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from ..storage.local import StrPath
from ..storage.opening import is_seekable


class SourceFile(NamedTuple):
    """A file, and its bytes."""

    path: str
    size: int


def source_files(sources: StrPath | Sequence[StrPath]) -> list[SourceFile]:
    """The files, in order.

    Raises:
        ValueError: there is none, or one is a pipe, which cannot be read twice.
        FileNotFoundError, IsADirectoryError: one is not there, or is a folder.
    """
    paths = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not paths:
        raise ValueError("sources is empty: name at least one file")
    return [_source_file(os.fspath(path)) for path in paths]


def _source_file(path: str) -> SourceFile:
    size = os.stat(path).st_size
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not is_seekable(path):
        raise ValueError(f"{path!r} is a pipe, which cannot be read twice: store it in a file")
    return SourceFile(path, size)
