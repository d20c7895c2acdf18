"""Replacement of lost records, so that every rank yields the planned number of steps.

A lost record is replaced in its place by the nearest valid record before it in the rank's order of
the epoch, or else by the nearest one after it. So the choice follows from the data alone: it does
not depend on workers, threads, or the step at which a run was resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._order.progress import ProcessLayout, Progress
from .._order.selection import Numbers
from ..checks import counted
from ..errors import DecodeError, StaleIndexError
from .bad_records import ErrorHandler
from .job_queue import LoadJob
from .lost_records import LostRecords
from .partition import EpochPartition
from .record_loader import Loaded, RecordLoader

# Number of records before a lost one, and after it, that may replace it.
REACH = 1000
# Growth of the number of records that a search reads at a time: most end at the first one.
_GROWTH = 4


class Neighbor(NamedTuple):
    """The nearest valid record on one side of a batch.

    Attributes:
        number: Number of the record; None if there is none in reach.
        distance: Its distance from the end of the batch on that side, from 1 on. Without a record,
            the number of records that were examined.
    """

    number: Any
    distance: int


class ReplacedRecords(LostRecords):
    """Replaces lost records.

    Args:
        loader: Reads and parses records.
        partition: Assigns records to this process.
        layout: Process layout of the iteration.
        errors: Counts the records that are repeated.
    """

    def __init__(
        self,
        loader: RecordLoader,
        partition: EpochPartition,
        layout: ProcessLayout,
        errors: ErrorHandler,
    ) -> None:
        super().__init__(loader, partition.order.seed)
        self._partition = partition
        self._layout = layout
        self._errors = errors

    def completed(self, job: LoadJob, loaded: Loaded, progress: Progress) -> Loaded:
        """Return records in place of those of a job of which some were lost.

        Raises:
            DecodeError: If no valid record is in reach of a lost one.
        """
        planned = job.chunk.numbers
        valid = loaded.positions_in(planned)
        if not self._partition.has_batches:
            loaded = self._in_place(loaded, planned, valid, progress)
        elif len(valid):
            loaded = self.join([loaded], progress.epoch)
        else:
            loaded = self._single(loaded, planned, progress)
        self._errors.count_repeated(len(loaded.numbers) - len(valid))
        return loaded

    def _in_place(
        self, loaded: Loaded, planned: Numbers, valid: Numbers, progress: Progress
    ) -> Loaded:
        """Return a batch of as many records as planned."""
        before = after = None
        if len(valid) == 0 or valid[0] > 0:
            before = self._before(progress)
        rows = replacement_rows(len(planned), valid, before, after)
        if (rows < 0).any():
            after = self._after(progress)
            rows = replacement_rows(len(planned), valid, before, after)
        if (rows < 0).any():
            raise self._error(planned, int(np.argmin(rows)), progress, before, after)
        return self._joined(loaded, [before, after], rows, progress)

    def _single(self, loaded: Loaded, planned: Numbers, progress: Progress) -> Loaded:
        """Return one record in place of a batch by length that lost all of its records."""
        before, after = self._before(progress), None
        if before.number is None:
            after = self._after(progress)
            if after.number is None:
                raise self._error(planned, 0, progress, before, after)
        return self._joined(loaded, [before, after], np.zeros(1, np.int64), progress)

    def _joined(
        self,
        loaded: Loaded,
        neighbors: Iterable[Neighbor | None],
        rows: Numbers,
        progress: Progress,
    ) -> Loaded:
        """Return rows of a batch that is followed by its neighbors."""
        parts = [loaded]
        numbers = [each.number for each in neighbors if each and each.number is not None]
        if numbers:
            parts.append(self._load(np.array(numbers, np.int64), progress))
        return self.loader.join(parts, self.random(progress.epoch), rows)

    # ---- searching ----

    def _before(self, progress: Progress) -> Neighbor:
        earlier = self._partition.records_before(progress, self._layout)
        return self._search(earlier, progress)

    def _after(self, progress: Progress) -> Neighbor:
        later = self._partition.records_after(progress, self._layout)
        next(later)  # the batch itself
        return self._search(later, progress)

    def _search(self, numbers: Iterator[Numbers], progress: Progress) -> Neighbor:
        """Return the first valid one of some records, of which at most ``REACH`` are read."""
        examined = 0
        for window in _windows(numbers):
            is_valid = np.isin(window, self._load(window, progress).numbers)
            if is_valid.any():
                place = int(np.argmax(is_valid))
                return Neighbor(window[place], examined + place + 1)
            examined += len(window)
        return Neighbor(None, examined)

    def _load(self, numbers: Numbers, progress: Progress) -> Loaded:
        """Load records. Bad ones are reported by the process to which they are assigned."""
        loaded = self.loader.load(self.loader.reader.plan(numbers), self.random(progress.epoch))
        for error in loaded.errors:
            if isinstance(error, StaleIndexError):
                raise error
        return loaded

    def _error(
        self,
        planned: Numbers,
        position: int,
        progress: Progress,
        before: Neighbor | None,
        after: Neighbor | None,
    ) -> DecodeError:
        """Return the error of a lost record that has no replacement."""
        [place] = self.loader.reader.locate(planned[position : position + 1])
        earlier = min(REACH, position + (before.distance if before else 0))
        later = min(REACH, len(planned) - 1 - position + (after.distance if after else 0))
        rank, world_size = self._layout.rank, self._layout.world_size
        return DecodeError(
            f"rank {rank} of {world_size} has no valid record to repeat in place of this one: the "
            f"{counted(earlier, 'record')} before it and the {counted(later, 'record')} after it "
            f"in the rank's order of epoch {progress.epoch} are lost, too. uneven='keep' leaves "
            "out lost records",
            **place.where,
        )


def replacement_rows(
    count: int, valid: Numbers, before: Neighbor | None, after: Neighbor | None
) -> Numbers:
    """Return the row that stands at each position of a batch.

    Args:
        count: Number of records in the batch.
        valid: Positions of the valid records.
        before: Nearest valid record before the batch, if it is known.
        after: Nearest valid record after the batch, if it is known.

    Returns:
        int64 ``[count]``: numbers of rows, where the valid records are followed by ``before`` and
        ``after``, if they exist. -1 if no valid record is in reach.
    """
    far = count + REACH + 1
    sources = valid
    if before is not None and before.number is not None:
        sources = np.append(sources, -before.distance)
    if after is not None and after.number is not None:
        sources = np.append(sources, count - 1 + after.distance)
    ascending = np.argsort(sources, kind="stable")
    places = np.concatenate(([-far], sources[ascending], [far + count]))
    rows = np.concatenate(([-1], ascending, [-1]))
    index = np.arange(count)
    following = np.searchsorted(places, index, side="right")
    is_before = index - places[following - 1] <= REACH
    is_after = places[following] - index <= REACH
    found: Numbers = np.where(
        is_before, rows[following - 1], np.where(is_after, rows[following], -1)
    )
    return found


def _windows(numbers: Iterator[Numbers]) -> Iterator[Numbers]:
    """Yield ``REACH`` numbers at most, first a single one and then more and more at a time."""
    left, size = REACH, 1
    pending = np.empty(0, np.int64)
    for chunk in numbers:
        pending = np.concatenate((pending, chunk[: left - len(pending)]))
        while len(pending) >= min(size, left) > 0:
            size = min(size, left)
            yield pending[:size]
            pending, left, size = pending[size:], left - size, size * _GROWTH
        if left == 0:
            return
    if len(pending):
        yield pending
