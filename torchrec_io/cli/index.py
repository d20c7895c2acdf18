"""The command ``index``."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any, TypeAlias

import typer
from typer import Option

from .._records.formats import Progress
from .._records.index_places import IndexFormat, IndexPlaces
from .._storage.location import Location
from ..checks import counted
from .options import DEFAULT_JOBS, cluster_function, command, files_of, given_options, usage_errors
from .parsers import parse_size
from .progress import FileOutcome, Meter, for_each_file, run_job

# Objects wait for their answers most of the time.
_REMOTE_JOBS = 16


# The state of an index, and the number of records. The state is "indexed", "up to date" or "index
# matches".
_Indexed: TypeAlias = tuple[str, int]


@command(
    index_format=Option("--format"),
    jobs=Option(
        "--jobs",
        "-j",
        min=1,
        show_default=f"number of CPUs, at most 8; {_REMOTE_JOBS} for URLs",
    ),
    output_dir=Option(metavar="DIR"),
    seek_points=Option(metavar="SIZE", parser=parse_size),
    max_index_size=Option(metavar="SIZE", parser=parse_size),
)
def make_indexes(
    paths: list[str],
    index_format: IndexFormat = "tfidx",
    *,
    jobs: int | None = None,
    upload: bool = False,
    output_dir: str | None = None,
    force: bool = False,
    check: bool = False,
    seek_points: int | None = None,
    max_index_size: int | None = None,
    ray: str | None = None,
    allow_missing: bool = False,
    as_json: bool = False,
) -> None:
    """Write an index beside each TFRecord file, unless there is one that is up to date.

    Files may be compressed. The exit status is 1 if a file fails; the other files are still
    indexed.

    Objects of a store are read once, many at the same time.

    With --ray, indexes are written beside the files. --check, --format text, --output-dir and
    --max-index-size cannot be used with it.

    A line of --json has the members file, state, records, file_bytes and seconds (null with --ray).
    The state is indexed, "up to date", "index matches" or failed, with an error.

    Options:
        index_format: tfidx writes FILE.tfidx; text writes FILE.idx, for DALI and tfrecord.
        jobs: Number of files processed at the same time.
        upload: Write the indexes of URLs beside the objects.
        output_dir: Write the indexes to this directory or URL instead.
        force: Build indexes again that are up to date, and replace other FILE.idx.
        check: Build nothing; report indexes that are missing or stale.
        seek_points: Decompressed bytes between two seek points of a new index of a compressed
            file, such as 1MB. By default about 4 MiB, so that they take less than 1 % of the file.
        max_index_size: Most bytes of an index, such as 1GB. By default 64 MiB, or 64 times the
            size of the file if that is more.
        as_json: Print a JSON object for each file, one a line.
    """
    _refuse_both("--check", "--force", are_given=check and force)
    _refuse_both("--upload", "--output-dir", are_given=upload and output_dir is not None)
    with usage_errors():
        places = IndexPlaces(index_format, None if output_dir is None else Location.of(output_dir))
    options = {
        "check": check,
        "max_index_size": max_index_size,
        "format": index_format != "tfidx",
        "output_dir": output_dir,
        "force": force,
        "seek_point_bytes": seek_points,
    }
    given = {name: value for name, value in options.items() if value}
    on_cluster = None if ray is None else cluster_function("index", given)
    files = files_of(paths, allow_missing=allow_missing)
    first = next((file for file in files if file.local_path is None), None)
    if first is not None and not (check or upload or output_dir):
        raise typer.BadParameter(
            f"{first} is a remote object: add --upload to write its index beside it, or "
            "--output-dir DIR"
        )
    with usage_errors():
        places.prepare(files, is_written=not check)
    meter = Meter()
    states: Counter[str] = Counter()

    def work(file: Location, progress: Progress) -> _Indexed:
        limits: dict[str, Any] = {"max_index_bytes": max_index_size, "progress": progress}
        if check:
            return "index matches", len(places.check(file, **limits))
        state, index = places.update(file, force=force, seek_point_bytes=seek_points, **limits)
        return state, len(index)

    def done(outcome: FileOutcome[_Indexed]) -> None:
        states[outcome.value[0] if outcome.value else "failed"] += 1
        _show(outcome, as_json=as_json, is_short=meter.has_bar)

    if on_cluster is None:
        at_once = jobs or (DEFAULT_JOBS if first is None else _REMOTE_JOBS)
        for_each_file(files, at_once, work, done, meter)
    else:
        job = functools.partial(on_cluster, files, on_error="skip", **given)
        for file, found in zip(files, run_job(job, meter, ray=ray), strict=True):
            value = None if found.error else (found.state, found.records)
            done(FileOutcome(file.absolute(), found.file_bytes, None, value, found.error))
    if meter.has_bar and not as_json:
        totals = ", ".join(f"{count:,} {state}" for state, count in states.items())
        typer.echo(f"{totals}; {meter.summary()}")
    if states["failed"]:
        raise typer.Exit(1)


def _show(outcome: FileOutcome[_Indexed], *, as_json: bool, is_short: bool) -> None:
    """Print the line of a file."""
    state, records = outcome.value or ("failed", None)
    if as_json:
        typer.echo(outcome.as_json(given_options({"state": state, "records": records})))
    elif records is not None and not is_short:
        typer.echo(outcome.as_text(f"{state}, {counted(records, 'record')}"))


def _refuse_both(option: str, other: str, *, are_given: bool) -> None:
    if are_given:
        raise typer.BadParameter(f"{option} cannot be used with {other}")
