"""The command ``verify``."""

from __future__ import annotations

import sys
from collections import Counter

import typer

from ..checks import counted
from ..records.formats import Progress
from ..records.verify import VerifyReport, verify_file
from .options import DEFAULT_JOBS, AllowMissingOption, FileJobs, Paths, files_of, interruptible
from .progress import FileOutcome, Meter, for_each_file
from .text import damage_bar


@interruptible
def verify_files(
    paths: Paths, jobs: FileJobs = DEFAULT_JOBS, *, allow_missing: AllowMissingOption = False
) -> None:
    """Verify the checksums of the length and data of every record.

    Prints a line for each damaged record and for each file, and a bar of each damaged file's length
    with the damaged parts marked. The exit status is 1 if anything is damaged.
    """
    totals: Counter[str] = Counter()

    def work(path: str, progress: Progress) -> VerifyReport:
        return verify_file(path, progress=progress)

    def done(meter: Meter, outcome: FileOutcome[VerifyReport]) -> None:
        report = outcome.value
        if report is None:
            assert outcome.error is not None
            meter.error(outcome.path, outcome.error)
            totals["files with errors"] += 1
            return
        totals["files with errors"] += not report.ok
        _print_damage(meter, report)
        if not (report.ok and meter.has_bar):
            found = f"intact, {counted(report.records, 'record')}"
            if not report.ok:
                intact = counted(report.records, "intact record")
                found = f"DAMAGED, {intact}, {report.damaged:,} damaged"
            size = counted(report.file_bytes, "byte")
            meter.line(f"{report.path}: {found}, {size}, {outcome.seconds:.3f} s")
        if not report.ok:
            bar = damage_bar(report.damage_map, sys.stdout.encoding)
            meter.line(f"{report.path}: {bar} damaged parts")

    files = files_of(paths, allow_missing=allow_missing)
    meter = for_each_file(files, jobs, work, done)
    with_errors = totals["files with errors"]
    typer.echo(f"{counted(len(files), 'file')}, {with_errors:,} with errors; {meter.summary()}")
    if with_errors:
        raise typer.Exit(1)


def _print_damage(meter: Meter, report: VerifyReport) -> None:
    for error in report.damage:
        meter.line(_place(report.path, error.record, error.offset) + error.reason)
    unlisted = report.damaged - len(report.damage)
    if unlisted:
        meter.line(f"{report.path}: {counted(unlisted, 'more damaged record')}")
    if report.lost is not None:
        size = "" if report.lost_bytes is None else f" ({counted(report.lost_bytes, 'byte')})"
        place = _place(report.path, report.lost.record, report.lost.offset)
        meter.line(
            f"{place}{report.lost.reason}; the rest of the file{size} is lost to readers; "
            "'torchrec-io repair' may find more records in it"
        )


def _place(path: str, record: int | None, offset: int | None) -> str:
    return f"{path}: record {record} at offset {offset}: "
