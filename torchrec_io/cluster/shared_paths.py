"""Paths that mean the same file on all machines."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..storage.local import StrPath
from ..storage.opening import is_remote
from ..storage.paths import expand_paths
from ..storage.remote.options import RemoteOptions


def expand_shared_paths(
    paths: StrPath | Iterable[StrPath], *, allow_missing: bool, remote: RemoteOptions
) -> list[str]:
    """Return the files that paths stand for, with absolute paths.

    Tasks run in other working directories than the process that starts them.

    Args:
        paths: Names, patterns or directories; see :func:`torchrec_io.storage.paths.expand_paths`.
        allow_missing: Whether shards may be missing.
        remote: Options for remote objects.
    """
    files = expand_paths(paths, allow_missing=allow_missing, remote=remote)
    return absolute_paths(files)


def absolute_paths(files: Iterable[str]) -> list[str]:
    """Return files with absolute paths; URLs stay as they are."""
    return [path if is_remote(path) else os.path.abspath(path) for path in files]
