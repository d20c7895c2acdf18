"""Rows of values to serialized Examples; those that cannot be are named, the others still are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from ..writing.encode import encode_examples, encode_sequence_examples
from .shapes import Shapes
from .target import Made

# How the encoder ends what it says of a feature.
_FEATURE = re.compile(r" \((?:example \d+, )?feature ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)\Z")


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
    rows: Sequence[Row | TorchRecIOError],
    kinds: Mapping[str, str],
    size: int,
    lists: frozenset[str] = frozenset(),
) -> Made:
    """Serializes rows.

    Args:
        rows: In their order; errors in place of rows that are wrong already.
        kinds: Stored dtype of each feature.
        size: Bytes of the source that this piece of it has.
        lists: Features that are lists of steps; with any, records are SequenceExamples.
    """
    sound = [row for row in rows if isinstance(row, Row)]
    errors: list[TorchRecIOError] = [row for row in rows if not isinstance(row, Row)]
    try:
        records = _encode(sound, kinds, lists)
    except (TypeError, ValueError):
        records, sound, errors = _encode_one_by_one(rows, kinds, lists)
    shapes = Shapes.of((row.features for row in sound), lists)
    return Made(records, size, errors, shapes)


def _encode(rows: Sequence[Row], kinds: Mapping[str, str], lists: frozenset[str]) -> list[bytes]:
    features = [row.features for row in rows]
    if not lists:
        return encode_examples(features, kinds)
    pairs = [
        (
            {name: value for name, value in row.items() if name not in lists},
            {name: value for name, value in row.items() if name in lists},
        )
        for row in features
    ]
    return encode_sequence_examples(pairs, kinds)


def _encode_one_by_one(
    rows: Sequence[Row | TorchRecIOError], kinds: Mapping[str, str], lists: frozenset[str]
) -> tuple[list[bytes], list[Row], list[TorchRecIOError]]:
    records, sound, errors = [], [], list[TorchRecIOError]()
    for row in rows:
        if not isinstance(row, Row):
            errors.append(row)
            continue
        try:
            records += _encode([row], kinds, lists)
        except (TypeError, ValueError) as error:
            errors.append(_with_feature(row, str(error)))
        else:
            sound.append(row)
    return records, sound, errors


def _with_feature(row: Row, reason: str) -> ConversionError:
    found = _FEATURE.search(reason)
    if found is None:
        return row.error(reason)
    names = [name for name in row.features if ascii(name) == found[1]]
    return row.error(reason[: found.start()], names[0]) if names else row.error(reason)
