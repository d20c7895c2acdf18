"""``torchrec-io convert --to``: TFRecord to Parquet, WebDataset or plain files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from ..convert.jobs import Watcher
from ..convert.outputs import Written
from ..errors import SchemaError
from ..schema.schema import Schema
from .rearrange import print_written
from .report import files_of
from .running import OnError, run


class Target(str, Enum):
    """What is converted to."""

    tfrecord = "tfrecord"
    parquet = "parquet"
    webdataset = "webdataset"
    files = "files"


# Options that each has.
OPTIONS = {
    Target.parquet: {"schema", "num_shards"},
    Target.webdataset: {"schema", "max_bytes", "key", "extensions"},
    Target.files: {"feature", "name_from", "by_class"},
}


def export_records(
    sources: Sequence[str],
    destination: str,
    target: Target,
    arguments: Mapping[str, Any],
    *,
    on_error: OnError,
    jobs: int,
) -> None:
    """Converts record files by the function for a target, and says what was written.

    Args:
        sources: Files, patterns or directories.
        destination: See the function.
        target: What to convert to.
        arguments: Those of :data:`OPTIONS` that were given, as the function takes them; but the
            name of a file with the schema, as ``torchrec-io schema --format json`` writes it.
        on_error: Likewise.
        jobs: Likewise.
    """
    files = files_of(sources)
    function = _function(target)

    def work(watcher: Watcher) -> Written:
        options = dict(arguments)
        if "schema" in options:
            options["schema"] = _read_schema(options["schema"])
        return function(
            files, destination, **options, on_error=on_error.value, jobs=jobs, watcher=watcher
        )

    print_written(run(work))


def _read_schema(path: str) -> Schema:
    try:
        return Schema.from_json(Path(path).read_bytes())
    except SchemaError as error:
        raise SchemaError(error.reason, path=path, feature=error.feature) from None


def _function(target: Target) -> Callable[..., Written]:
    # Each needs packages that take a while to import.
    if target is Target.parquet:
        from ..convert.parquet_out import to_parquet  # noqa: PLC0415

        return to_parquet
    if target is Target.webdataset:
        from ..convert.webdataset import to_webdataset  # noqa: PLC0415

        return to_webdataset
    from ..convert.folder_out import to_files  # noqa: PLC0415

    return to_files
