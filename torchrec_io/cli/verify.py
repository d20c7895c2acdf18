"""The command ``verify``."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer

from .._records.foreign_files import FOREIGN_REASONS
from .._records.formats import Progress
from .._records.verify import VerifyReport, verify_file
from .._storage.location import Location
from ..checks import counted
from .options import (
    DEFAULT_JOBS,
    AllowMissingOption,
    FileJobs,
    JsonLinesOption,
    Paths,
    RayOption,
    files_of,
    interruptible,
)
from .progress import FileOutcome, Meter, connect_to_ray, for_each_file, run_job
from .text import damage_bar, error_members


@interruptible
def verify_files(
    paths: Paths,
    jobs: FileJobs = DEFAULT_JOBS,
    *,
    ray: RayOption = None,
    allow_missing: AllowMissingOption = False,
    as_json: JsonLinesOption = False,
) -> None:
    """Verify the checksums of the length and data of every record.

    Prints a line for each damaged record and for each file, and a bar of each damaged file's length
    with the damaged parts marked. The exit status is 1 if anything is damaged.

    A line of --json has the members file, ok, records (intact ones), damaged, damage (the reasons),
    lost (why no record can be read from some offset on), file_bytes and seconds (null with --ray,
    where several tasks read a large file).
    """
    totals: Counter[str] = Counter()

    def work(file: Location, progress: Progress) -> VerifyReport:
        return verify_file(file, progress=progress)

    def done(meter: Meter, outcome: FileOutcome[VerifyReport]) -> None:
        report = outcome.value
        totals["files with errors"] += report is None or not report.ok
        if outcome.error is not None:
            meter.error(outcome.path, outcome.error)
        if as_json:
            meter.line(outcome.as_json({"ok": False} if report is None else _members(report)))
        elif report is not None:
            _print_report(meter, report, outcome.seconds)

    files = files_of(paths, allow_missing=allow_missing)
    if ray is None:
        meter = for_each_file(files, jobs, work, done)
    else:
        meter = Meter([])
        for file, report in zip(files, _verify_on_ray(files, ray, meter), strict=True):
            done(meter, FileOutcome(file.absolute(), report.file_bytes, None, report, None))
    with_errors = totals["files with errors"]
    if not as_json:
        typer.echo(f"{counted(len(files), 'file')}, {with_errors:,} with errors; {meter.summary()}")
    if with_errors:
        raise typer.Exit(1)


def _verify_on_ray(files: Sequence[Location], address: str, meter: Meter) -> list[VerifyReport]:
    from ..cluster.verification import verify  # noqa: PLC0415  # rarely needed

    connect_to_ray(address)
    return run_job(functools.partial(verify, files), meter)


def _members(report: VerifyReport) -> dict[str, Any]:
    lost = None if report.lost is None else error_members(report.lost)
    return {
        "ok": report.ok,
        "records": report.records,
        "damaged": report.damaged,
        "damage": [error_members(error) for error in report.damage],
        "lost": lost and {**lost, "bytes": report.lost_bytes},
    }


def _print_report(meter: Meter, report: VerifyReport, seconds: float | None) -> None:
    _print_damage(meter, report)
    if not (report.ok and meter.has_bar):
        found = f"intact, {counted(report.records, 'record')}"
        if not report.ok:
            intact = counted(report.records, "intact record")
            found = f"DAMAGED, {intact}, {report.damaged:,} damaged"
        size = counted(report.file_bytes, "byte")
        duration = "" if seconds is None else f", {seconds:.3f} s"
        meter.line(f"{report.path}: {found}, {size}{duration}")
    if not report.ok:
        bar = damage_bar(report.damage_map, sys.stdout.encoding)
        meter.line(f"{report.path}: {bar} damaged parts")


def _print_damage(meter: Meter, report: VerifyReport) -> None:
    for error in report.damage:
        meter.line(_place(report.path, error.record, error.offset) + error.reason)
    unlisted = report.damaged - len(report.damage)
    if unlisted:
        meter.line(f"{report.path}: {counted(unlisted, 'more damaged record')}")
    if report.lost is not None:
        size = "" if report.lost_bytes is None else f" ({counted(report.lost_bytes, 'byte')})"
        place = _place(report.path, report.lost.record, report.lost.offset)
        is_foreign = report.lost.reason in FOREIGN_REASONS
        hint = "" if is_foreign else "; 'torchrec-io repair' may find more records in it"
        meter.line(
            f"{place}{report.lost.reason}; the rest of the file{size} is lost to readers{hint}"
        )


def _place(path: str, record: int | None, offset: int | None) -> str:
    return f"{path}: record {record} at offset {offset}: "
