"""Rows of values to serialized Examples; those that cannot be are named, the others still are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from ..features.encode import encode_example, encode_examples
from .shapes import Shapes
from .target import Made

# How the encoder ends what it says of a feature.
_FEATURE = re.compile(r" \(feature ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)\Z")


class Row(NamedTuple):
    """What is to be a record.

    Attributes:
        path: The file it is from.
        place: Where in there, as errors say it: "line 3".
        features: Its values by name.
    """

    path: str
    place: str
    features: dict[str, Any]

    def error(self, reason: str, feature: str | None = None) -> ConversionError:
        """Why it is not one."""
        return ConversionError(f"{self.place}: {reason}", path=self.path, feature=feature)


def encode_rows(
    rows: Sequence[Row], kinds: Mapping[str, str], size: int, errors: Sequence[TorchRecIOError] = ()
) -> Made:
    """Serializes rows.

    Args:
        rows: As they are to follow each other.
        kinds: Stored dtype of each feature.
        size: Bytes of the source that this piece of it has.
        errors: What else was wrong with the piece.
    """
    refused = list(errors)
    try:
        records = encode_examples([row.features for row in rows], kinds)
    except (TypeError, ValueError):
        records, rows = _encode_one_by_one(rows, kinds, refused)
    return Made(records, size, refused, Shapes.of(row.features for row in rows))


def _encode_one_by_one(
    rows: Sequence[Row], kinds: Mapping[str, str], refused: list[TorchRecIOError]
) -> tuple[list[bytes], list[Row]]:
    records, sound = [], []
    for row in rows:
        try:
            records.append(encode_example(row.features, kinds))
        except (TypeError, ValueError) as error:
            refused.append(_with_feature(row, str(error)))
        else:
            sound.append(row)
    return records, sound


def _with_feature(row: Row, reason: str) -> ConversionError:
    found = _FEATURE.search(reason)
    if found is None:
        return row.error(reason)
    names = [name for name in row.features if ascii(name) == found[1]]
    return row.error(reason[: found.start()], names[0]) if names else row.error(reason)
