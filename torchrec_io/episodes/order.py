"""Orders of steps: the samples of a selection of records, each of which is an episode."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._order.orders import RecordOrder
from .._order.selection import Mask, Numbers, Selection, Span, Subset
from .._order.shuffle import Shuffle
from .._records.block_reader import BlockReader
from .._records.reader import Reader
from .._records.record_reader import RecordReader
from ..checks import counted
from .reader import StepNumbers, StepReader


@dataclass(frozen=True)
class StepOrder(RecordOrder):
    """The samples of selected records, one for each step, shuffled or as stored.

    Made by :meth:`from_records`. ``selection`` selects samples.

    Attributes:
        numbers: Numbers of all samples.
        chosen: The records whose samples are read: all of them, or those that are selected.

    Raises:
        ValueError: If ``shuffle`` or ``seed`` is invalid, or the shuffle has lanes.
    """

    numbers: StepNumbers = field(kw_only=True)
    chosen: Selection = field(kw_only=True)

    can_batch_by_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes is not None:
            raise ValueError(
                "a dataset of steps has no lanes: use Shuffle(block=..., window=...) without lanes"
            )

    @classmethod
    def from_records(cls, order: RecordOrder, numbers: StepNumbers) -> StepOrder:
        """Return the order of the samples of an order's records, with its shuffle and seed.

        Raises:
            ValueError: If the order draws records by weight.
        """
        if isinstance(order.shuffle, Shuffle) and order.shuffle.is_weighted:
            raise ValueError(
                "the weights of records are not weights of their steps: call steps() on the "
                "dataset without them, then replace(shuffle=Shuffle(...))"
            )
        return cls(
            select_samples(order.records, numbers),
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
        samples = select_samples(records, self.numbers)
        selection = Subset.build(
            samples.total,
            lambda begin, end: samples.mask(begin, end) & self.selection.mask(begin, end),
        )
        return dataclasses.replace(self, selection=selection, chosen=records)

    def with_selection(self, selection: Selection) -> StepOrder:
        counts = np.diff(selection.positions_of(self.numbers.starts))
        chosen = Subset.from_mask(counts > 0)
        return dataclasses.replace(self, selection=selection, chosen=chosen)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "steps": self.numbers.fingerprint}

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return a reader of samples."""
        fitting = super().fit_reader(reader, at_once)
        assert isinstance(fitting, RecordReader)
        return StepReader(fitting, self.numbers)

    def _block_reader(self, reader: RecordReader, size: int, keep: int) -> Reader:
        episodes = EpisodeBlocks(self.selection, size, self.numbers)
        # A record of each block of steps may begin in an earlier block.
        return BlockReader(reader, episodes.block_of, episodes.numbers_of, 2 * keep)


@dataclass(frozen=True)
class EpisodeBlocks:
    """Records, grouped by the block of selected samples in which they begin.

    Attributes:
        selection: The selected samples.
        size: Number of samples in a block.
        numbers: Numbers of all samples.
    """

    selection: Selection
    size: int
    numbers: StepNumbers

    def block_of(self, records: Numbers) -> Numbers:
        """Return the block of each record that has selected samples."""
        return self.selection.positions_of(self.numbers.starts[records]) // self.size

    def numbers_of(self, block: int) -> Numbers:
        """Return the records of a block, in ascending order."""
        begin = block * self.size
        end = min(begin + self.size, len(self.selection))
        samples = self.selection.numbers_at(np.arange(begin, end, dtype=np.int64))
        records = np.unique(self.numbers.locate(samples).records)
        begun: Numbers = records[self.block_of(records) == block]  # the first may begin earlier
        return begun


def select_samples(records: Selection, numbers: StepNumbers) -> Selection:
    """Return all samples of the selected records.

    Raises:
        ValueError: If the selection does not belong to these records.
    """
    if records.total != len(numbers.counts):
        raise ValueError(
            f"the selection must be one of {counted(len(numbers.counts), 'record')}, "
            f"got one of {records.total}"
        )
    starts = numbers.starts
    if isinstance(records, Span):  # stays one
        begin, end = starts[[records.begin, records.begin + records.size]].tolist()
        return Span(begin, end - begin, len(numbers))

    def mask(begin: int, end: int) -> Mask:
        first = int(np.searchsorted(starts, begin, side="right")) - 1
        last = int(np.searchsorted(starts, end, side="left"))
        edges = np.clip(starts[first : last + 1], begin, end)
        return np.repeat(records.mask(first, last), edges[1:] - edges[:-1])

    return Subset.build(len(numbers), mask)
