"""``torchrec-io schema``: prints a schema that fits the data, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import TorchRecIOError
from ..schema.infer import Finding
from .report import Paths, files_of, interruptible, printable, reason_of
from .values import TABLE_WIDTH, shorten, values_text


class SchemaForm(str, Enum):
    """What a schema is printed as."""

    python = "python"
    json = "json"


@interruptible
def print_schema(
    paths: Paths,
    form: Annotated[
        SchemaForm, typer.Option("--format", help="Python source, or JSON for Schema.from_json.")
    ] = SchemaForm.python,
    max_records: Annotated[
        int, typer.Option("--max-records", min=1, help="Records looked at, evenly from all files.")
    ] = 1000,
) -> None:
    """Prints a schema that reads the files' records; on stderr, what was seen and why it fits.

    Records of a well-known layout have a preset, which is printed in its place.
    """
    # Loads what decodes images, which no other command should wait for.
    from ..presets.recognition import infer_any, recognize_schema  # noqa: PLC0415

    files = files_of(paths)
    try:
        schema = infer_any(files, max_records)
        preset = recognize_schema(schema, files)
    except (TorchRecIOError, OSError, MemoryError) as error:
        typer.echo(reason_of(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(1) from None
    _show_findings(schema.findings or {})
    if preset is not None:
        why = printable(preset.why)
        typer.echo(f"tio.presets.{preset.name} reads these records: {why}.", err=True)
    _point_to_tfds(files)
    if form is SchemaForm.json:
        typer.echo((preset.schema if preset else schema).to_json(indent=2))
    else:
        typer.echo((preset or schema).to_python(), nl=False)


def _point_to_tfds(files: Sequence[str]) -> None:
    """Says so where files are of a directory that says itself what is in them."""
    for folder in dict.fromkeys(os.path.dirname(file) for file in files):
        if os.path.exists(os.path.join(folder, "features.json")):
            typer.echo(
                f"{printable(folder or '.')} is a directory of TensorFlow Datasets: "
                "tio.Schema.from_tfds has the schema that its features.json says.",
                err=True,
            )


def _show_findings(findings: Mapping[str, Finding]) -> None:
    console = Console(
        stderr=True, highlight=False, width=None if sys.stderr.isatty() else TABLE_WIDTH
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("feature", "kind", "records", "values", "range", "spec", "why"):
        table.add_column(title, overflow="fold", no_wrap=title in ("kind", "records"))
    for name, found in findings.items():
        spec = type(found.spec).__name__ if found.spec is not None else "left out"
        table.add_row(
            Text(shorten(printable(name))),
            Text(found.kind),
            Text(f"{found.present}/{found.records}"),
            Text(_counts_text(found)),
            Text(_extent_text(found)),
            Text(spec, style="" if found.spec is not None else "bold"),
            Text(printable(found.why)),
        )
    console.print(table)


def _counts_text(found: Finding) -> str:
    if found.steps is None:
        return _from_to(found.counts)
    return f"{_from_to(found.steps)} steps of {_from_to(found.counts) or 'none'}"


def _extent_text(found: Finding) -> str:
    if found.kind == "bytes":
        size = f"{_from_to(found.extent)} bytes" if found.extent else ""
        return ", ".join([size, *found.formats] if size else found.formats)
    return _from_to(found.extent)


def _from_to(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return ""
    least, most = (values_text([end]) for end in ends)
    return least if least == most else f"{least} to {most}"
