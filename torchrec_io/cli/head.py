"""The command ``head``."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..checks import counted
from ..errors import TorchRecIOError
from ..records.sequential import iter_records
from ..schema.inspect import InspectedFeature, inspect_example, inspect_sequence_example
from .options import Paths, files_of, interruptible
from .text import TABLE_WIDTH, bytes_text, error_line, printable, shorten, values_text


@interruptible
def show_head(
    paths: Paths,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, help="Number of records to show from each file.")
    ] = 5,
) -> None:
    """Show the first records of each file: their features, or their bytes."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else TABLE_WIDTH)
    failed = False
    for path in files_of(paths, allow_missing=True):
        console.print(Text(printable(path), style="bold"), soft_wrap=True)
        try:
            for number, (offset, record) in enumerate(islice(iter_records(path), count)):
                _show(console, number, offset, record)
        except (TorchRecIOError, OSError, MemoryError) as error:
            typer.echo(error_line(path, error), err=True)
            failed = True
    if failed:
        raise typer.Exit(1)


def _show(console: Console, number: int, offset: int, record: bytes) -> None:
    rows = _rows(record)
    place = f"record {number} at offset {offset}: {counted(len(record), 'byte')}"
    if rows:
        console.print(Text(place), soft_wrap=True)
        console.print(_table(rows))
    elif record:
        console.print(Text(f"{place}, not a tf.train.Example"), soft_wrap=True)
        console.print(Text(f"  {bytes_text(record)}\n"), soft_wrap=True)
    else:
        console.print(Text(f"{place}, empty\n"), soft_wrap=True)


def _rows(record: bytes) -> list[tuple[str, str, str, str]]:
    """Return the name, kind, count and values of each feature."""
    sequence = inspect_sequence_example(record)
    context, lists = (inspect_example(record) or {}, {}) if sequence is None else sequence
    rows = [
        (name, feature.kind, str(len(feature.values)), values_text(feature.values))
        for name, feature in sorted(context.items())
    ]
    return rows + [_list_row(name, steps) for name, steps in sorted(lists.items())]


def _list_row(name: str, steps: list[InspectedFeature]) -> tuple[str, str, str, str]:
    kinds = sorted({step.kind for step in steps}) or ["none"]
    shown = ", ".join(f"[{values_text(step.values)}]" for step in steps[:8])
    more = ", …" if len(steps) > 8 else ""
    return name, "/".join(kinds), counted(len(steps), "step"), shorten(shown + more)


def _table(rows: list[tuple[str, str, str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature", overflow="fold")
    table.add_column("kind", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("values", overflow="fold")
    for name, kind, count, values in rows:
        table.add_row(Text(shorten(printable(name))), kind, count, Text(values))
    return table
