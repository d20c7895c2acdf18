"""Reading of steps: each record is an episode, and samples are numbered over the steps of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._parsing.arrays import Ints
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.block_reader import BlockReader
from .._records.reader import PrefetchLimits, Reader, RecordLocation
from .._records.record_block import RecordBlock
from .._records.record_reader import ReadPlan, RecordReader
from .._records.repetitions import own_numbers
from .._storage.compression import Compression
from .._storage.digest import digest_text
from ..errors import CorruptRecordError, TorchRecIOError
from .offsets import Samples, StepOffsets
from .pieces import PieceTable
from .slim_records import STEP_BITS, PickedPieces


class StepNumbers:
    """Numbers of all samples: each has a step of its own, of one record.

    Args:
        counts: Number of steps of each record, int64 ``[records]``. -1 marks a record that could
            not be counted. It has one sample, so that reading it raises the error.
        margins: Number of steps of the record that must precede a sample's step, and follow it.
        stride: Distance from the step of one sample to that of the next.
        rule: Text of the steps that samples take; states of other rules are refused.

    Attributes:
        counts: Number of steps of each record; int64 ``[records]``, -1 where it is unknown.
        starts: Number of the first sample of each record, then the number of samples; int64
            ``[records + 1]``.
    """

    def __init__(
        self,
        counts: Ints,
        margins: tuple[int, int] = (0, 0),
        stride: int = 1,
        rule: str = "",
    ) -> None:
        self.counts = counts
        self._rule = rule or "each"
        self._margins = margins
        self._stride = stride
        own = np.maximum(counts - sum(margins), 0)
        samples = np.where(counts < 0, 1, -(-own // stride))
        self.starts: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(samples)))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def locate(self, numbers: Ints) -> Samples:
        """Return the record and the step of each sample.

        Raises:
            IndexError: If a number is out of range.
        """
        own = own_numbers(numbers)
        if len(own) and not 0 <= own.min() <= own.max() < len(self):
            raise IndexError(f"a sample number is outside 0..{len(self) - 1}")
        # Records without samples share their start with the next one: the last of equal starts is
        # the record that has samples.
        records = np.searchsorted(self.starts, own, side="right") - 1
        steps = self._margins[0] + self._stride * (own - self.starts[records])
        return Samples(numbers, records, steps, self.counts[records])

    @cached_property  # it is part of every saved state
    def fingerprint(self) -> str:
        """Text that is equal for equal samples."""
        rule = f"{self._margins} {self._stride}:"
        return f"{self._rule}, {digest_text(rule, self.counts.astype('<i8').data)}"


class StepNeeds(NamedTuple):
    """What samples need of records of which only pieces are read.

    Attributes:
        table: Places of the pieces.
        offsets: Offsets of all features.
        keys: Stored feature of each feature whose steps are pieces, by flat name.
        whole: Stored features that are needed as a whole.
    """

    table: PieceTable
    offsets: StepOffsets
    keys: Mapping[str, str]
    whole: Sequence[str]

    def pick(self, samples: Samples, random: RecordRandom) -> PickedPieces:
        """Plan to read the pieces that samples need; see :meth:`PieceTable.pick`."""
        wanted: dict[str, list[Ints]] = {}
        for name, (steps, _) in self.offsets.take(self.keys, samples, random).items():
            firsts = samples.records.reshape(-1, *(1,) * (steps.ndim - 1)) << STEP_BITS
            wanted.setdefault(self.keys[name], []).append((firsts | steps).reshape(-1))
        steps_of = {key: np.unique(np.concatenate(parts)) for key, parts in wanted.items()}
        return self.table.pick(np.unique(samples.records), steps_of, self.whole)


@dataclass(slots=True)
class StepPlan:
    """Plan of how to fetch some samples.

    Attributes:
        reads: Plan that fetches the records that are read as a whole, each of them once.
        numbers: Numbers of the samples; int64 ``[n]``.
        records: Record of each sample; int64 ``[n]``.
        picked: Pieces of the other records; None if there are none.
    """

    reads: ReadPlan
    numbers: Ints
    records: Ints
    picked: PickedPieces | None = None

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        of_pieces = 0 if self.picked is None else self.picked.reads.buffer_bytes
        return self.reads.buffer_bytes + of_pieces

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the share of samples in the bytes that are read, which samples may share."""
        total, count = self.reads.stored_bytes(0, len(self.reads.numbers)), len(self.numbers)
        if self.picked is not None:
            total += self.picked.reads.stored_bytes(0, len(self.picked.rows))
        return total * end // count - total * begin // count if count else 0


