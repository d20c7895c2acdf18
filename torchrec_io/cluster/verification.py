"""Verification of TFRecord files on a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from .._records.verify import VerifyReport, verify_file
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from ..tools.report import Watcher
from . import tasks
from .extra import import_ray
from .shared_indexes import sizes_of
from .shared_paths import expand_shared_paths


def verify(
    paths: StrPath | Iterable[StrPath],
    *,
    allow_missing: bool = False,
    storage_options: StorageOptions = None,
    watcher: Watcher | None = None,
) -> list[VerifyReport]:
    """Verify all checksums of TFRecord files, as ``torchrec-io verify`` does, on a Ray cluster.

    A file is verified by one task, and small files together. The reports are those of one machine.

    Args:
        paths: Files, glob patterns or directories that all machines can read.
        allow_missing: Verify the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`. Secrets in them
            are not sent to other machines: give these in the environment of all machines.
        watcher: Receiver of progress messages.

    Returns:
        A report for each file, in order: its ``path``, the number of intact ``records``, ``ok`` if
        no damage was found, and the ``damage`` otherwise.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        FileNotFoundError: If a path matches no file, or shards are missing.
        OSError: If a file cannot be read.
        ValueError: If there are no paths.
    """
    import_ray()
    watcher = watcher or Watcher()
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    sizes = sizes_of(files)
    watcher.started(sum(sizes))
    reports: list[VerifyReport] = []
    with closing(tasks.run_tasks(verify_file, files, sizes)) as results:
        for report, size in results:
            watcher.advanced(size, report.records)
            reports.append(report)
    return reports
