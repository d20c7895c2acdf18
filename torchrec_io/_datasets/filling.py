"""Full batches of the loaded records of an order, where lost records are left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._parsing.failures import Ints
from .._parsing.record_random import RecordRandom
from .bad_records import ErrorHandler
from .job_queue import JobQueue, LoadJob
from .prefetch import Prefetcher
from .record_loader import Loaded, RecordLoader

# After this many jobs without lost records, batches are again those of the jobs.
_COMPLETE_JOBS = 32


@dataclass
class PartialJob:
    """A loaded job, or its records that were not used yet.

    Attributes:
        job: The job.
        loaded: All of its loaded records.
        begin: Number of its planned records that were used before.
        used: Number of its loaded records that were used before.
    """

    job: LoadJob
    loaded: Loaded
    begin: int = 0
    used: int = 0

    def take(self, most: int) -> tuple[Loaded, int, PartialJob | None]:
        """Take loaded records from the start, with the lost ones before and between them.

        Args:
            most: Maximum number of records to take.

        Returns:
            The loaded records, the number of planned records that were taken with them, and the
            rest, if there is one. Lost records at the end are taken only if there are fewer than
            ``most`` loaded ones.
        """
        loaded, count = self.loaded, len(self.job.chunk)
        end = min(self.used + most, len(loaded.numbers))
        done = count if end < self.used + most else int(self._positions[end - 1]) + 1
        rest = PartialJob(self.job, loaded, done, end) if done < count else None
        if self.used > 0 or end < len(loaded.numbers):
            rows = loaded.item_rows.rows[self.used : end]
            loaded = loaded._replace(rows=rows, numbers=loaded.numbers[self.used : end])
        return loaded, done - self.begin, rest

    def stored_bytes(self, taken: int) -> int:
        """Return the number of bytes of the next records, as stored."""
        return int(self.job.plan.stored_bytes(self.begin, self.begin + taken))

    def failures(self, taken: int) -> tuple[int, int]:
        """Return the index of the first failure and the end of those among the next records."""
        positions = self.loaded.failures.positions
        first, end = np.searchsorted(positions, (self.begin, self.begin + taken)).tolist()
        return first, end

    @cached_property
    def _positions(self) -> Ints:
        return self.loaded.positions_in(self.job.chunk.numbers)


class BatchFiller:
    """Makes the batches of one iteration.

    A batch that lost records is filled up from the next jobs. What is left of the last one is kept
    for the next batch: to load it again would take as long as the first time.

    Args:
        loader: Loader of the jobs.
        prefetcher: Loads the jobs in their order.
        queue: The jobs that are not loaded yet.
        batch_size: Number of records in a full batch.
        errors: Handles the errors of lost records.

    Attributes:
        stored_bytes: Number of bytes of the records that the last batch took, as stored.
    """

    stored_bytes = 0

    def __init__(
        self,
        loader: RecordLoader,
        prefetcher: Prefetcher[Loaded],
        queue: JobQueue,
        batch_size: int,
        errors: ErrorHandler,
    ) -> None:
        self._loader = loader
        self._prefetcher = prefetcher
        self._queue = queue
        self._batch_size = batch_size
        self._errors = errors
        self._rest: PartialJob | None = None
        self._complete_jobs = 0

    def next(self) -> PartialJob | None:
        """Return the first job of the next batch, or its rest; None at the end."""
        piece, self._rest = self._rest, None
        if piece is None and (done := self._prefetcher.next()) is not None:
            piece = PartialJob(*done)
        return piece

    def complete(self, first: PartialJob, random: RecordRandom) -> tuple[Loaded, int]:
        """Return a batch, and the number of planned records that it takes.

        Args:
            first: First piece of the batch.
            random: Random number generators of the epoch's records.
        """
        if first.begin == 0 and not first.loaded.has_lost:
            count = len(first.job.chunk)
            self.stored_bytes = first.job.plan.stored_bytes(0, count)
            return first.loaded, count
        self.stored_bytes = 0
        parts: list[Loaded] = []
        taken, missing = 0, self._batch_size
        piece: PartialJob | None = first
        while piece is not None:
            if piece.loaded.transformed is not None:
                # The transform may have changed the values in place.
                loaded = self._loader.load(piece.job.plan, random)
                piece = PartialJob(piece.job, loaded, piece.begin, piece.used)
            if piece.loaded.errors:
                taken += self._refill(piece, parts, missing, random)
                break
            loaded, count, self._rest = piece.take(missing)
            self.stored_bytes += piece.stored_bytes(count)
            self._errors.handle_failures(piece.loaded, self._loader, *piece.failures(count))
            parts.append(loaded)
            taken += count
            missing -= len(loaded.numbers)
            self._complete_jobs = 0 if piece.loaded.has_lost else self._complete_jobs + 1
            piece = self._following(first.job.epoch) if missing else None
        if self._complete_jobs >= _COMPLETE_JOBS:
            self._return_rest()
        filled = [part for part in parts if len(part.numbers)]
        return self._loader.join(filled, random) if filled else parts[0], taken

    def _following(self, epoch: int) -> PartialJob | None:
        """Return the next job of an epoch; None if the next job is of another one."""
        job = self._prefetcher.peek()
        # A job without records may have an error that comes after all batches.
        if job is None or job.epoch != epoch or (job.error is not None and not len(job.chunk)):
            return None
        return self.next()

    def _return_rest(self) -> None:
        """Put the rest of the last job back, so that the next job begins with it."""
        if self._rest is not None:
            self._prefetcher.requeue()
            job = self._rest.job
            _, chunk = job.chunk.split(self._rest.begin)
            self._queue.put_back([LoadJob(job.epoch, chunk, None)])
            self._rest = None
        self._complete_jobs = 0

    def _refill(
        self, piece: PartialJob, parts: list[Loaded], missing: int, random: RecordRandom
    ) -> int:
        """Fill up a batch from a job with errors, of which the positions are not known.

        Only as many records as are missing are loaded at a time, so that exactly the errors of
        these records are handled.

        Args:
            piece: The whole job.
            parts: Parts of the batch, to which others are added.
            missing: Number of records that the batch lacks.
            random: Random number generators of the epoch's records.

        Returns:
            The number of planned records that were taken.
        """
        epoch, taken = piece.job.epoch, 0
        if not parts:
            self._errors.handle_loaded(piece.loaded, self._loader)
            self.stored_bytes += piece.job.stored_bytes
            parts.append(piece.loaded)
            taken = len(piece.job.chunk)
            missing -= len(piece.loaded.numbers)
            if len(piece.loaded.numbers) == taken:
                return taken
        self._prefetcher.requeue()
        if not taken:
            self._queue.put_back([piece.job])
        while missing and (chunk := self._queue.take(epoch, missing)) is not None:
            plan = chunk.plan(self._loader.reader)
            self.stored_bytes += plan.stored_bytes(0, len(chunk))
            more = self._loader.load(plan, random)
            self._errors.handle_loaded(more, self._loader)
            parts.append(more)
            taken += len(chunk)
            missing -= len(more.numbers)
        return taken
