"""The table of the command ``head``: features as rows, records as columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from ..inspection.features import Parts, ShownField
from ..inspection.record_kind import natural_key
from .text import bytes_text, cut_names, number_text, printable

# The least and the largest width of a record's column, and the cells between two columns.
_MIN_WIDTH, _MAX_WIDTH, _GAP = 22, 72, 3
# Number of columns of the largest width if the output is not a terminal.
_PIPE_COLUMNS = 5
_LETTERS = re.compile(rb"[\t\n\r -~]*[!-~][\t\n\r -~]*")
_TITLES = {"feature_lists": "feature lists"}


class Column(NamedTuple):
    """A record in a table.

    Attributes:
        title: Text above the column.
        parts: Fields of the record; None if it has none to show.
    """

    title: str
    parts: Parts | None


class _TableRow(NamedTuple):
    """A feature of each record, or the title of a part.

    Attributes:
        name: Name of the feature.
        kind: Type of its values; "" for a title.
        fields: Its values in each record.
        has_byte_arrays: Whether the values are single bytes that are no text.
    """

    name: str
    kind: str
    fields: Sequence[ShownField | str | None]
    has_byte_arrays: bool = False


class TableLayout:
    """The rows of a table of records, and the columns that fit beside each other.

    Args:
        columns: Records to show.
        width: Width of the table; None for names in full and wide columns.
        max_rows: Maximum number of rows to show.

    Attributes:
        hidden: Number of rows that are not shown.
    """

    def __init__(self, columns: Sequence[Column], width: int | None, max_rows: int | None) -> None:
        self._columns = columns
        rows = list(_rows(columns))
        self._rows = rows[:max_rows]
        self.hidden: int = len(rows) - len(self._rows)
        self._names = cut_names([row.name for row in self._rows], width)
        self._name_width = max([*map(cell_len, self._names), len("feature")])
        kind_width = max([*(cell_len(row.kind) for row in self._rows), len("type")])
        if width is None:
            width = self._name_width + kind_width + _PIPE_COLUMNS * (_MAX_WIDTH + _GAP) + _GAP
        self._kind_width = min(kind_width, max(24, width // 4))
        self._width = max(_MIN_WIDTH, width - self._name_width - self._kind_width - _GAP)

    def end_of_table(self, start: int) -> int:
        """Return the end of the columns from ``start`` on that fit; there is at least one."""
        stop, used = start, 0
        while stop < len(self._columns):
            used += self._least_width(stop) + _GAP
            if stop > start and used > self._width:
                break
            stop += 1
        return stop

    def table(self, start: int) -> Table:
        """Return the table of the columns that fit, from ``start``."""
        stop = self.end_of_table(start)
        width = self._width // max(1, stop - start) - _GAP
        width = min(max(width, _MIN_WIDTH), _MAX_WIDTH)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        titles = [column.title for column in self._columns[start:stop]]
        most = [self._name_width, self._kind_width, *([width] * len(titles))]
        for title, max_width in zip(("feature", "type", *titles), most, strict=True):
            table.add_column(Text(title), no_wrap=True, overflow="ellipsis", max_width=max_width)
        for name, row in zip(self._names, self._rows, strict=True):
            shown = Text(name, "" if row.kind else "bold")
            cells = (_cell(row, position, width) for position in range(start, stop))
            table.add_row(shown, Text(row.kind), *cells)
        return table

    def _least_width(self, position: int) -> int:
        """Return the width that a column needs: its own, or that to which it may be cut."""
        cells = [cell_len(_cell(row, position, _MIN_WIDTH).plain) for row in self._rows]
        own = max([*cells, *map(len, self._columns[position].title.split("\n"))])
        return min(own, _MIN_WIDTH)


def _cell(row: _TableRow, position: int, width: int) -> Text:
    field = row.fields[position]
    if field is None:
        return Text("missing", "dim")
    if isinstance(field, str):
        return Text(field)
    if row.has_byte_arrays and field.values:
        numbers = (str(value[0]) for value in field.values)
        return Text(_list_text(numbers, len(field.values), width))
    return Text(_field_text(field, width))


def _rows(columns: Sequence[Column]) -> Iterator[_TableRow]:
    records = [column.parts for column in columns]
    titles = dict.fromkeys(title for parts in records for title in parts or ())
    indent = "  " if len(titles) > 1 else ""
    for title in titles:
        if indent:
            counts = [_part_text(parts, title) for parts in records]
            yield _TableRow(_TITLES.get(title, title), "", counts)
        for name in _names(records, title):
            fields = [None if parts is None else parts[title].get(name) for parts in records]
            shown = [field for field in fields if field is not None]
            arrays = _are_byte_arrays(shown)
            yield _TableRow(
                indent + printable(name),
                _kind_text(shown, "of 1 B" if arrays else ""),
                _cells(records, fields, title),
                arrays,
            )


def _names(records: Sequence[Parts | None], title: str) -> list[str]:
    names = dict.fromkeys(name for parts in records if parts is not None for name in parts[title])
    # Fields of messages stay in the order of the message.
    return list(names) if title == "message" else sorted(names, key=natural_key)


def _cells(
    records: Sequence[Parts | None], fields: Sequence[ShownField | None], title: str
) -> list[ShownField | str | None]:
    """Return the cells of a feature: empty in damaged and in empty records.

    They are empty also for fields of messages: protobuf does not store the default value.
    """
    return [
        "" if field is None and (parts is None or title == "message") else field
        for parts, field in zip(records, fields, strict=True)
    ]


def _part_text(part: Parts | None, title: str) -> str:
    """Return the number of examples in a list of them."""
    lists = [field for field in (part or {}).get(title, {}).values() if field.noun == "examples"]
    return f"{len(lists[0].values):,} {lists[0].noun}" if lists else ""


def _kind_text(fields: Sequence[ShownField], size: str) -> str:
    """Return the type of a feature and the number of its values, if that is not always 1.

    Args:
        fields: The feature in each record that has it.
        size: Size of its values, if it is known; or "".
    """
    kind = "/".join(dict.fromkeys(printable(field.kind) for field in fields))
    noun = fields[0].noun
    sizes = {len(field.values) for field in fields}
    # The number of examples has a row of its own.
    if kind == "none" or noun == "examples" or (noun == "values" and sizes == {1}):
        return kind
    numbers = f"{min(sizes):,}" + (f" to {max(sizes):,}" if len(sizes) > 1 else "")
    what = "steps" if noun == "steps" else size
    return f"{kind} [{numbers} {what}]" if what else f"{kind} [{numbers}]"


def _are_byte_arrays(fields: Sequence[ShownField]) -> bool:
    """Return whether a feature is an array of bytes, one for each value, that are no letters."""
    if all(len(field.values) <= 1 for field in fields):
        return False
    values = [one for field in fields for one in field.values]
    is_array = all(isinstance(one, bytes) and len(one) == 1 for one in values)
    return is_array and _LETTERS.fullmatch(b"".join(values)) is None


def _field_text(field: ShownField, width: int) -> str:
    """Return the first values of a field, and their number if not all are shown."""
    if field.kind == "none" and field.noun == "values":
        return "no values"
    if field.noun != "values":
        texts = (_item_text(item, width) for item in field.values)
        return _list_text(texts, len(field.values), width)
    if len(field.values) == 1:
        value = field.values[0]
        return f"{value:.15g}" if field.kind == "double" else _value_text(value, width)
    return _list_text((_value_text(one, width) for one in field.values), len(field.values), width)


def _item_text(item: Sequence[Any] | None, width: int) -> str:
    if item is None:
        return "missing"
    if len(item) == 1:
        return _value_text(item[0], width)
    if not item:
        return "[]"
    return f"[{_list_text((_value_text(one, width) for one in item), len(item), width // 2)}]"


def _list_text(texts: Iterable[str], count: int, width: int) -> str:
    """Join as many texts as fit; the count follows if there are more."""
    if count == 0:
        return "empty list"
    end = f", … ({count:,})"
    joined = ""
    for position, text in enumerate(texts):
        longer = f"{joined}, {text}" if position else text
        is_last = position == count - 1
        if cell_len(longer) > width - (0 if is_last else len(end)):
            return (joined or _cut(text, max(1, width - len(end)))) + end
        joined = longer
    return joined


def _value_text(value: Any, width: int) -> str:
    if isinstance(value, bytes):
        return bytes_text(value, width)
    if isinstance(value, str):
        return bytes_text(value.encode("utf-8", "backslashreplace"), width)
    if isinstance(value, dict):
        return printable(json.dumps(value, ensure_ascii=False))
    return number_text(value)


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…"
