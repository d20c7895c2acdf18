"""The command ``clean``."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from ..checks import counted
from ..tools.cleaning import Leftover, clean
from .options import interruptible
from .text import printable

_DONE = {"remove": "removed", "complete": "completed", "keep": "kept"}


@interruptible
def clean_folders(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Folders, starts of the paths of outputs, or URLs of folders."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be done.")
    ] = False,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            min=0,
            metavar="HOURS",
            help="Age at which files of processes on other machines, and folders of jobs on a "
            "cluster that do not run, are removed.",
        ),
    ] = 24.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each item, one a line.")
    ] = False,
) -> None:
    """Remove temporary files of killed writers, and complete commits that they had not finished.

    Files of a living process or running job are kept. Folders are searched with all folders in
    them. In a store, what there is of an unfinished commit is removed. The exit status is 1 if
    something could not be removed or completed.
    """
    try:
        found = clean(paths, dry_run=dry_run, older_than=older_than)
    except (OSError, ImportError, ValueError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        for leftover in found:
            typer.echo(json.dumps(dataclasses.asdict(leftover)))
    else:
        for leftover in found:
            typer.echo(printable(_line(leftover, dry_run)))
        typer.echo(_summary(found, dry_run))
    if any(leftover.error is not None for leftover in found):
        raise typer.Exit(1)


def _line(leftover: Leftover, dry_run: bool) -> str:
    done = _DONE[leftover.action]
    if leftover.error is not None:
        return f"{leftover.path}: could not be {done}: {leftover.error}"
    verb = f"would be {done}" if dry_run else done
    return f"{leftover.path}: {verb}: {leftover.reason}"


def _summary(found: list[Leftover], dry_run: bool) -> str:
    removed = [one for one in found if one.action == "remove" and one.error is None]
    size = counted(sum(leftover.size for leftover in removed), "byte")
    return f"{counted(len(removed), 'item')} {'would be ' * dry_run}removed, {size}"
