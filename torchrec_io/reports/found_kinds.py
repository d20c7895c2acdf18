"""The kinds of records, found from some of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._records.record_block import RecordBlock
from ..inspection.features import Parts, RecordKind, ShownField
from ..inspection.record_kind import (
    EXAMPLE,
    EXAMPLE_LIST,
    PLAIN_TEXT,
    SEQUENCE,
    RecordGroup,
    group_by_kind,
)
from .content import OtherRecords
from .text import decoded, sample_text, shown

WITH_FEATURES = (EXAMPLE, SEQUENCE, EXAMPLE_LIST)

# Kinds are recognized in Python, so large records are few.
_MOST_RECORDS = 64
# Records with features are of most interest, if at least one in this number of records has them.
_LEAST_SHARE = 4
_SHOWN_OTHERS = 5
_HEX_BYTES = 32
_MOST_FIELDS = 12
_MOST_FIELD_VALUES = 6


def find_kinds(
    preview: RecordBlock | None,
) -> tuple[RecordKind | None, tuple[OtherRecords, ...]]:
    """Return the most frequent kind of some records, None without any, and those of other kinds."""
    if preview is None or not len(preview):
        return None, ()
    positions = np.linspace(0, len(preview) - 1, min(len(preview), _MOST_RECORDS))
    records = [preview[position] for position in positions.astype(np.int64).tolist()]
    groups = group_by_kind(records)
    main = max(
        groups,
        key=lambda group: (
            group.kind in WITH_FEATURES and _LEAST_SHARE * len(group.positions) >= len(records),
            len(group.positions),
        ),
    ).kind
    others = tuple(
        _show_others(group, records)
        for group in groups
        if group.kind is not main or group.kind not in WITH_FEATURES
    )
    return main, others


def _show_others(group: RecordGroup, records: Sequence[bytes]) -> OtherRecords:
    shown = [*zip(group.positions, group.parts, strict=True)][:_SHOWN_OTHERS]
    samples = tuple(_content_of(group.kind, records[at], parts) for at, parts in shown)
    return OtherRecords(group.kind.name, len(group.positions), samples)


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
