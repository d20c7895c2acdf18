"""The bytes values of a feature in some records, however many each record has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...images.bad_value import BadValueError
from ..threads import run_each
from .base import Ints

if TYPE_CHECKING:
    from ..parser import LocatedBlock, Picks


class Elements(NamedTuple):
    """Where bytes values lie, record by record.

    Attributes:
        records: The position of the record that each is in; int64 ``[n]``, as all here.
        offsets: Where in that record each starts.
        sizes: Bytes of each.
        starts: Which is each record's first, and one more; ``[B + 1]``.
        numbers: Which of all that are stored each is.
        stored: As ``starts``, of those that are stored.
    """

    records: Ints
    offsets: Ints
    sizes: Ints
    starts: Ints
    numbers: Ints
    stored: Ints

    @classmethod
    def of(cls, batch: LocatedBlock, position: int, *, in_lists: bool = False) -> Elements:
        """All of a native spec.

        Those of a feature list are the values of its steps. Records fail in which not every step
        has just one.
        """
        offsets, sizes, starts, rows = batch.spans(position)
        stored = starts[rows]
        counts = np.diff(starts)
        for step in np.flatnonzero(counts != 1).tolist() if in_lists else []:
            record = int(np.searchsorted(rows, step, "right")) - 1
            values = f"{counts[step]} bytes values"
            reason = f"step {step - rows[record]} holds {values}, the schema wants 1"
            batch.fail(record, position, reason)
        records = np.repeat(np.arange(len(batch)), np.diff(stored))
        return cls(records, offsets, sizes, stored, np.arange(len(offsets)), stored)

    def picked(self, batch: LocatedBlock, position: int, picks: Picks) -> Elements:
        """Some of them; fails records that do not have these."""
        wanted, starts = picks.elements, picks.starts
        counts = np.diff(self.stored)
        records = np.repeat(np.arange(len(batch)), np.diff(starts))
        bad = np.flatnonzero((wanted < 0) | (wanted >= counts[records]))
        for place in bad.tolist():
            record = int(records[place])
            reason = f"it has {counts[record]} elements, of which {wanted[place]} was asked for"
            batch.fail(record, position, reason)
        if len(bad):
            return self
        numbers = self.stored[:-1][records] + wanted
        return self._replace(
            records=records,
            offsets=self.offsets[numbers],
            sizes=self.sizes[numbers],
            starts=starts,
            numbers=numbers,
        )

    def values(self, batch: LocatedBlock) -> list[memoryview]:
        """The bytes of each, as they lie in the records."""
        places = zip(self.records.tolist(), self.offsets.tolist(), self.sizes.tolist(), strict=True)
        return [batch.view(record)[at : at + size] for record, at, size in places]

    def each(self, batch: LocatedBlock, position: int, work: Callable[[int], None]) -> None:
        """Calls ``work`` for each, by its place among these, and fails records where it raises.

        Args:
            batch: See there.
            position: Of the native spec.
            work: Raises BadValueError for what cannot be decoded; several threads call it.
        """
        bad: list[tuple[int, str]] = []

        def attempt(place: int) -> None:
            try:
                work(place)
            except BadValueError as error:
                bad.append((place, str(error)))

        run_each(attempt, len(self.sizes), batch.threads)
        for place, reason in sorted(bad):
            batch.fail(int(self.records[place]), position, reason)
