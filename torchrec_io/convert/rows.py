"""Serialization of rows; errors name the rows that cannot be serialized."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._writing.encode import encode_examples, encode_sequence_examples
from ..errors import ConversionError, TorchRecIOError
from .conversion import ConvertedPiece

# The end of the encoder's messages about a feature.
_FEATURE = re.compile(r" \((?:example \d+, )?feature ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)\Z")


_MAX_SHOWN = 30


def shortened(value: str) -> str:
    """Return the start of a value, for an error message."""
    return value if len(value) <= _MAX_SHOWN else value[:_MAX_SHOWN] + "…"


class Table(NamedTuple):
    """Some rows of a source.

    Attributes:
        path: Path of the source.
        columns: Values of all rows for each column: a ``pyarrow.RecordBatch``, or a mapping of
            names to arrays or lists, in which None stands for a value that is missing.
        places: Position of each row in the source, for error messages: "line 3".
        size: Size of the rows in the source in bytes.
        errors: Errors of rows that could not be read.
    """

    path: str
    columns: Any
    places: Sequence[str]
    size: int
    errors: Sequence[TorchRecIOError] = ()

    def example(self, row: int, value: str) -> str:
        """Return a value of a row and its position, for an error message."""
        return f"{shortened(value)} in {self.places[row]} of {self.path!r}"

    def error(self, row: int, reason: str, feature: str | None = None) -> ConversionError:
        """Return an error of a row."""
        return ConversionError(f"{self.places[row]}: {reason}", path=self.path, feature=feature)


def encode_rows(
    table: Table,
    dtypes: Mapping[str, str],
    lists: frozenset[str] = frozenset(),
    errors: Mapping[int, TorchRecIOError] | None = None,
) -> ConvertedPiece:
    """Serialize the rows of a table.

    Args:
        table: Table whose columns are a mapping.
        dtypes: Stored dtype of each column.
        lists: Names of feature lists. If there are any, the records are SequenceExamples.
        errors: Errors of rows that are not serialized, by position.
    """
    errors = dict(errors or {})
    rows: list[dict[str, Any]] = [{} for _ in table.places]
    for name, values in table.columns.items():
        for i, value in enumerate(values):
            if isinstance(value, list) and _has_null(value):
                reason = "an Example cannot store null in a list"
                errors.setdefault(i, table.error(i, reason, name))
            elif value is not None:
                rows[i][name] = value
    try:
        records = _encode([row for i, row in enumerate(rows) if i not in errors], dtypes, lists)
    except (TypeError, ValueError):
        records = []
        for i, row in enumerate(rows):
            try:
                records += _encode([row] if i not in errors else [], dtypes, lists)
            except (TypeError, ValueError) as error:
                errors[i] = table.error(i, *_parts_of(str(error), row))
    found = [*table.errors, *(errors[i] for i in sorted(errors))]
    return ConvertedPiece(records, table.size, found)


def _has_null(values: list[Any]) -> bool:
    return None in values or any(isinstance(step, list) and None in step for step in values)


def _encode(
    rows: Sequence[dict[str, Any]], dtypes: Mapping[str, str], lists: frozenset[str]
) -> list[bytes]:
    if not lists:
        return encode_examples(rows, dtypes)
    pairs = []
    for row in rows:
        context = dict(row)
        pairs.append((context, {name: context.pop(name) for name in lists & context.keys()}))
    return encode_sequence_examples(pairs, dtypes)


def _parts_of(message: str, row: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the reason in a message of the encoder, and the feature of the row that it names."""
    found = _FEATURE.search(message)
    if found is None:
        return message, None
    names = [name for name in row if ascii(name) == found[1]]
    return message[: found.start()], names[0] if names else None
