"""One iteration of one process: its batches or samples, its position and its errors."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, StaleIndexError, TorchRecIOError
from ..order.progress import ProcessLayout, Progress
from ..parsing.record_random import RecordRandom
from ..tensors.batch import Batch, KeyedBatch
from .dealing import Dealer
from .prefetch import JobQueue, LoadJob, Outcome, Prefetcher
from .record_loader import Loaded, RecordLoader
from .worker_state import WorkerState

logger = logging.getLogger("torchrec_io")

# Number of small batches that are read and parsed together if native code does all the work.
_MOST_IN_RUN = 16


@dataclass
class Position:
    """Position of an iteration, as seen by its consumer.

    The fields of :class:`Progress` can be assigned here.

    Attributes:
        layout: Process layout of the iteration.
        was_tried: Whether a batch of this epoch was loaded.
        has_yielded: Whether anything of this epoch was yielded.
    """

    layout: ProcessLayout
    epoch: int
    first_epoch: int
    begin: int
    consumed: int
    ahead: int
    assigned: int
    was_tried: bool = False
    has_yielded: bool = False

    @classmethod
    def at(cls, progress: Progress, layout: ProcessLayout) -> Position:
        """Return the position of a progress."""
        position = cls(layout, *dataclasses.astuple(progress))
        position.has_yielded = progress.begin > 0 or progress.consumed > 0
        return position

    @property
    def progress(self) -> Progress:
        return Progress(
            self.epoch, self.first_epoch, self.begin, self.consumed, self.ahead, self.assigned
        )

    def move_to(self, progress: Progress) -> None:
        """Move within the epoch."""
        for field in dataclasses.fields(progress):
            setattr(self, field.name, getattr(progress, field.name))

    def enter(self, progress: Progress) -> None:
        """Move to the start of another epoch."""
        self.move_to(progress)
        self.was_tried = self.has_yielded = False


@dataclass(frozen=True)
class ErrorHandler:
    """Raises, logs or passes on the errors of bad records, as ``on_error`` specifies.

    Attributes:
        on_error: See :class:`torchrec_io.TFRecordDataset`.
        state: Counts the errors that are skipped.
    """

    on_error: Any
    state: WorkerState

    def handle(self, errors: list[TorchRecIOError], worker: int = 0) -> None:
        """Handle each error, in order. The list is empty afterwards."""
        while errors:
            error = errors.pop(0)
            if self._is_fatal(error):
                try:
                    raise error
                finally:
                    # Its traceback refers to this frame. A reference back would keep files open
                    # until the garbage collector runs.
                    del error
            self.state.count_skipped(worker)
            if callable(self.on_error):
                self.on_error(error)
            else:
                logger.warning("skipped: %s", error)

    def will_raise(self, errors: Sequence[TorchRecIOError]) -> bool:
        """Return whether :meth:`handle` would raise one of the errors."""
        return any(map(self._is_fatal, errors))

    def _is_fatal(self, error: TorchRecIOError) -> bool:
        # A stale index is not a bad record: skipping would lose all records, one by one.
        return self.on_error == "raise" or isinstance(error, StaleIndexError)


@dataclass(frozen=True)
class Iteration:
    """Loads the records of a process in their order.

    Attributes:
        loader: Reads and parses records.
        dealer: Assigns records to this process.
        state: Counts the errors that are skipped.
    """

    loader: RecordLoader
    dealer: Dealer
    state: WorkerState

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the dataset."""
        return self.dealer.options

    @property
    def errors(self) -> ErrorHandler:
        """Handler of the errors of bad records."""
        return ErrorHandler(self.options["on_error"], self.state)

    def items(self, position: Position, threads: int, times_set: int) -> Iterator[Any]:
        """Yield batches or samples from a position on, and move it with each of them.

        Args:
            position: Position of the first item.
            threads: Number of threads that read and parse; 1 is the calling thread.
            times_set: Number of calls of ``set_epoch`` before the iteration was created.
        """
        # Not before the first item is requested: the workers of a StatefulDataLoader all load their
        # states before that, and must see the same number.
        self.state.times_seen = times_set
        handler = self.errors
        queue = JobQueue(
            self.dealer.batches(self.loader.reader, position.progress, position.layout),
            self.loader.reader,
            (self.options["batch_size"] or 1) if self.dealer.fills_up else 1,
        )
        prefetcher: Prefetcher[Loaded] = Prefetcher(
            self._load,
            queue,
            threads,
            self.options["prefetch"],
            _MOST_IN_RUN if self.loader.is_native else 1,
        )
        try:
            while (done := prefetcher.next()) is not None:
                job, loaded = done
                if not self._enter(position, job.epoch):
                    return
                if not self.dealer.in_batches:
                    yield from self._samples(loaded, job, position, handler)
                    continue
                handler.handle(loaded.errors, position.layout.worker)
                taken = len(job.chunk)
                if len(loaded.numbers) < taken and self.dealer.fills_up:
                    prefetcher.recall()
                    loaded, taken = self._filled_up(loaded, job, queue, handler, position)
                position.ahead += taken - len(job.chunk)
                position.consumed += taken if self.dealer.fills_up else 1
                if self._is_yielded(len(loaded.numbers)):
                    position.has_yielded = True
                    yield self._with_keys(loaded)
            self._finish(position)
        finally:
            prefetcher.close()

    def _finish(self, position: Position) -> None:
        """Move to the end of the epoch, if its position is known to this process."""
        position.move_to(self.dealer.end_of(position.progress, position.layout))

    def _enter(self, position: Position, epoch: int) -> bool:
        """Move to the epoch of the next batch; return False if the iteration must end."""
        if epoch != position.epoch:
            if position.was_tried and not position.has_yielded and self.options["epochs"] is None:
                # It would search for a good record forever.
                reason = f"epoch {position.epoch} yielded nothing: all of its records were skipped"
                if position.layout.num_workers == 1:
                    raise DecodeError(reason)
                logger.warning("worker %d ends: its part of %s", position.layout.worker, reason)
                return False
            progress = position.progress
            while progress.epoch != epoch:
                progress = self.dealer.next_epoch(progress, position.layout)
            position.enter(progress)
        position.was_tried = True
        return True

    def _filled_up(
        self,
        loaded: Loaded,
        job: LoadJob,
        queue: JobQueue,
        handler: ErrorHandler,
        position: Position,
    ) -> tuple[Loaded, int]:
        """Return a batch whose lost records are replaced, and the number of records taken."""
        taken = len(job.chunk)
        missing = taken - len(loaded.numbers)
        parts = [loaded]
        while missing and (chunk := queue.take(job.epoch, missing)) is not None:
            more = self.loader.load(chunk.plan(self.loader.reader), self._random(job))
            handler.handle(more.errors, position.layout.worker)
            parts.append(more)
            taken += len(chunk)
            missing -= len(more.numbers)
        return self.loader.join(parts, self._random(job)), taken

    def _is_yielded(self, count: int) -> bool:
        batch_size = self.options["batch_size"]
        is_full = batch_size is not None and count >= batch_size
        return is_full or (count > 0 and not self.options["drop_last"])

    def _with_keys(self, loaded: Loaded) -> Any:
        items = loaded.items.with_views() if isinstance(loaded.items, Batch) else loaded.items
        if not self.options["with_key"]:
            return items
        keys = self.loader.reader.keys(loaded.numbers)
        return KeyedBatch(keys, items) if isinstance(items, Batch) else (keys, items)

    def _samples(
        self, loaded: Loaded, job: LoadJob, position: Position, handler: ErrorHandler
    ) -> Iterator[Any]:
        """Yield the samples of a job; if an error is raised, those before it."""
        if handler.will_raise(loaded.errors):
            planned = job.chunk.numbers[: len(loaded.numbers)]
            lost = np.flatnonzero(loaded.numbers != planned)
            sound = int(lost[0]) if len(lost) else len(loaded.numbers)
            yield from self._each(loaded, job, position, sound)
        handler.handle(loaded.errors, position.layout.worker)
        before = position.consumed
        position.ahead += len(job.chunk) - len(loaded.numbers)
        yield from self._each(loaded, job, position)
        position.consumed = before + len(job.chunk)

    def _each(
        self, loaded: Loaded, job: LoadJob, position: Position, most: int | None = None
    ) -> Iterator[Any]:
        samples: Any = loaded.samples()
        if self.options["with_key"]:
            samples = zip(self.loader.reader.keys(loaded.numbers), samples, strict=True)
        before = position.consumed
        ends = _ends(loaded.numbers, job)
        for end, sample in itertools.islice(zip(ends, samples, strict=True), most):
            position.consumed = before + end
            position.has_yielded = True
            yield sample

    def _load(self, jobs: Sequence[LoadJob], following: LoadJob | None) -> list[Outcome]:
        """Read and parse batches, while the system reads the next ones."""
        next_jobs = [*jobs[1:], *([] if following is None else [following])]
        for job, then in zip(jobs, next_jobs, strict=False):
            # A read that continues another one needs no hint: the system reads ahead anyway.
            if then.plan is not None and (job.plan is None or not then.plan.continues(job.plan)):
                # Errors are raised when the batch itself is read.
                with contextlib.suppress(TorchRecIOError, OSError):
                    self.loader.reader.will_need(then.plan)
        planned = [*itertools.takewhile(lambda job: job.error is None, jobs)]
        loaded = self.loader.load_run(
            [job.plan for job in planned], [self._random(job) for job in planned]
        )
        outcomes = [Outcome(each) for each in loaded]
        return outcomes + [self._outcome(job) for job in jobs[len(outcomes) :]]

    def _outcome(self, job: LoadJob) -> Outcome:
        if job.error is not None:
            return Outcome(None, job.error)
        try:
            loaded = self.loader.load(job.plan, self._random(job))
        except BaseException as error:  # noqa: BLE001  # raised when this batch is asked for
            return Outcome(None, error)
        # The stored bytes are needed again only to fill up a batch.
        return Outcome(loaded if loaded.errors else loaded._replace(block=None))

    def _random(self, job: LoadJob) -> RecordRandom:
        """Return the source of the random numbers of a job's records."""
        return RecordRandom(self.dealer.order.seed, job.epoch)


def _ends(numbers: npt.NDArray[Any], job: LoadJob) -> Sequence[int]:
    """Return how many of a job's records end with each loaded record."""
    if len(numbers) == len(job.chunk):
        return range(1, len(numbers) + 1)
    planned = job.chunk.numbers
    ends = []
    at = 0
    for number in numbers:
        while planned[at] != number:
            at += 1
        at += 1
        ends.append(at)
    return ends
