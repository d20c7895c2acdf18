"""Results of tools and conversions as text and JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import typer
from rich.filesize import decimal

from ..checks import counted
from ..tools.report import Result
from .text import members_of, printable, shorten, to_json

# Features that a summary names.
_MOST_NAMED = 10


def print_result(result: Result, *, as_json: bool) -> None:
    """Print a line for each file, if there are only a few, and a summary."""
    if as_json:
        typer.echo(_json(result))
        return
    if 1 < len(result.paths) <= 16:
        for path, count in zip(result.paths, result.counts, strict=True):
            typer.echo(printable(f"{path}: {counted(count, 'record')}"))
    typer.echo(summary_of(result))


def summary_of(result: Result) -> str:
    """Summarize a result in one line."""
    noun = "folder" if os.path.isdir(result.paths[0]) else "file"
    ignored = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result.ignored.items()))
    parts = [
        f"{counted(result.records, 'record')} in {counted(len(result.paths), noun)}",
        decimal(result.file_bytes),
        f"{result.skipped:,} skipped",
        f"ignored {ignored}" if ignored else "",
        _left_out_text(result.left_out),
        f"{result.seconds:.2f} s",
    ]
    return printable(", ".join(filter(None, parts)))


def _left_out_text(left_out: Mapping[str, int]) -> str:
    """Name the features that a schema leaves out, and the numbers of records that have them."""
    if not left_out:
        return ""
    named = [
        f"{shorten(repr(name))} (in {counted(count, 'record')})" for name, count in left_out.items()
    ]
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    noun = "feature" if len(named) == 1 else "features"
    return f"left out {noun} {', '.join(named[:_MOST_NAMED])}{more}"


def _json(result: Result) -> str:
    members = {"records": result.records, **members_of(result)}
    files = zip(members.pop("paths"), members.pop("counts"), strict=True)
    if result.schema is not None:
        members["schema"] = json.loads(result.schema.to_json())
    return to_json(
        {"files": [{"file": path, "records": count} for path, count in files], **members}
    )
