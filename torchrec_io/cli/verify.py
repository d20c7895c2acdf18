"""The command ``verify``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import typer

from .._records.foreign_files import FOREIGN_REASONS
from .._records.formats import Progress
from .._records.verify import VerifyReport, verify_file
from .._storage.location import Location
from ..checks import counted
from ..errors import TorchRecIOError
from .options import DEFAULT_JOBS, cluster_function, command, files_of
from .progress import FileOutcome, Meter, for_each_file, run_job
from .text import damage_bar, members_of, printable


@command()
def verify_files(
    paths: list[str],
    jobs: int = DEFAULT_JOBS,
    *,
    ray: str | None = None,
    allow_missing: bool = False,
    as_json: bool = False,
) -> None:
    """Verify the checksums of the length and data of every record.

    Prints a line for each damaged record and for each file, and a bar of each damaged file's length
    with the damaged parts marked. The exit status is 1 if anything is damaged.

    A line of --json has the members file, ok, records (intact ones), damaged, damage (the reasons),
    lost (why no record can be read from some offset on), file_bytes and seconds (null with --ray,
    where several tasks read a large file).

    Options:
        jobs: Number of files processed at the same time.
        as_json: Print a JSON object for each file, one a line.
    """
    meter = Meter()
    files = files_of(paths, allow_missing=allow_missing)
    failed = 0

    def work(file: Location, progress: Progress) -> VerifyReport:
        return verify_file(file, progress=progress)

    def done(outcome: FileOutcome[VerifyReport]) -> None:
        nonlocal failed
        report = outcome.value
        failed += report is None or not report.ok
        if as_json:
            typer.echo(outcome.as_json({"ok": False} if report is None else _members(report)))
        elif report is not None:
            _print(report, outcome, is_short=meter.has_bar)

    if ray is None:
        for_each_file(files, jobs, work, done, meter)
    else:
        job = functools.partial(cluster_function("verify", {}), files)
        for file, report in zip(files, run_job(job, meter, ray=ray), strict=True):
            done(FileOutcome(file.absolute(), report.file_bytes, None, report, None))
    if not as_json:
        typer.echo(f"{counted(len(files), 'file')}, {failed:,} with errors; {meter.summary()}")
    if failed:
        raise typer.Exit(1)


def _members(report: VerifyReport) -> dict[str, Any]:
    lost = None if report.lost is None else members_of(report.lost)
    return {
        "ok": report.ok,
        "records": report.records,
        "damaged": report.damaged,
        "damage": report.damage,
        "lost": lost and {**lost, "bytes": report.lost_bytes},
    }


def _print(report: VerifyReport, outcome: FileOutcome[VerifyReport], *, is_short: bool) -> None:
    for line in _damage(report):
        typer.echo(printable(f"{report.path}: {line}"))
    if not report.ok:
        intact = counted(report.records, "intact record")
        typer.echo(outcome.as_text(f"DAMAGED, {intact}, {report.damaged:,} damaged"))
        typer.echo(printable(f"{report.path}: {damage_bar(report.damage_map)}"))
    elif not is_short:
        typer.echo(outcome.as_text(f"intact, {counted(report.records, 'record')}"))


def _damage(report: VerifyReport) -> Iterator[str]:
    for error in report.damage:
        yield f"{_place(error)}: {error.reason}"
    unlisted = report.damaged - len(report.damage)
    if unlisted:
        yield counted(unlisted, "more damaged record")
    if report.lost is not None:
        size = "" if report.lost_bytes is None else f" ({counted(report.lost_bytes, 'byte')})"
        is_foreign = report.lost.reason in FOREIGN_REASONS
        hint = "" if is_foreign else "; 'torchrec-io repair' may find more records in it"
        lost = f"the rest of the file{size} is lost to readers{hint}"
        yield f"{_place(report.lost)}: {report.lost.reason}; {lost}"


def _place(error: TorchRecIOError) -> str:
    return f"record {error.record} at offset {error.offset}"
