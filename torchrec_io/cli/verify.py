"""``torchrec-io verify``: checks every checksum."""

from __future__ import annotations

from collections import Counter

import typer

from ..records.formats import Progress
from ..records.verify import VerifyReport, verify_file
from .report import DEFAULT_JOBS, Jobs, Meter, Paths, Result, files_of, for_each_file, interruptible


@interruptible
def verify_files(paths: Paths, jobs: Jobs = DEFAULT_JOBS) -> None:
    """Checks the length and the data of every record against its checksum.

    Prints a line for each damaged record, and one for each file. Status 1 if anything is damaged.
    """
    totals: Counter[str] = Counter()

    def work(path: str, progress: Progress) -> VerifyReport:
        return verify_file(path, progress=progress)

    def done(meter: Meter, result: Result[VerifyReport]) -> None:
        report = result.value
        if report is None:
            assert result.error is not None
            meter.error(result.path, result.error)
            totals["unreadable"] += 1
            return
        totals["damaged records"] += report.damaged
        totals["damaged files"] += not report.ok
        _print_damage(meter, report)
        if not (report.ok and meter.has_bar):
            found = f"sound, {report.records} records"
            if not report.ok:
                found = f"DAMAGED, {report.records} sound records, {report.damaged} damaged"
            meter.line(f"{report.path}: {found}, {report.file_bytes} bytes, {result.seconds:.3f} s")

    files = files_of(paths)
    meter = for_each_file(files, jobs, work, done)
    bad = totals["damaged files"] + totals["unreadable"]
    typer.echo(f"{len(files)} files, {bad} of them bad; {meter.summary()}")
    if bad:
        raise typer.Exit(1)


def _print_damage(meter: Meter, report: VerifyReport) -> None:
    for error in report.damage:
        meter.line(_place(report.path, error.record, error.offset) + error.reason)
    unlisted = report.damaged - len(report.damage)
    if unlisted:
        meter.line(f"{report.path}: and {unlisted} more damaged records")
    if report.lost is not None:
        rest = "" if report.lost_bytes is None else f" ({report.lost_bytes} bytes)"
        place = _place(report.path, report.lost.record, report.lost.offset)
        meter.line(f"{place}{report.lost.reason}; the rest of the file{rest} is lost")


def _place(path: str, record: int | None, offset: int | None) -> str:
    return f"{path}: record {record} at offset {offset}: "
