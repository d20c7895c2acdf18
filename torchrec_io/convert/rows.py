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


class Row(NamedTuple):
    """A row that becomes a record.

    Attributes:
        path: Path of its file.
        place: Position in the file, for error messages: "line 3".
        features: Values by name.
    """

    path: str
    place: str
    features: dict[str, Any]

    def error(self, reason: str, feature: str | None = None) -> ConversionError:
        """Return an error of this row."""
        return ConversionError(f"{self.place}: {reason}", path=self.path, feature=feature)


def encode_rows(
    rows: Sequence[Row],
    dtypes: Mapping[str, str],
    size: int,
    lists: frozenset[str] = frozenset(),
    errors: Mapping[int, TorchRecIOError] | None = None,
) -> ConvertedPiece:
    """Serialize the rows of a piece.

    Args:
        rows: Rows in order.
        dtypes: Stored dtype of each feature.
        size: Size of the piece in bytes.
        lists: Names of feature lists. If there are any, the records are SequenceExamples.
        errors: Errors of rows that are not serialized, by position.
    """
    errors = dict(errors or {})
    try:
        records = _encode([row for i, row in enumerate(rows) if i not in errors], dtypes, lists)
    except (TypeError, ValueError):
        records = []
        for i, row in enumerate(rows):
            try:
                records += _encode([row] if i not in errors else [], dtypes, lists)
            except (TypeError, ValueError) as error:
                errors[i] = _with_feature(row, str(error))
    return ConvertedPiece(records, size, [errors[i] for i in sorted(errors)])


def _encode(rows: Sequence[Row], dtypes: Mapping[str, str], lists: frozenset[str]) -> list[bytes]:
    if not lists:
        return encode_examples([row.features for row in rows], dtypes)
    pairs = []
    for row in rows:
        context = dict(row.features)
        pairs.append((context, {name: context.pop(name) for name in lists & context.keys()}))
    return encode_sequence_examples(pairs, dtypes)


def _with_feature(row: Row, reason: str) -> ConversionError:
    """Return the error of a row, with the feature that a message of the encoder names."""
    found = _FEATURE.search(reason)
    if found is None:
        return row.error(reason)
    names = [name for name in row.features if ascii(name) == found[1]]
    return row.error(reason[: found.start()], names[0] if names else None)
