"""Paths that mean the same file on all machines."""

from __future__ import annotations

from collections.abc import Iterable

from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions


def expand_shared_paths(
    paths: StrPath | Iterable[StrPath], *, allow_missing: bool, storage_options: StorageOptions
) -> list[Location]:
    """Return the files that paths stand for, with absolute paths.

    Tasks run in other working directories than the process that starts them.

    Args:
        paths: Names, patterns or directories; see :func:`torchrec_io._storage.paths.expand_paths`.
        allow_missing: Whether shards may be missing.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.
    """
    files = expand_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    return [file.absolute() for file in files]
