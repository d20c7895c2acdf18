"""Inference of a schema on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from contextlib import closing

from .._schema.schema import Schema
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from ..checks import check_choice
from ..inspection.inference import infer_surveyed
from ..inspection.record_sample import choose_records
from ..inspection.survey_files import PieceSurvey, merge_surveys, survey_piece
from ..tools.report import OnError, Watcher
from . import tasks
from .extra import import_ray
from .shared_indexes import sizes_of
from .shared_paths import expand_shared_paths


def infer(
    paths: StrPath | Iterable[StrPath],
    *,
    on_error: OnError = "raise",
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Schema:
    """Make a schema that fits all records of files, on a Ray cluster.

    The schema and its findings are those of ``Schema.infer(paths, max_records=None)``: every record
    is read. A file is read by one task, and small files together.

    Args:
        paths: Files, patterns or directories that all machines can read.
        on_error: ``"raise"``, or ``"skip"`` to ignore records that are damaged or are not Examples.
            The number of those in all files is logged.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`. Secrets in them
            are not sent to other machines: give these in the environment of all machines.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        SchemaError: If there are no records, no feature can be read, or there are more than 100,000
            features.
        DecodeError: If a record is neither an Example nor a SequenceExample; not with "skip".
        CorruptRecordError, TruncatedFileError: If a file is damaged; not with "skip".
        FileNotFoundError: If a path matches no file.
        OSError: If a file cannot be read.
        ValueError: If there are no paths, or ``on_error`` is invalid.
    """
    import_ray()
    check_choice("on_error", on_error, ("raise", "skip"))
    watcher = watcher or Watcher()
    # As in Schema.infer, shards may be missing.
    files = expand_shared_paths(paths, allow_missing=True, storage_options=storage_options)
    sizes = sizes_of(files)
    watcher.started(sum(sizes))
    skip_errors = on_error == "skip"
    work = functools.partial(_survey, skip_errors=skip_errors)
    with closing(tasks.run_tasks(work, files, sizes)) as results:

        def watched() -> Iterator[PieceSurvey]:
            for found, size in results:
                watcher.advanced(size, sum(piece.survey.records for piece in found))
                yield from found

        survey = merge_surveys(watched(), skip_errors=skip_errors)
    parts, findings, inspected, _ = infer_surveyed(survey, survey.records)
    return Schema(**parts).with_findings(findings, inspected)


def _survey(file: Location, *, skip_errors: bool) -> list[PieceSurvey]:
    return [survey_piece(piece, skip_errors) for piece in choose_records([file], None).pieces]
