"""Partitions of a batch: their numbers fetched, and the records told whose do not tally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schema.specs import UNIFORM, Partition
from .base import Ints
from .partitions import Rows, Stored, part

if TYPE_CHECKING:
    from ..parser import LocatedBlock


class Units(NamedTuple):
    """What is parted: records, or the steps of feature lists.

    Attributes:
        offsets: Where the values of each start; int64 ``[units + 1]``.
        records: Where the units of each record start; int64 ``[B + 1]``.
    """

    offsets: Ints
    records: Ints


def part_units(
    batch: LocatedBlock,
    position: int,
    partitions: Sequence[Partition],
    units: Units,
    splits_dtype: str,
    *,
    keys_at: int | None = None,
    validate: bool = False,
) -> Rows | None:
    """Rows of all units; None if some records are not as they should be.

    Args:
        batch: See there.
        position: Of the native spec that has the values.
        partitions: Outermost first.
        units: What is parted.
        splits_dtype: "int32" or "int64".
        keys_at: Position of the native spec of the first partition that is stored; the others
            follow it. By default that behind ``position``.
        validate: As of :class:`RaggedFeature`.
    """
    at = position + 1 if keys_at is None else keys_at
    parts: list[tuple[object, Stored | None]] = []
    good = True
    for partition in partitions:
        if isinstance(partition, UNIFORM):
            parts.append((partition, None))
            continue
        values, starts, records = batch.integers(at)
        at += 1
        parts.append((partition, Stored(values, starts)))
        for record in np.flatnonzero(np.diff(records) != np.diff(units.records)).tolist():
            batch.fail(record, position, f"its partition {partition.key!r} has not as many steps")
            good = False
    if not good or batch.failures:
        return None
    rows = part(np.diff(units.offsets), parts, splits_dtype, validate=validate)
    for unit, reason in rows.faults:
        record = int(np.searchsorted(units.records, unit, "right")) - 1
        batch.fail(record, position, reason)
    return None if rows.faults else rows
