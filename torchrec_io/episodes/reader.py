"""Reading of steps: each record is an episode, and samples are numbered over the steps of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .._records.native_frames import Frames
from .._records.reader import Plan, PrefetchLimits, Reader, RecordLocation
from .._records.record_block import RecordBlock
from .._storage.compression import Compression
from .._storage.digest import digest_text
from ..errors import TorchRecIOError

_Ints = npt.NDArray[np.int64]


class StepNumbers:
    """Numbers of all samples: the steps of all records, or windows of consecutive steps.

    A window never extends from one record into the next. So a record of n steps has n - k + 1
    windows of k steps, or none.

    Args:
        counts: Number of steps of each record, int64 ``[records]``. -1 marks a record that could
            not be counted. It has one sample, so that reading it raises the error.
        window: Number of steps in a window; None for single steps.

    Attributes:
        counts: Number of steps of each record; int64 ``[records]``, -1 where it is unknown.
        window: Number of steps in a window; None for single steps.
        starts: Number of the first sample of each record, then the number of samples; int64
            ``[records + 1]``.
    """

    def __init__(self, counts: _Ints, window: int | None = None) -> None:
        self.counts = counts
        self.window = window
        samples = np.where(counts < 0, 1, np.maximum(counts - ((window or 1) - 1), 0))
        self.starts: _Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(samples)))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, numbers: _Ints) -> tuple[_Ints, _Ints]:
        """Return the record of each sample and the step of that record at which it begins.

        Raises:
            IndexError: If a number is out of range.
        """
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < len(self):
            raise IndexError(f"a sample number is outside 0..{len(self) - 1}")
        # Records without samples share their start with the next one: the last of equal starts is
        # the record that has samples.
        records = np.searchsorted(self.starts, numbers, side="right") - 1
        return records, numbers - self.starts[records]

    @cached_property  # it is part of every saved state
    def fingerprint(self) -> str:
        """Short text that is equal for equal numberings."""
        return digest_text(f"{self.window}:", self.counts.astype("<i8").data)


@dataclass(slots=True)
class StepPlan:
    """Plan of how to fetch some samples.

    Attributes:
        reads: Plan that fetches their records, each of them once.
        numbers: Numbers of the samples; int64 ``[n]``.
        records: Record of each sample; int64 ``[n]``.
    """

    reads: Plan
    numbers: _Ints
    records: _Ints

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return self.reads.buffer_bytes

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the share of samples in the bytes of the records, which samples may share."""
        total, count = self.reads.stored_bytes(0, len(self.reads.numbers)), len(self.numbers)
        return total * end // count - total * begin // count if count else 0


class StepReader(Reader):
    """Reads the records of samples.

    Each row of a fetched block is a sample: its whole record, which other rows may share, and the
    number of the sample.

    Args:
        reader: Reader of the records.
        numbers: Numbers of all samples.
    """

    def __init__(self, reader: Reader, numbers: StepNumbers) -> None:
        self.verify_crc: bool = reader.verify_crc
        self.max_record_bytes: int = reader.max_record_bytes
        self.compressions: frozenset[Compression] = reader.compressions
        self.prefetch_limits: PrefetchLimits | None = reader.prefetch_limits
        self._reader = reader
        self._numbers = numbers

    def begin_epoch(self, num_ranks: int = 1) -> None:
        self._reader.begin_epoch(num_ranks)

    def end_epoch(self) -> None:
        self._reader.end_epoch()

    def plan(self, records: _Ints) -> StepPlan:
        """Make a plan for fetching samples.

        Args:
            records: Numbers of the samples; int64 ``[n]``.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError, TruncatedFileError, FileNotFoundError: As for
                :meth:`RecordReader.plan`.
        """
        numbers = np.ascontiguousarray(records, np.int64)
        of_samples, _ = self._numbers.locate(numbers)
        return StepPlan(self._reader.plan(np.unique(of_samples)), numbers, of_samples)

    def prefetch(self, plans: Sequence[StepPlan]) -> None:
        self._reader.prefetch([plan.reads for plan in plans])

    def open_run(self, plans: Sequence[StepPlan]) -> list[Frames]:
        del plans
        return []  # rows share records

    def fetch(self, plan: StepPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Read the records of a plan, each of them once.

        Returns:
            A row for each sample of a valid record, in the order of the plan; and an error for each
            damaged record, whatever the number of its samples.

        Raises:
            TruncatedFileError, OSError: As for :meth:`RecordReader.fetch`.
        """
        block, errors = self._reader.fetch(plan.reads)
        is_valid = np.isin(plan.records, block.numbers)
        # The reader returns the records in the order of its plan, which is ascending.
        rows = np.searchsorted(block.numbers, plan.records[is_valid])
        samples = plan.numbers[is_valid]
        return RecordBlock(block.buffer, block.starts[rows], block.lengths[rows], samples), errors

    def locate(self, numbers: _Ints | Sequence[int]) -> list[RecordLocation]:
        """Return the places of samples' records.

        The key is ``path:offset#step``; the step is the first of a window.
        """
        records, steps = self._numbers.locate(np.asarray(numbers, np.int64))
        places = zip(self._reader.locate(records), steps.tolist(), strict=True)
        return [place._replace(key=f"{place.key}#{step}") for place, step in places]
