"""The command ``head``."""

from __future__ import annotations

import contextlib
import heapq
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from typer import Option

from .._records.sequential import iter_blocks
from .._storage.location import Location
from ..checks import counted
from ..errors import TorchRecIOError
from ..inspection.features import Parts, RecordKind
from ..inspection.record_kind import group_by_kind
from .head_json import record_json
from .head_table import Column, TableLayout
from .options import command, files_of
from .parsers import parse_range
from .progress import print_error
from .text import bytes_text, console_of, printable, width_of

_DEFAULT_RECORDS = 5
# Width of a list of texts that is not on a terminal.
_PIPE_WIDTH = 160
# Number of records whose kind is recognized together, where any number may be asked for.
_JSON_BATCH = 16
# Rows of a table that is not on a terminal: to lay out more takes long.
_MOST_ROWS = 1000
# Lines of the terminal besides the rows of a table: titles, notes and the prompt.
_OTHER_LINES = 7


class _Record(NamedTuple):
    """A record to show; ``error`` says why there is no data."""

    number: int
    offset: int | None
    data: bytes
    error: TorchRecIOError | None
    kind: RecordKind | None = None
    parts: Parts | None = None


@command(
    records=Option(
        "--records",
        "-n",
        metavar="N|START:STOP",
        parser=parse_range,
        show_default=f"as many as fit, at most {_DEFAULT_RECORDS}",
    ),
    file=Option(min=0),
)
def show_head(
    paths: list[str],
    records: Any = None,
    file: int = 0,
    *,
    all_features: bool = False,
    as_json: bool = False,
) -> None:
    """Show the first records of a file: a table of their features, with a column for each record.

    Of several files the first is shown. The kind of the records is recognized: Examples,
    SequenceExamples, lists of examples (ELWC), events of TensorBoard and other messages, or text.
    The exit status is 1 if one of the records is damaged.

    A line of --json has the members file, record, offset, bytes and kind, and the fields of the
    record with their types. Bytes that are not UTF-8 are objects with a member base64.

    torchrec-io info is the same command.

    Options:
        records: Show the first N records, or those from START to before STOP.
        file: Number of the file to show, from 0.
        all_features: Show also features that the screen cuts off, and more than 1,000 features.
        as_json: Print a JSON object with all values for each record.
    """
    start, stop = records or (0, _DEFAULT_RECORDS)
    files = files_of(paths, allow_missing=True)
    if file >= len(files):
        raise typer.BadParameter(f"--file must be less than {len(files)}, the number of files")
    path = files[file].name
    found = islice(_iter_numbered(files[file]), start, stop)
    if as_json:
        is_intact = _print_json(path, found)
    else:
        name = printable(path) + (f" (file {file} of {len(files)})" if len(files) > 1 else "")
        shown, error = _take(found, stop - start)
        if shown:
            _Printer(is_short=records is None, all_features=all_features).show(name, shown)
        elif error is None:
            typer.echo(f"{name}: {_why_none(path, start)}")
        is_intact = not _print_errors(path, shown, error)
    if not is_intact:
        raise typer.Exit(1)


def _take(records: Iterator[_Record], count: int) -> tuple[list[_Record], Exception | None]:
    """Return the next records, and the error after which no other record can be found.

    Records that are taken together have the same kind, if one fits them all.
    """
    found: list[_Record] = []
    end: Exception | None = None
    try:
        # Records before an error stay in the list.
        for record in islice(records, count):
            found.append(record)  # noqa: PERF402
    except (TorchRecIOError, OSError, MemoryError) as error:
        end = error
    intact = [position for position, record in enumerate(found) if record.error is None]
    for group in group_by_kind([found[position].data for position in intact]):
        for position, parts in zip(group.positions, group.parts, strict=True):
            at = intact[position]
            found[at] = found[at]._replace(kind=group.kind, parts=parts)
    return found, end


def _why_none(path: str, start: int) -> str:
    """Return why there is nothing to show."""
    if start:
        return f"no record {start:,}: the file has fewer records"
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        return "empty file (0 bytes)"
    return "no records"


def _print_errors(path: str, records: Sequence[_Record], end: Exception | None) -> bool:
    """Print the errors of records, and the error after them; return whether there are any."""
    errors = [error for error in (*(record.error for record in records), end) if error is not None]
    for error in errors:
        print_error(path, error)
    return bool(errors)


