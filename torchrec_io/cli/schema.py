"""The command ``schema``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._schema.infer import Finding, Inspected
from .._schema.record_sample import MaxRecords
from .._schema.schema import Schema
from .._storage.folders import has_file
from .._storage.location import Location
from ..errors import TorchRecIOError
from ..tools.report import OnError
from .options import Paths, RayOption, files_of, interruptible
from .progress import Meter, connect_to_ray, ray_errors
from .text import error_line, printable, shorten, table_width, values_text

# Tables of this width and less have one column for all facts about a feature.
_NARROW = 100


@interruptible
def print_schema(
    paths: Paths,
    schema_format: Annotated[
        Literal["python", "json"],
        typer.Option("--format", help="Python code, or JSON for Schema.from_json."),
    ] = "python",
    *,
    max_records: Annotated[
        int | None,
        typer.Option(
            "--max-records",
            min=1,
            help="Number of records to inspect, evenly from all files. Default: all records of "
            "files of at most 256 MiB, otherwise at most 100,000.",
        ),
    ] = None,
    all_records: Annotated[
        bool, typer.Option("--all", help="Inspect all records, however large the files are.")
    ] = False,
    on_error: Annotated[
        OnError,
        typer.Option("--on-error", help="raise: stop at a damaged record; skip: leave it out."),
    ] = "raise",
    ray: RayOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print a schema that reads the records; the reasons for it go to stderr.

    If the records have a well-known layout, the preset for it is printed.

    With --ray, all records are inspected, which must be Examples or SequenceExamples.
    """
    # It loads the image decoders, which the other commands do not need.
    from ..presets.recognition import AnySchema, infer_any, recognize_schema  # noqa: PLC0415

    if all_records and max_records is not None:
        raise typer.BadParameter("--all cannot be used with --max-records")
    if ray is not None and max_records is not None:
        raise typer.BadParameter("--ray cannot be used with --max-records: it inspects all records")
    files = files_of(paths, allow_missing=True)
    try:
        if ray is None:
            limit: MaxRecords = None if all_records else max_records or "auto"
            schema: AnySchema = infer_any(files, limit, on_error)
        else:
            schema = _infer_on_ray(files, on_error, ray)
        preset = recognize_schema(schema, files)
    except (TorchRecIOError, OSError, MemoryError) as error:
        typer.echo(error_line(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(1) from None
    _show_findings(schema.findings or {})
    _show_inspected(schema.inspected)
    if preset is not None:
        why = printable(preset.why)
        typer.echo(f"tio.presets.{preset.name} reads these records: {why}.", err=True)
    _point_to_tfds(files)
    if as_json or schema_format == "json":
        typer.echo((preset.schema if preset else schema).to_json(indent=2))
    else:
        typer.echo((preset or schema).to_python(), nl=False)


def _infer_on_ray(files: Sequence[Location], on_error: OnError, address: str) -> Schema:
    from ..cluster.inference import infer  # noqa: PLC0415  # rarely needed

    connect_to_ray(address)
    with ray_errors(), Meter([]) as meter:
        return infer(files, on_error=on_error, watcher=meter)


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
    console = Console(stderr=True, highlight=False, width=table_width(sys.stderr))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    is_narrow = console.width < _NARROW
    titles = ("feature", "kind", "records", "values", "range", "spec", "reason")
    for title in ("feature", "finding") if is_narrow else titles:
        table.add_column(title, overflow="fold", no_wrap=title in ("kind", "records"))
    for name, found in findings.items():
        feature = Text(shorten(printable(name)))
        table.add_row(feature, *([_facts_text(found)] if is_narrow else _fact_cells(found)))
    console.print(table)


def _show_inspected(inspected: Inspected | None) -> None:
    if inspected is not None:
        caution = f": {inspected.caution}" if inspected.caution else ""
        typer.echo(f"{inspected}{caution}.", err=True)


def _fact_cells(found: Finding) -> list[Text]:
    return [
        Text(found.kind),
        Text(f"{found.present}/{found.records}"),
        Text(_counts_text(found)),
        Text(_extent_text(found)),
        Text(*_spec_text(found)),
        Text(printable(found.why)),
    ]


def _facts_text(found: Finding) -> Text:
    """Return all facts about a feature as one text."""
    counts = _counts_text(found)
    if counts and found.steps is None:
        counts += " value" if counts == "1" else " values"
    records = f"{found.kind} in {found.present}/{found.records} records"
    facts = filter(None, (records, counts, _extent_text(found)))
    text = Text(", ".join(facts) + ": ")
    return text.append(*_spec_text(found)).append(f", {printable(found.why)}")


def _spec_text(found: Finding) -> tuple[str, str]:
    """Return the name of the spec and its style."""
    return ("left out", "bold") if found.spec is None else (type(found.spec).__name__, "")


def _counts_text(found: Finding) -> str:
    if found.steps is None:
        return _from_to(found.counts)
    return f"{_counted(found.steps, 'step')} of {_from_to(found.counts) or 'none'}"


def _extent_text(found: Finding) -> str:
    if found.kind == "bytes":
        size = _counted(found.extent, "byte") if found.extent else ""
        return ", ".join([size, *found.formats] if size else found.formats)
    return _from_to(found.extent)


def _from_to(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    least, most = (values_text([end]) for end in ends)
    return least if least == most else f"{least} to {most}"


def _counted(ends: tuple[float, float], noun: str) -> str:
    text = _from_to(ends)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"
