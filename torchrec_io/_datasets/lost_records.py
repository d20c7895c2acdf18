"""Lost records: what the batches of an epoch become where records could not be loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .._tensors.loaded import Loaded
from .record_loader import LoadJob, RecordLoader


class LostRecords:
    """Leaves lost records out, so that batches are smaller.

    Args:
        loader: Reads and parses records.
    """

    def __init__(self, loader: RecordLoader) -> None:
        self.loader = loader

    @property
    def is_filling(self) -> bool:
        """True if the records of the next job are put into a batch with others."""
        return False

    def batches(self, job: LoadJob, loaded: Loaded) -> Sequence[Loaded]:
        """Return the batches that are ready with a job.

        Args:
            job: The next job of the epoch.
            loaded: Its records, without errors.
        """
        if len(loaded.numbers) < len(job.units):
            loaded = self.completed(job, loaded)
        return (loaded._replace(num_planned=len(job.units)),)

    def rest(self) -> Sequence[Loaded]:
        """Return the remaining records at the end of an epoch, as at most one batch."""
        return ()

    def completed(self, job: LoadJob, loaded: Loaded) -> Loaded:
        """Return the records of a job that lost some, without these or with replacements."""
        del job
        return self.loader.join([loaded]) if len(loaded.numbers) else loaded


class _Part(NamedTuple):
    """Some loaded records of a job, by the first one and the one after the last one."""

    job: LoadJob
    loaded: Loaded
    begin: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.begin == len(self.loaded.numbers)


class FilledBatches(LostRecords):
    """Fills batches up from the next records, also the first one after a position in a batch.

    Args:
        loader: Reads and parses records.
        size_at: Returns the number of records in a full batch, by the number of planned records
            between the position of the iteration and its first one.
    """

    def __init__(self, loader: RecordLoader, size_at: Callable[[int], int]) -> None:
        super().__init__(loader)
        self._size_at = size_at
        self._parts: list[_Part] = []  # of the batch that is not full yet
        self._missing = 0  # number of records that it lacks, if it has any
        self._count = 0  # of planned records that it takes so far

    @property
    def is_filling(self) -> bool:
        return self._count > 0

    def batches(self, job: LoadJob, loaded: Loaded) -> Sequence[Loaded]:
        num_planned, num_loaded = len(job.units), len(loaded.numbers)
        if self._count == 0:
            self._missing = self._size_at(0)
            if num_planned == num_loaded == self._missing:
                return (loaded._replace(num_planned=num_planned),)
        ready: list[Loaded] = []
        begin = done = 0  # numbers of loaded and of planned records that are in full batches
        places = loaded.positions_in(job.plan.numbers)
        while num_loaded - begin >= self._missing:
            end = begin + self._missing
            self._parts.append(_Part(job, loaded, begin, end))
            self._count += int(places[end - 1]) + 1 - done
            begin, done = end, int(places[end - 1]) + 1
            ready.append(self._taken())
            self._missing = self._size_at(sum(each.num_planned for each in ready))
        if begin < num_loaded:
            self._parts.append(_Part(job, loaded, begin, num_loaded))
            self._missing -= num_loaded - begin
        self._count += num_planned - done
        return ready

    def rest(self) -> Sequence[Loaded]:
        return (self._taken(),) if self._count else ()

    def _taken(self) -> Loaded:
        """Return the records so far as a batch, and begin another one."""
        parts, count = self._parts, self._count
        self._parts, self._count = [], 0
        if not parts:  # all were lost
            return Loaded([], np.empty(0, np.int64), [], num_planned=count)
        if len(parts) == 1 and parts[0].is_whole:
            loaded = parts[0].loaded
            batch = loaded if loaded.rows is None else self.loader.join([loaded])
        else:
            batch = self.loader.join([self._rows_of(part) for part in parts])
        return batch._replace(num_planned=count)

    def _rows_of(self, part: _Part) -> Loaded:
        job, loaded, begin, end = part
        if loaded.transformed is not None:  # it may have changed the values in place
            loaded = self.loader.load_job(job)
        rows = loaded.item_rows[begin:end]
        return loaded._replace(rows=rows, numbers=loaded.numbers[begin:end])