def _iter_numbered(file: Location) -> Iterator[_Record]:
    """Yield the records of a file; damaged ones and those that are too large have no data."""
    with contextlib.closing(file.open_stream()) as source:
        for block in iter_blocks(source):
            numbers = block.block.numbers.tolist()
            records = (
                _Record(number, offset, data, None)
                for number, (offset, data) in zip(numbers, block.records(), strict=True)
            )
            damaged = (_Record(e.record or 0, e.offset, b"", e) for e in block.errors)
            yield from heapq.merge(records, damaged, key=lambda record: record.number)


def _print_json(path: str, records: Iterator[_Record]) -> bool:
    """Print records as JSON, some at a time; return whether all are intact."""
    is_intact = True
    while True:
        found, error = _take(records, _JSON_BATCH)
        for shown in found:
            place: dict[str, Any] = {"file": path, "record": shown.number, "offset": shown.offset}
            if shown.error is not None:
                typer.echo(record_json({**place, "error": shown.error.reason}))
            else:
                place["bytes"] = len(shown.data)
                typer.echo(record_json(place, shown.kind, shown.data, shown.parts))
        is_intact &= not _print_errors(path, found, error)
        if error is not None or not found:
            return is_intact


class _Printer:
    """The output for people.

    Args:
        is_short: Whether to show only the records that fit side by side.
        all_features: Whether to show more rows than the screen has.
    """

    def __init__(self, *, is_short: bool, all_features: bool) -> None:
        self._console = console_of(sys.stdout)
        self._width = width_of(sys.stdout)
        self._is_short = is_short
        self._all_features = all_features

    def show(self, name: str, records: Sequence[_Record]) -> None:
        """Print the records of a file."""
        kinds = list(dict.fromkeys(each.kind for each in records if each.kind is not None))
        if not any(record.data for record in records):
            noun = "record" if len(records) == 1 else "records"
            self._line(f"{name}: {'empty' if kinds else 'damaged'} {noun}", "bold")
            self._console.print(self._content_table(records))
        elif len(kinds) == 1:
            # Damaged records are among the others.
            self._show_kind(f"{name}: {kinds[0].name}", records)
        else:
            self._line(f"{name}: records of {len(kinds)} kinds", "bold")
            for kind in kinds:
                self._show_kind(kind.name, [each for each in records if each.kind is kind])

    def _show_kind(self, title: str, records: Sequence[_Record]) -> None:
        self._line(title, "bold")
        if not any(record.parts for record in records):
            self._console.print(self._content_table(records))
            return
        columns = [Column(_title(record), record.parts) for record in records]
        layout = TableLayout(columns, self._width, self._max_rows(title))
        fit = layout.at_once
        for start in range(0, fit if self._is_short else len(columns), fit):
            self._console.print(layout.table(start))
        if layout.hidden:
            more = counted(layout.hidden, "more row")
            self._line(f"and {more}: --all-features shows them")
        if self._is_short and fit < len(columns):
            self._line(f"{fit} of {len(columns)} records fit: -n {len(columns)} shows them all")

    def _content_table(self, records: Sequence[_Record]) -> Table:
        """Return a table with a line for each record, for text and other bytes."""
        table = Table(box=None, pad_edge=False)
        for title in ("record", "bytes"):
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column("content", no_wrap=True, overflow="ellipsis")
        width = max(20, (self._width or _PIPE_WIDTH) - 24)
        for record in records:
            text = bytes_text(record.data, width) if record.data else "empty"
            size = f"{len(record.data):,}" if record.error is None else ""
            content = "damaged" if record.error is not None else text
            table.add_row(f"{record.number:,}", size, Text(content))
        return table

    def _max_rows(self, title: str) -> int | None:
        if self._all_features:
            return None
        if not self._console.is_terminal:
            return _MOST_ROWS
        return max(3, self._console.height - _OTHER_LINES - cell_len(title) // self._console.width)

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style), soft_wrap=True)


def _title(record: _Record) -> str:
    if record.error is not None:
        return f"record {record.number:,}\ndamaged"
    return f"record {record.number:,}\n{counted(len(record.data), 'byte')}"
