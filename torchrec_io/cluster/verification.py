"""Verification of TFRecord files on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import closing

from .._records.file_piece import FilePiece
from .._records.verify import VerifyReport, joined_reports, verify_file
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._storage.thread_pool import map_in_threads
from ..tools.report import Watcher
from . import tasks
from .extra import import_ray
from .file_parts import divide_file
from .shared_paths import expand_shared_paths


def verify(
    paths: StrPath | Iterable[StrPath],
    *,
    allow_missing: bool = False,
    storage_options: StorageOptions = None,
    watcher: Watcher | None = None,
) -> list[VerifyReport]:
    """Verify all checksums of TFRecord files, as ``torchrec-io verify`` does, on a Ray cluster.

    The tasks are cut by bytes: a large file that has an index is verified in parts, and small files
    together. The reports are those of one machine.

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
    divide = functools.partial(divide_file, cuts_compressed=False)
    work = map_in_threads(divide, files)
    items = [piece for pieces in work for piece in pieces]
    sizes = [piece.stored_bytes for piece in items]
    watcher.started(sum(sizes))
    reports: list[VerifyReport] = []
    with closing(tasks.run_tasks(verify_file, items, sizes)) as results:
        for file, pieces in zip(files, work, strict=True):
            found = []
            for _ in pieces:
                report, size = next(results)
                watcher.advanced(size, report.records)
                found.append(report)
            reports.append(_joined(file, found))
    return reports


def _joined(file: Location, reports: list[VerifyReport]) -> VerifyReport:
    if len(reports) == 1:
        return reports[0]
    if all(report.lost is None for report in reports):
        return joined_reports(reports)
    # What follows a damaged length is lost to readers, which do not know where records start.
    [(report, _)] = tasks.run_tasks(verify_file, [FilePiece(file)], [reports[0].file_bytes])
    return report
