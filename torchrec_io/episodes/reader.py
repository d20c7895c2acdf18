"""Reads steps of records: each record is an episode, and numbers run over the steps of all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError
from ..records.reader import Plan, Reader, RecordLocation
from ..records.record_block import RecordBlock

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
    """A plan of how to fetch samples.

    Attributes:
        reads: Plan of the samples' records, each of them once.
        numbers: Numbers of the samples; int64 ``[n]``.
        records: Number of each sample's record; int64 ``[n]``.
    """

    reads: Plan
    numbers: _Ints
    records: _Ints

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return self.reads.buffer_bytes

    def continues(self, other: StepPlan) -> bool:
        """Return whether nothing needs to be announced if ``other`` was read just before."""
        if np.isin(self.records, other.records).all():
            return True
        return self.reads.continues(other.reads)


class StepReader(Reader):
    """Reads the records of samples.

    Each row of a fetched block is a sample: its whole record, which other rows may share, and the
    number of the sample.

    Args:
        reader: Reader of the records.
        numbers: Numbers of the samples, which tell the record of each.

    Attributes:
        reader: Reader of the records.
    """

    def __init__(self, reader: Reader, numbers: StepNumbers) -> None:
        self.reader = reader
        self.verify_crc = reader.verify_crc
        self._numbers = numbers

    def begin_epoch(self) -> None:
        self.reader.begin_epoch()

    def plan(self, records: _Ints) -> StepPlan:
        """Plan how to fetch samples.

        Args:
            records: Numbers of the samples; int64 ``[n]``.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError, TruncatedFileError, FileNotFoundError: As for
                :meth:`RecordReader.plan`.
        """
        numbers = np.ascontiguousarray(records, np.int64)
        of_samples, _ = self._numbers.places(numbers)
        return StepPlan(self.reader.plan(np.unique(of_samples)), numbers, of_samples)

    def will_need(self, plan: StepPlan) -> None:
        self.reader.will_need(plan.reads)

    def fetch(self, plan: StepPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Read the records of a plan, each once.

        Returns:
            A row for each sample of a valid record, in the order of the plan; and an error for each
            damaged record, whatever the number of its samples.

        Raises:
            TruncatedFileError, OSError: As for :meth:`RecordReader.fetch`.
        """
        block, errors = self.reader.fetch(plan.reads)
        is_valid = np.isin(plan.records, block.numbers)
        # The reader returns the records in the order of its plan, which is ascending.
        rows = np.searchsorted(block.numbers, plan.records[is_valid])
        samples = plan.numbers[is_valid]
        return RecordBlock(block.buffer, block.starts[rows], block.lengths[rows], samples), errors

    def location(self, number: int) -> RecordLocation:
        """Return where the record of a sample is stored."""
        (record,), _ = self._numbers.places(np.array([number], np.int64))
        return self.reader.location(int(record))

    def keys(self, numbers: _Ints) -> list[str]:
        """Return ``path:offset#step`` of samples; the step is the first of a window."""
        records, steps = self._numbers.places(numbers)
        keys = self.reader.keys(records)
        return [f"{key}#{step}" for key, step in zip(keys, steps.tolist(), strict=True)]
