"""The command ``schema``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import typer
from rich import box
from rich.table import Table
from rich.text import Text
from typer import Option

from .._storage.folders import has_file
from .._storage.location import Location
from ..inspection.inference import Finding
from ..inspection.record_sample import MaxRecords
from ..tools.report import OnError, Watcher
from .options import cluster_function, command, files_of
from .progress import run_job
from .text import console_of, number_text, printable

if TYPE_CHECKING:
    from ..presets.recognition import AnySchema, Preset


@command(schema_format=Option("--format"), max_records=Option(min=1), all_records=Option("--all"))
def print_schema(
    paths: list[str],
    schema_format: Literal["python", "json"] = "python",
    *,
    max_records: int | None = None,
    all_records: bool = False,
    on_error: OnError = "raise",
    ray: str | None = None,
    as_json: bool = False,
) -> None:
    """Print a schema that reads the records; the reasons for it go to stderr.

    If the records have a well-known layout, the preset for it is printed.

    With --ray, all records are inspected, which must be Examples or SequenceExamples.

    Options:
        schema_format: Python code, or JSON for Schema.from_json.
        max_records: Number of records to inspect, evenly from all files. Default: all records of
            files of at most 256 MiB, otherwise at most 100,000.
        all_records: Inspect all records, however large the files are.
        on_error: raise: stop at a damaged record; skip: leave it out.
        as_json: The same as --format json.
    """
    # It loads the image decoders, which the other commands do not need.
    from ..presets.recognition import infer_any, recognize_schema  # noqa: PLC0415

    if all_records and max_records is not None:
        raise typer.BadParameter("--all cannot be used with --max-records")
    if ray is not None and max_records is not None:
        raise typer.BadParameter("--ray cannot be used with --max-records: it inspects all records")
    files = files_of(paths, allow_missing=True)

    def infer(watcher: Watcher) -> tuple[AnySchema, Preset | None]:
        if ray is None:
            limit: MaxRecords = None if all_records else max_records or "auto"
            schema: AnySchema = infer_any(files, limit, on_error)
        else:
            schema = cluster_function("infer", {})(files, on_error=on_error, watcher=watcher)
        return schema, recognize_schema(schema)

    schema, preset = run_job(infer, ray=ray)
    _show_findings(schema.findings or {})
    if schema.inspected is not None:
        caution = f": {schema.inspected.caution}" if schema.inspected.caution else ""
        typer.echo(f"{schema.inspected}{caution}.", err=True)
    if preset is not None:
        why = printable(preset.why)
        typer.echo(f"tio.presets.{preset.name} reads these records: {why}.", err=True)
    _point_to_tfds(files)
    if as_json or schema_format == "json":
        typer.echo((preset.schema if preset else schema).to_json(indent=2))
    else:
        typer.echo((preset or schema).to_python(), nl=False)


def _point_to_tfds(files: Sequence[Location]) -> None:
    """Print a hint if the files are in a directory with a features.json."""
    for folder in dict.fromkeys(file.parent for file in files):
        if has_file(folder.child("features.json")):
            typer.echo(
                f"{printable(folder.name or '.')} is a directory of TensorFlow Datasets: use "
                "tio.Schema.from_tfds to get the schema of its features.json.",
                err=True,
            )


def _show_findings(findings: Mapping[str, Finding]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature", overflow="fold")
    table.add_column("finding", overflow="fold")
    for name, found in findings.items():
        table.add_row(Text(printable(name)), _facts_text(found))
    console_of(sys.stderr).print(table)


def _facts_text(found: Finding) -> Text:
    """Return all facts about a feature."""
    counts = _from_to(found.counts)
    if found.steps is not None:
        counts = f"{_counted(found.steps, 'step')} of {counts or 'none'}"
    elif counts:
        counts += " value" if counts == "1" else " values"
    extent = _from_to(found.extent)
    if found.kind == "bytes":
        size = [_counted(found.extent, "byte")] if found.extent else []
        extent = ", ".join([*size, *found.formats])
    records = f"{found.kind} in {found.present}/{found.records} records"
    text = Text(", ".join(filter(None, (records, counts, extent))) + ": ")
    is_read = found.spec is not None
    text.append(type(found.spec).__name__ if is_read else "left out", "" if is_read else "bold")
    return text.append(f", {printable(found.why)}")


def _from_to(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    least, most = map(number_text, ends)
    return least if least == most else f"{least} to {most}"


def _counted(ends: tuple[float, float], noun: str) -> str:
    text = _from_to(ends)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"
