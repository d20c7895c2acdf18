"""Orders of steps: a selection of records, each an episode, becomes one of their steps."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..order.orders import RecordOrder
from ..order.selection import Mask, Numbers, Selection, Span, Subset
from .reader import StepNumbers


@dataclass(frozen=True)
class StepOrder(RecordOrder):
    """The steps, or windows of steps, of selected records, shuffled or as stored.

    Made by :meth:`of`; ``selection`` is of samples, and follows from the other two.

    Attributes:
        numbers: Which samples there are.
        chosen: The records whose samples these are.
    """

    numbers: StepNumbers = field(kw_only=True)
    chosen: Selection = field(kw_only=True)

    @classmethod
    def of(cls, order: RecordOrder, numbers: StepNumbers) -> StepOrder:
        """The samples of the records of an order, by the same shuffle and seed."""
        return cls(
            samples_of(order.records, numbers),
            order.shuffle,
            order.seed,
            order.files,
            numbers=numbers,
            chosen=order.records,
        )

    @property
    def records(self) -> Selection:
        return self.chosen

    def with_records(self, records: Selection) -> StepOrder:
        selection = samples_of(records, self.numbers)
        return dataclasses.replace(self, selection=selection, chosen=records)

    def describe(self) -> dict[str, Any]:
        window = self.numbers.window
        steps = "each" if window is None else f"windows of {window}"
        return {**super().describe(), "steps": f"{steps}, {self.numbers.fingerprint()}"}


@dataclass(frozen=True)
class EpisodeBlocks:
    """Records put together by the block of selected samples that they begin in.

    Attributes:
        selection: The samples.
        size: Samples of a block.
        numbers: Which record each sample is of.
    """

    selection: Selection
    size: int
    numbers: StepNumbers

    def of(self, records: Numbers) -> Numbers:
        """The block of each record that has samples selected."""
        positions = self.selection.positions_of(self.numbers.starts[records])
        return positions // self.size

    def records(self, block: int) -> Numbers:
        """The records of a block, in ascending order."""
        begin = block * self.size
        end = min(begin + self.size, len(self.selection))
        samples = self.selection.numbers_at(np.arange(begin, end, dtype=np.int64))
        records = np.unique(self.numbers.places(samples)[0])
        begun: Numbers = records[self.of(records) == block]  # the first may begin earlier
        return begun


def samples_of(records: Selection, numbers: StepNumbers) -> Selection:
    """All samples of the records selected.

    Raises:
        ValueError: the selection is not one of these records.
    """
    if records.total != len(numbers.counts):
        raise ValueError(
            f"a selection of {records.total} records is not one of {len(numbers.counts)}"
        )
    starts = numbers.starts
    if isinstance(records, Span):
        begin, end = starts[[records.begin, records.begin + records.size]].tolist()
        return Span(begin, end - begin, len(numbers))

    def mask(begin: int, end: int) -> Mask:
        first = int(np.searchsorted(starts, begin, side="right")) - 1
        last = int(np.searchsorted(starts, end, side="left"))
        edges = np.clip(starts[first : last + 1], begin, end)
        return np.repeat(records.mask(first, last), edges[1:] - edges[:-1])

    return Subset.build(len(numbers), mask)
