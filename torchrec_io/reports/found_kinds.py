"""The kinds of records, found from some of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._records.record_block import RecordBlock
from ..inspection.features import Parts, RecordKind, ShownField
from ..inspection.record_kind import EXAMPLE, EXAMPLE_LIST, PLAIN_TEXT, SEQUENCE, group_by_kind
from .content import OtherRecords
from .text import decoded, sample_text, shown

WITH_FEATURES = (EXAMPLE, SEQUENCE, EXAMPLE_LIST)

# Kinds are recognized in Python, so large records are few.
_MOST_RECORDS = 64
_LEAST_RECORDS = 8
_MOST_BYTES = 1 << 20
# Records with features are of most interest, if at least one in this number of records has them.
_LEAST_SHARE = 4
_SHOWN_OTHERS = 5
_HEX_BYTES = 32
_MOST_FIELDS = 12
_MOST_FIELD_VALUES = 6


class FoundKinds(NamedTuple):
    """The kinds of some records.

    Attributes:
        main: The most frequent kind; None without records.
        name: Its name to show.
        others: Records that have no features.
    """

    main: RecordKind | None
    name: str
    others: tuple[OtherRecords, ...]


def find_kinds(preview: RecordBlock | None) -> FoundKinds:
    """Return the kinds of some records."""
    records = [] if preview is None else list(_some_records(preview))
    if not records:
        return FoundKinds(None, "no records", ())
    groups = group_by_kind(records)
    main = max(
        groups,
        key=lambda group: (
            group.kind in WITH_FEATURES and _LEAST_SHARE * len(group.positions) >= len(records),
            len(group.positions),
        ),
    ).kind
    others = tuple(
        OtherRecords(
            group.kind.name,
            len(group.positions),
            tuple(
                _content_of(group.kind, records[position], parts)
                for position, parts in [*zip(group.positions, group.parts, strict=True)][
                    :_SHOWN_OTHERS
                ]
            ),
        )
        for group in groups
        if group.kind is not main or group.kind not in WITH_FEATURES
    )
    return FoundKinds(main, main.name, others)


def _some_records(preview: RecordBlock) -> Iterator[bytes]:
    """Yield records from everywhere, about 1 MiB of them."""
    count = min(len(preview), _MOST_RECORDS)
    left = _MOST_BYTES
    positions = np.linspace(0, len(preview) - 1, count).astype(np.int64).tolist()
    # The order is mixed, so that those that are left out are not all at the end.
    for number, position in enumerate(positions[::2] + positions[1::2]):
        if left > 0 or number < _LEAST_RECORDS:
            yield preview[position]
            left -= int(preview.lengths[position])


def _content_of(kind: RecordKind, record: bytes, parts: Parts | None) -> str:
    """Return a record as text, shortened."""
    if parts is None:
        if kind is PLAIN_TEXT:
            return sample_text(record)
        return record[:_HEX_BYTES].hex(" ") + (" …" if len(record) > _HEX_BYTES else "")
    fields = [item for part in parts.values() for item in part.items()]
    return "\n".join(
        f"{shown(name)}: {_field_text(field)}" for name, field in fields[:_MOST_FIELDS]
    )


def _field_text(field: ShownField) -> str:
    values = [
        decoded(value, 60) if isinstance(value, bytes) else shown(str(value), 60)
        for value in field.values[:_MOST_FIELD_VALUES]
    ]
    more = len(field.values) - len(values)
    return ", ".join(values) + (f" and {more:,} more" if more else "")
