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
    rows: Sequence[Row | TorchRecIOError],
    dtypes: Mapping[str, str],
    size: int,
    lists: frozenset[str] = frozenset(),
) -> ConvertedPiece:
    """Serialize the rows of a piece.

    Args:
        rows: Rows in order, or errors in place of those that could not be read.
        dtypes: Stored dtype of each feature.
        size: Size of the piece in bytes.
        lists: Names of feature lists. If there are any, the records are SequenceExamples.
    """
    valid = [row for row in rows if isinstance(row, Row)]
    errors = [row for row in rows if not isinstance(row, Row)]
    try:
        records = _encode(valid, dtypes, lists)
    except (TypeError, ValueError):
        return encode_rows([_checked(row, dtypes, lists) for row in rows], dtypes, size, lists)
    return ConvertedPiece(records, size, errors)


def _encode(rows: Sequence[Row], dtypes: Mapping[str, str], lists: frozenset[str]) -> list[bytes]:
    features = [row.features for row in rows]
    if not lists:
        return encode_examples(features, dtypes)
    pairs = [
        (
            {name: value for name, value in row.items() if name not in lists},
            {name: value for name, value in row.items() if name in lists},
        )
        for row in features
    ]
    return encode_sequence_examples(pairs, dtypes)


def _checked(
    row: Row | TorchRecIOError, dtypes: Mapping[str, str], lists: frozenset[str]
) -> Row | TorchRecIOError:
    """Return a row, or the error if it cannot be serialized."""
    if isinstance(row, Row):
        try:
            _encode([row], dtypes, lists)
        except (TypeError, ValueError) as error:
            return _with_feature(row, str(error))
    return row


def _with_feature(row: Row, reason: str) -> ConversionError:
    found = _FEATURE.search(reason)
    if found is None:
        return row.error(reason)
    names = [name for name in row.features if ascii(name) == found[1]]
    return row.error(reason[: found.start()], names[0]) if names else row.error(reason)