class StepReader(Reader):
    """Reads the records of samples, or the pieces of them that the samples need.

    Each row of a fetched block is a sample: a record, which other rows may share, and the number of
    the sample.

    Args:
        reader: Reader of the records.
        numbers: Numbers of all samples.
        needs: Needed parts of records whose pieces are known. Default: all records as a whole.
    """

    def __init__(
        self, reader: RecordReader, numbers: StepNumbers, needs: StepNeeds | None = None
    ) -> None:
        self.verify_crc: bool = reader.verify_crc
        self.max_record_bytes: int = reader.max_record_bytes
        self.compressions: frozenset[Compression] = reader.compressions
        self.prefetch_limits: PrefetchLimits | None = reader.prefetch_limits
        self._reader = reader
        self._numbers = numbers
        self._needs = needs

    def with_needs(self, needs: StepNeeds) -> StepReader:
        """Return a reader that reads pieces where it can.

        Blocks of a shuffle are read as a whole: most of their steps are needed.
        """
        if isinstance(self._reader, BlockReader):
            return self
        return StepReader(self._reader, self._numbers, needs)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        self._reader.begin_epoch(num_ranks)

    def end_epoch(self) -> None:
        self._reader.end_epoch()

    def plan(self, records: Ints) -> StepPlan:
        return self.plan_with(records, DEFAULT_RANDOM)

    def plan_with(self, records: Ints, random: RecordRandom) -> StepPlan:
        """Make a plan for fetching samples.

        Args:
            records: Numbers of the samples; int64 ``[n]``.
            random: Random number generators of records, for offsets that are drawn.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError, TruncatedFileError, FileNotFoundError: As for
                :meth:`RecordReader.plan`.
        """
        numbers = np.ascontiguousarray(records, np.int64)
        samples = self._numbers.locate(numbers)
        picked = None
        whole = samples.records
        if self._needs is not None:
            is_known = self._needs.table.has(samples.records)
            whole = samples.records[~is_known]
            if is_known.any():
                picked = self._needs.pick(Samples(*(each[is_known] for each in samples)), random)
        return StepPlan(self._reader.plan(np.unique(whole)), numbers, samples.records, picked)

    def prefetch(self, plans: Sequence[StepPlan]) -> None:
        reads = [plan.reads for plan in plans if len(plan.reads.numbers)]
        reads += [plan.picked.reads for plan in plans if plan.picked is not None]
        self._reader.prefetch(reads)

    def fetch(self, plan: StepPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Read the records of a plan, or their pieces, each of them once.

        Returns:
            A row for each sample of a valid record, in the order of the plan; and an error for each
            damaged record, whatever the number of its samples.

        Raises:
            TruncatedFileError, OSError: As for :meth:`RecordReader.fetch`.
        """
        block, errors = self._fetch_records(plan)
        is_valid = np.isin(plan.records, block.numbers)
        rows = np.searchsorted(block.numbers, plan.records[is_valid])  # ascending
        samples = block.rows(rows)
        samples.numbers = plan.numbers[is_valid]
        return samples, errors

    def _fetch_records(self, plan: StepPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Return the valid records of a plan, ascending, and an error for each damaged one."""
        if plan.picked is None or self._needs is None:
            return self._reader.fetch(plan.reads)
        kept = plan.picked.kept
        try:
            slim, damaged = self._needs.table.read(plan.picked)
        except CorruptRecordError:  # of a compressed file
            slim, damaged = None, kept.records
        whole = plan.reads
        if len(damaged):  # what is wrong is found in the whole record, if it is still wrong
            whole = self._reader.plan(np.union1d(whole.numbers, damaged))
        elif slim is not None and not len(whole.numbers):
            return slim, []
        block, errors = self._reader.fetch(whole)
        if slim is None:
            return block, errors
        slim = slim.rows(np.flatnonzero(~np.isin(slim.numbers, damaged)))
        if not len(block):
            return slim, errors
        data = np.concatenate([block.buffer, slim.buffer])
        starts = np.concatenate([block.starts, slim.starts + len(block.buffer)])
        lengths = np.concatenate([block.lengths, slim.lengths])
        numbers = np.concatenate([block.numbers, slim.numbers])
        kept = kept._replace(records=slim.numbers)
        return RecordBlock(data, starts, lengths, numbers, kept).rows(np.argsort(numbers)), errors

    def locate(self, numbers: Ints | Sequence[int]) -> list[RecordLocation]:
        """Return the places of samples' records. The key is ``path:offset#step``."""
        samples = self._numbers.locate(np.asarray(numbers, np.int64))
        places = zip(self._reader.locate(samples.records), samples.steps.tolist(), strict=True)
        return [place._replace(key=f"{place.key}#{step}") for place, step in places]
