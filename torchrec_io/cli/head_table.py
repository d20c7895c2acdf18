"""The table of the command ``head``: features as rows, records as columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from ..inspection.features import Parts, ShownField
from ..inspection.record_kind import natural_key
from .text import bytes_text, number_text, printable

# The least and the largest width of a record's column, and the cells between two columns.
_MIN_WIDTH, _MAX_WIDTH, _GAP = 22, 72, 3
# Number of columns of the largest width if the output is not a terminal.
_PIPE_COLUMNS = 5
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
    """

    name: str
    kind: str
    fields: Sequence[ShownField | str | None]


class TableLayout:
    """The rows of a table of records, and the columns that fit beside each other.

    Args:
        columns: Records to show.
        width: Width of the table; None for names in full and wide columns.
        max_rows: Maximum number of rows to show.

    Attributes:
        at_once: Number of columns that fit beside each other, at least 1.
        hidden: Number of rows that are not shown.
    """

    def __init__(self, columns: Sequence[Column], width: int | None, max_rows: int | None) -> None:
        self._columns = columns
        rows = list(_rows(columns))
        self._rows = rows[:max_rows]
        self.hidden: int = len(rows) - len(self._rows)
        self._name_width = max([*(cell_len(row.name) for row in self._rows), len("feature")])
        kind_width = max([*(cell_len(row.kind) for row in self._rows), len("type")])
        if width is None:
            width = 3 * self._name_width + kind_width + _PIPE_COLUMNS * (_MAX_WIDTH + _GAP)
        self._name_width = min(self._name_width, max(12, width // 3))
        self._kind_width = min(kind_width, max(24, width // 4))
        room = max(0, width - self._name_width - self._kind_width - _GAP)
        self.at_once: int = max(1, min(len(columns), room // (_MIN_WIDTH + _GAP)))
        self._width = min(max(room // self.at_once - _GAP, _MIN_WIDTH), _MAX_WIDTH)

    def table(self, start: int) -> Table:
        """Return the table of the columns that fit, from ``start``."""
        stop = min(start + self.at_once, len(self._columns))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column(Text("feature"), overflow="fold", max_width=self._name_width)
        titles = [column.title for column in self._columns[start:stop]]
        most = [self._kind_width, *([self._width] * len(titles))]
        for title, max_width in zip(("type", *titles), most, strict=True):
            table.add_column(Text(title), no_wrap=True, overflow="ellipsis", max_width=max_width)
        for row in self._rows:
            shown = Text(row.name, "" if row.kind else "bold")
            cells = (_cell(field, self._width) for field in row.fields[start:stop])
            table.add_row(shown, Text(row.kind), *cells)
        return table


def _cell(field: ShownField | str | None, width: int) -> Text:
    if field is None:
        return Text("missing", "dim")
    return Text(field if isinstance(field, str) else _field_text(field, width))


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
            cells = _cells(records, fields, title)
            yield _TableRow(indent + printable(name), _kind_text(shown), cells)


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


def _kind_text(fields: Sequence[ShownField]) -> str:
    """Return the type of a feature and the number of its values, if that is not always 1."""
    kind = "/".join(dict.fromkeys(printable(field.kind) for field in fields))
    noun = fields[0].noun
    sizes = {len(field.values) for field in fields}
    # The number of examples has a row of its own.
    if kind == "none" or noun == "examples" or (noun == "values" and sizes == {1}):
        return kind
    numbers = f"{min(sizes):,}" + (f" to {max(sizes):,}" if len(sizes) > 1 else "")
    return f"{kind} [{numbers} steps]" if noun == "steps" else f"{kind} [{numbers}]"


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
