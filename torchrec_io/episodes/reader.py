"""Reads steps of records: each record is an episode, and numbers run over the steps of all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError
from ..records.block_reader import BlockPlan, BlockReader
from ..records.reader import ReadPlan, RecordBlock, RecordReader

_Ints = npt.NDArray[np.int64]


class StepNumbers:
    """Numbers of all steps of all records, or of all windows of so many steps.

    A window never reaches from one record into the next, so a record of n steps has n - k + 1
    windows of k, or none.

    Args:
        counts: int64 ``[records]``: how many steps each has. -1 is a record that could not be
            counted; it stands for one sample, so that reading it tells what is wrong.
        window: Steps of a window; None: single steps.

    Attributes:
        counts: As above.
        window: As above.
        starts: int64 ``[records + 1]``: the number of the first sample of each record, and behind
            them how many samples there are.
    """

    def __init__(self, counts: _Ints, window: int | None = None) -> None:
        self.counts = counts
        self.window = window
        samples = np.where(counts < 0, 1, np.maximum(counts - ((window or 1) - 1), 0))
        self.starts: _Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(samples)))
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return int(self.starts[-1])

    def places(self, numbers: _Ints) -> tuple[_Ints, _Ints]:
        """The record of each sample, and the step of that record that it begins with.

        Raises:
            IndexError: there is no such sample.
        """
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"a number of a step lies outside 0..{len(self) - 1}")
        # Of records that begin at one number, all but the last are without samples.
        records = np.searchsorted(self.starts, numbers, side="right") - 1
        return records, numbers - self.starts[records]

    def fingerprint(self) -> str:
        """A short name of how samples are numbered: the same for the same ones."""
        if self._fingerprint is None:  # asked for with every saved state
            digest = hashlib.blake2b(f"{self.window}:".encode(), digest_size=8)
            digest.update(self.counts.astype("<i8").data)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


@dataclass(slots=True)
class StepPlan:
    """How to fetch some samples.

    Attributes:
        reads: How to fetch their records, each of them once.
        numbers: Of the samples; int64 ``[n]``.
        records: Of each sample; int64 ``[n]``.
    """

    reads: ReadPlan | BlockPlan
    numbers: _Ints
    records: _Ints

    @property
    def buffer_bytes(self) -> int:
        """About how many bytes are fetched."""
        return self.reads.buffer_bytes

    def continues(self, other: StepPlan) -> bool:
        """Whether the system needs no hint: these are the same records, or it reads on."""
        if np.isin(self.records, other.records).all():
            return True
        reads, before = self.reads, other.reads
        if isinstance(reads, ReadPlan):
            return isinstance(before, ReadPlan) and reads.continues(before)
        return isinstance(before, BlockPlan) and reads.continues(before)


class StepReader:
    """Reads the records that samples are of; stands where a :class:`RecordReader` does.

    A row of a block that it fetches is a sample: the whole record that it is of, which other rows
    may share, and the number of the sample.

    Args:
        reader: Reads records.
        numbers: Says which record a sample is of.

    Attributes:
        reader: As above.
    """

    def __init__(self, reader: RecordReader | BlockReader, numbers: StepNumbers) -> None:
        self.reader = reader
        self._numbers = numbers

    def begin_epoch(self) -> None:
        """Has every file looked at anew when it is read next."""
        self.reader.begin_epoch()

    def plan(self, numbers: _Ints) -> StepPlan:
        """How to fetch some samples.

        Raises:
            IndexError: there is no such sample.
            StaleIndexError, TruncatedFileError, FileNotFoundError: as :meth:`RecordReader.plan`.
        """
        numbers = np.ascontiguousarray(numbers, np.int64)
        records, _ = self._numbers.places(numbers)
        return StepPlan(self.reader.plan(np.unique(records)), numbers, records)

    def will_need(self, plan: StepPlan) -> None:
        """Tells the system what is fetched next."""
        if isinstance(self.reader, BlockReader):
            assert isinstance(plan.reads, BlockPlan)  # its own
            self.reader.will_need(plan.reads)
        else:
            assert isinstance(plan.reads, ReadPlan)
            self.reader.will_need(plan.reads)

    def fetch(self, plan: StepPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Reads the records of a plan, each once.

        Returns:
            A row for each sample of a sound record, in the order asked for; and an error for each
            record that is damaged, whatever the number of its samples.

        Raises:
            TruncatedFileError, OSError: as :meth:`RecordReader.fetch`.
        """
        if isinstance(self.reader, BlockReader):
            assert isinstance(plan.reads, BlockPlan)
            block, errors = self.reader.fetch(plan.reads)
        else:
            assert isinstance(plan.reads, ReadPlan)
            block, errors = self.reader.fetch(plan.reads)
        sound = np.isin(plan.records, block.numbers)
        rows = np.searchsorted(block.numbers, plan.records[sound])  # they ascend, as planned
        samples = plan.numbers[sound]
        return RecordBlock(block.buffer, block.starts[rows], block.lengths[rows], samples), errors

    def place(self, number: int) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of the record that a sample is of."""
        (record,), _ = self._numbers.places(np.array([number], np.int64))
        return self.reader.place(int(record))

    def keys(self, numbers: _Ints) -> list[str]:
        """``path:offset#step`` of samples; the step is the first of a window."""
        records, steps = self._numbers.places(numbers)
        keys = self.reader.keys(records)
        return [f"{key}#{step}" for key, step in zip(keys, steps.tolist(), strict=True)]
