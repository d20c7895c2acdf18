"""The command ``index``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import typer

from .._records.formats import Progress
from .._records.index import RecordIndex
from .._records.index_places import IndexFormat, IndexPlaces
from .._records.manifest import ManifestEntry, by_folder, entry_of, update_manifest
from .._storage.compression import detect_compression
from .._storage.local import head_of
from .._storage.location import Location
from ..checks import counted
from ..errors import StaleIndexError
from .options import (
    DEFAULT_JOBS,
    AllowMissingOption,
    JsonLinesOption,
    Paths,
    RayOption,
    files_of,
    interruptible,
    parse_size,
    usage_errors,
)
from .progress import FileOutcome, Meter, for_each_file
from .text import error_line, printable

# Objects wait for their answers most of the time.
_REMOTE_JOBS = 16


class _Indexed(NamedTuple):
    state: str  # "indexed", "up to date" or "index matches"
    records: int
    entry: ManifestEntry | None = None


@interruptible
def make_indexes(
    paths: Paths,
    index_format: Annotated[
        IndexFormat,
        typer.Option(
            "--format", help="tfidx writes FILE.tfidx; text writes FILE.idx, for DALI and tfrecord."
        ),
    ] = "tfidx",
    *,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Number of files processed at the same time.",
            show_default=f"number of CPUs, at most 8; {_REMOTE_JOBS} for URLs",
        ),
    ] = None,
    upload: Annotated[
        bool,
        typer.Option(
            "--upload", help="Write the indexes of URLs beside the objects, and a manifest of them."
        ),
    ] = False,
    output_dir: Annotated[
        str | None,
        typer.Option(
            "--output-dir",
            metavar="DIR",
            help="Write the indexes to this directory or URL instead.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Build indexes again that are up to date, and replace other FILE.idx."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Build nothing; report indexes that are missing or stale."),
    ] = False,
    seek_points: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Decompressed bytes between two seek points of a new index of a compressed file, "
            "such as 1MB. By default about 4 MiB, so that they take less than 1 % of the file.",
        ),
    ] = None,
    max_index_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Most bytes of an index, such as 1GB. By default 64 MiB, or 64 times the size of "
            "the file if that is more.",
        ),
    ] = None,
    ray: RayOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonLinesOption = False,
) -> None:
    """Write an index beside each TFRecord file, unless there is one that is up to date.

    Files may be compressed. The exit status is 1 if a file fails; the other files are still
    indexed.

    Objects of a store are read once, many at the same time. --upload also writes a manifest of each
    folder: with it, a dataset opens thousands of objects by a listing and one request.

    A line of --json has the members file, state, records, file_bytes and seconds. The state is
    indexed, "up to date", "index matches" or failed, with an error.
    """
    if check and force:
        raise typer.BadParameter("--check cannot be used with --force: it builds nothing")
    files = files_of(paths, allow_missing=allow_missing)
    with usage_errors():
        span_bytes = None if seek_points is None else parse_size(seek_points)
        max_bytes = None if max_index_size is None else parse_size(max_index_size)
        # Processes in other working directories need an absolute path.
        folder = None if output_dir is None else Location.of(output_dir).absolute()
        places = IndexPlaces(index_format, folder)
        _check_places(places, files, upload=upload, writes=not check)
    states: Counter[str] = Counter()
    entries: dict[Location, ManifestEntry] = {}

    def work(file: Location, progress: Progress) -> _Indexed:
        if check:
            return _check(file, places, max_bytes, progress)
        return _make(
            file, places, progress, force=force, span_bytes=span_bytes, max_bytes=max_bytes
        )

    def done(meter: Meter, outcome: FileOutcome[_Indexed]) -> None:
        if outcome.error is not None:
            meter.error(outcome.path, outcome.error)
        indexed = outcome.value
        states[indexed.state if indexed else "failed"] += 1
        if indexed and indexed.entry:
            entries[outcome.file] = indexed.entry
        _show(meter, outcome, as_json=as_json)

    has_objects = any(file.local_path is None for file in files)
    at_once = jobs or (_REMOTE_JOBS if has_objects else DEFAULT_JOBS)
    meter = for_each_file(files, at_once, work, done, ray=ray)
    has_manifests = _write_manifests(places, entries, is_silent=as_json)
    if meter.has_bar and not as_json:
        totals = ", ".join(f"{count:,} {state}" for state, count in states.items())
        typer.echo(f"{totals}; {meter.summary()}")
    if states["failed"] or not has_manifests:
        raise typer.Exit(1)


def _check_places(
    places: IndexPlaces, files: Sequence[Location], *, upload: bool, writes: bool
) -> None:
    """Check that the indexes of files have places; make a local directory for them.

    Args:
        places: The places.
        files: Data files.
        upload: Whether indexes may be written beside remote objects.
        writes: Whether indexes are written, not only read.

    Raises:
        ValueError: If they have none.
        OSError: If the directory cannot be made.
    """
    first = next((file for file in files if file.local_path is None), None)
    folder = places.folder
    if upload and folder is not None:
        raise ValueError("--upload cannot be used with --output-dir: choose one place")
    if folder is not None:
        names = Counter(file.basename for file in files)
        name, count = max(names.items(), key=lambda item: item[1])
        if count > 1:
            raise ValueError(
                f"--output-dir needs files with different names, got {count} named {name!r}"
            )
    elif writes and first is not None and not upload:
        raise ValueError(
            f"{first} is a remote object: add --upload to write its index beside it, or "
            "--output-dir DIR"
        )
    target = places.index_of(first or files[0])
    if writes and not target.has_listing:
        raise ValueError(f"an HTTP server cannot be written: use --output-dir, got {target}")
    if places.index_format == "text" and target.local_path is None:
        raise ValueError("--format text needs a local directory: use --output-dir DIR")
    if writes and folder is not None and folder.local_path is not None:
        os.makedirs(folder, exist_ok=True)


def _show(meter: Meter, outcome: FileOutcome[_Indexed], *, as_json: bool) -> None:
    """Print the line of a file."""
    indexed = outcome.value
    if as_json:
        found = {"state": indexed.state, "records": indexed.records} if indexed else None
        meter.line(outcome.as_json(found or {"state": "failed"}))
    elif indexed and not meter.has_bar:
        records = counted(indexed.records, "record")
        size = counted(outcome.file_bytes, "byte")
        meter.line(f"{outcome.path}: {indexed.state}, {records}, {size}, {outcome.seconds:.3f} s")


def _make(
    file: Location,
    places: IndexPlaces,
    progress: Progress,
    *,
    force: bool,
    span_bytes: int | None,
    max_bytes: int | None,
) -> _Indexed:
    if places.index_format == "text":
        _refuse_compressed(file)
    state, index = places.update(
        file, force=force, seek_point_bytes=span_bytes, max_index_bytes=max_bytes, progress=progress
    )
    return _Indexed(state, len(index), None if places.index_format == "text" else entry_of(index))


def _check(
    file: Location, places: IndexPlaces, max_bytes: int | None, progress: Progress
) -> _Indexed:
    try:
        index = places.load(file)
    except FileNotFoundError:
        raise ValueError("the index does not exist") from None
    fresh = RecordIndex.build(file, progress=progress, max_index_bytes=max_bytes)
    same_end = index.stream_end == fresh.stream_end
    if not (same_end and np.array_equal(index.offsets, fresh.offsets)):
        raise StaleIndexError(
            "the index does not match the records of the data file", path=places.index_of(file).name
        )
    return _Indexed("index matches", len(index))


def _write_manifests(
    places: IndexPlaces, entries: Mapping[Location, ManifestEntry], *, is_silent: bool
) -> bool:
    """Write the manifest of each folder; return whether that was possible."""
    is_done = True
    for folder, found in by_folder(entries, places.folder).items():
        try:
            written = update_manifest(folder, found)
        except (OSError, StaleIndexError, ValueError) as error:
            typer.echo(error_line(folder.name, error), err=True)
            is_done = False
            continue
        if not is_silent:
            records = counted(sum(entry.facts.records for entry in found.values()), "record")
            typer.echo(printable(f"{written}: {counted(len(found), 'object')}, {records}"))
    return is_done


def _refuse_compressed(file: Location) -> None:
    compression = detect_compression(head_of(file.open()))
    if compression is not None:
        raise ValueError(
            f"a text index of a {compression} file is not possible: its readers do not decompress; "
            "use --format tfidx"
        )
