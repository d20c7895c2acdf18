"""Indexing of TFRecord files on a cluster."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from .._records.index_places import IndexPlaces
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.outputs import check_output
from .._storage.remote.options import StorageOptions
from ..checks import check_choice
from ..errors import TorchRecIOError
from ..tools.report import OnError, Watcher
from . import tasks
from .extra import import_ray
from .shared_indexes import sizes_of
from .shared_paths import expand_shared_paths


@dataclass(frozen=True)
class IndexedFile:
    """The result of indexing a file.

    Attributes:
        path: Data file.
        state: Whether its index was built, was up to date before, or could not be built.
        records: Number of records.
        file_bytes: Size of the data file in bytes.
        error: Reason why the file could not be indexed.
    """

    path: str
    state: Literal["indexed", "up to date", "failed"]
    records: int
    file_bytes: int
    error: TorchRecIOError | None = None


def index(
    paths: StrPath | Iterable[StrPath],
    *,
    force: bool = False,
    seek_point_bytes: int | None = None,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> list[IndexedFile]:
    """Write an index beside each TFRecord file, as ``torchrec-io index`` does, on a Ray cluster.

    Indexes that are up to date are kept, so a job that was interrupted continues where it was. An
    index appears whole or not at all.

    Args:
        paths: Files, glob patterns, directories or URLs that all machines can read and write.
        force: Whether indexes that are up to date are built again.
        seek_point_bytes: Number of decompressed bytes between two seek points of a compressed file.
            Default: about 4 MiB, so that they take less than 1 % of the file.
        on_error: ``"raise"`` raises the error of the first damaged file, when all others are
            indexed; ``"skip"`` returns it with the result of the file.
        allow_missing: Index the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`. Secrets in them
            are not sent to other machines: give these in the environment of all machines.

    Returns:
        The result for each file, in order.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        CorruptRecordError, TruncatedFileError: If a file is damaged, unless it is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        OSError: If a file cannot be read, an index cannot be written, or a path is a URL of HTTP.
        ValueError: If an argument is invalid.
    """
    import_ray()
    check_choice("on_error", on_error, ("raise", "skip"))
    watcher = watcher or Watcher()
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    for path in given:
        location = Location.of(path, storage_options)
        if location.local_path is None:
            check_output(location)
    files = expand_shared_paths(given, allow_missing=allow_missing, storage_options=storage_options)
    sizes = sizes_of(files)
    watcher.started(sum(sizes))
    work = functools.partial(_index_file, force=force, seek_point_bytes=seek_point_bytes)
    found = []
    done = tasks.run_tasks(work, files, sizes)
    with closing(done):
        for result, size in done:
            watcher.advanced(size, result.records)
            if result.error is not None and on_error == "skip":
                watcher.skipped(result.error)
            found.append(result)
    first = next((result.error for result in found if result.error is not None), None)
    if first is not None and on_error == "raise":
        raise first
    return found


def _index_file(file: Location, *, force: bool, seek_point_bytes: int | None) -> IndexedFile:
    size = file.stamp().size
    try:
        state, index = IndexPlaces().update(file, force=force, seek_point_bytes=seek_point_bytes)
    except TorchRecIOError as error:
        return IndexedFile(file.name, "failed", 0, size, error)
    return IndexedFile(file.name, state, len(index), size)
