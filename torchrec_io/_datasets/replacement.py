"""Replacement of lost records, so that every rank yields the planned number of steps.

A lost record is replaced in its place by the nearest valid record before it in the rank's order of
the epoch, or else by the nearest one after it. So the choice follows from the data alone: it does
not depend on workers, threads, or the step at which a run was resumed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .._order.selection import Numbers
from .._parsing.record_random import RecordRandom
from .._tensors.loaded import Loaded
from ..checks import counted
from ..errors import DecodeError, StaleIndexError
from .bad_records import ErrorHandler
from .lost_records import LostRecords
from .partition import EpochPartition
from .position import Position
from .record_loader import LoadJob, RecordLoader

# Number of records before a batch, and after it, that may replace its lost ones.
REACH = 1000
# Growth of the number of records that a search reads at a time: most end at the first one.
_GROWTH = 4


class ReplacedRecords(LostRecords):
    """Replaces lost records.

    Args:
        loader: Reads and parses records.
        position: Position of the iteration, before the records of the next job.
        errors: Counts the records that are repeated.
    """

    def __init__(self, loader: RecordLoader, position: Position, errors: ErrorHandler) -> None:
        super().__init__(loader)
        self._position = position
        self._errors = errors

    def completed(self, job: LoadJob, loaded: Loaded) -> Loaded:
        """Return the records of a job, with a replacement of each lost one.

        Raises:
            DecodeError: If no valid record is in reach of a lost one.
        """
        planned = job.plan.numbers
        valid = loaded.positions_in(planned)
        if self._position.partition.has_batches:
            if len(valid):
                return self.loader.join([loaded])
            planned = planned[:1]
        # The last valid record before each position.
        rows = np.searchsorted(valid, np.arange(len(planned)), side="right") - 1
        parts = [loaded]
        if rows[0] < 0:
            replacement = self._find_before_or_after(job, has_valid=len(valid) > 0)
            parts += replacement
            rows[rows < 0] = len(valid) if replacement else 0
        self._errors.count_repeated(len(planned) - len(valid))
        return self.loader.join(parts, rows)

    # ---- searching ----

    def _find_before_or_after(self, job: LoadJob, *, has_valid: bool) -> list[Loaded]:
        """Return the replacement of the first records of a batch; none if a later one of it is.

        Raises:
            DecodeError: If no valid record is in reach.
        """
        partition = self._position.partition
        assert isinstance(partition, EpochPartition)  # streams replace no records
        earlier = partition.records_before(*self._position.place)
        found, num_before = self._search(earlier, job.random)
        if found or has_valid:
            return found
        later = partition.records_after(*self._position.place)
        next(later)  # the batch itself
        found, num_after = self._search(later, job.random)
        if not found:
            raise self._error(job, num_before, num_after + len(job.units) - 1)
        return found

    def _search(self, numbers: Iterator[Numbers], random: RecordRandom) -> tuple[list[Loaded], int]:
        """Load the first valid one of some records, of which at most ``REACH`` are read.

        Returns:
            The record, or none; and the number of records before it.
        """
        remaining = itertools.islice(itertools.chain.from_iterable(numbers), REACH)
        examined, size = 0, 1
        while window := [*itertools.islice(remaining, size)]:
            loaded = self._load(np.array(window, np.int64), random)
            if len(loaded.numbers):
                place = window.index(loaded.numbers[0])
                if len(loaded.numbers) > 1:
                    loaded = self._load(loaded.numbers[:1], random)
                return [loaded], examined + place
            examined += len(window)
            size *= _GROWTH
        return [], examined

    def _load(self, numbers: Numbers, random: RecordRandom) -> Loaded:
        """Load records. Bad ones are reported by the process to which they are assigned."""
        loaded = self.loader.load(self.loader.plan(numbers, random), random)
        for error in loaded.errors:
            if isinstance(error, StaleIndexError):
                raise error
        return loaded

    def _error(self, job: LoadJob, num_before: int, num_after: int) -> DecodeError:
        """Return the error of the first record of a job, which has no replacement."""
        [place] = self.loader.reader.locate(job.plan.numbers[:1])
        layout = self._position.layout
        return DecodeError(
            f"rank {layout.rank} of {layout.world_size} has no valid record to repeat in place of "
            f"this one: the {counted(num_before, 'record')} before it and the "
            f"{counted(num_after, 'record')} after it in the rank's order of epoch {job.epoch} are "
            "lost, too. uneven='keep' leaves out lost records",
            **place.where,
        )
