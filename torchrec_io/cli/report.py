"""The command ``report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer import Option

from .._storage.location import Location
from ..checks import counted
from .options import DEFAULT_JOBS, command, files_of
from .progress import run_job
from .text import printable

if TYPE_CHECKING:
    from ..reports.results import Report
    from ..tools.report import Watcher


@command(
    output=Option("--output", "-o", metavar="FILE"),
    max_records=Option(min=1),
    all_records=Option("--all"),
    label=Option(metavar="FEATURE"),
)
def write_report(
    paths: list[str],
    output: str | None = None,
    *,
    max_records: int = 10_000,
    all_records: bool = False,
    duplicates: bool = False,
    label: str | None = None,
    force: bool = False,
    as_json: bool = False,
    allow_missing: bool = False,
    jobs: int = DEFAULT_JOBS,
) -> None:
    """Show what files hold and whether they are valid, as a page for a browser.

    The page has totals, statistics of every feature, images, texts, how the label depends on the
    order, damage, a schema and a training loop. Values are read from a sample of the records, or
    from all of them with --all. Each set of shards, such as train-* and val-*, has a part.
    The exit status is 0 even if files are damaged.

    Options:
        output: Page to write: an HTML file.
        max_records: Number of records whose values are read.
        all_records: Read the values of all records.
        duplicates: Find records with the same content; reads all records.
        label: Feature that is the label.  [default: by its name]
        force: Replace FILE if it exists.
        as_json: Print the report in JSON.
        jobs: Number of threads.
    """
    # It loads the image decoders, which other commands do not need.
    from .._storage.outputs import refuse_existing  # noqa: PLC0415
    from ..reports.reporting import report  # noqa: PLC0415

    if output is None and not as_json:
        raise typer.BadParameter("--output FILE is missing; --json prints the report instead")
    files = files_of(paths, allow_missing=allow_missing, one_set=False)
    target = None if output is None else Location.of(output)
    limit = None if all_records else max_records

    def make(watcher: Watcher) -> Report:
        if target is not None and not force:
            refuse_existing(target)
        made = report(
            files, max_records=limit, label=label, duplicates=duplicates, jobs=jobs, watcher=watcher
        )
        if target is not None:
            made.save(target, force=force)
        return made

    made = run_job(make)
    if as_json:
        typer.echo(made.to_json(indent=2))
    else:
        for each in (made, *made.other_sets):
            start = f"{each.title}: " if made.other_sets else ""
            typer.echo(printable(start + _summary(each, str(output))))


def _summary(made: Report, output: str) -> str:
    inspected = "all" if made.is_exact else f"{made.inspected:,}"
    parts = [
        f"{counted(made.records, 'record')} in {counted(len(made.files), 'file')}",
        f"{inspected} inspected",
        counted(len(made.features), "feature"),
    ]
    if made.damaged_files:
        parts.append(f"{counted(len(made.damaged_files), 'damaged file')}")
    return f"{', '.join(parts)}; written to {output} in {made.seconds:.2f} s"
