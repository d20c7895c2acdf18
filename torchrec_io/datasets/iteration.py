"""One pass of one process over its share of the records."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..episodes.reader import StepPlan
from ..errors import DecodeError, StaleIndexError, TorchRecIOError
from ..order.orders import StreamedOrder
from ..order.progress import Arrangement, Progress
from ..parsing.record_random import RecordRandom
from ..records.block_reader import BlockPlan
from ..records.reader import ReadPlan
from ..records.stream_reader import StreamPiece
from ..tensors.batch import Batch
from .dealing import Shares
from .options import LoadOptions
from .prefetch import Feed, Job, Lookahead, Outcome
from .record_loader import Loaded, RecordSource
from .worker_state import Control

logger = logging.getLogger("torchrec_io")

# Batches that are read and parsed together, where they are small and native code does it all.
_MOST_IN_RUN = 16


@dataclass
class Position:
    """How far one iteration has come, in the eyes of who takes its items."""

    by: Arrangement
    epoch: int
    first_epoch: int
    begin: int
    consumed: int
    ahead: int
    dealt: int
    tried: bool = False  # a batch of this epoch
    given: bool = False  # anything of this epoch

    @classmethod
    def at(cls, progress: Progress, by: Arrangement) -> Position:
        position = cls(by, *dataclasses.astuple(progress))
        position.given = progress.begin > 0 or progress.consumed > 0
        return position

    @property
    def progress(self) -> Progress:
        return Progress(
            self.epoch, self.first_epoch, self.begin, self.consumed, self.ahead, self.dealt
        )

    def go_to(self, progress: Progress) -> None:
        """Another epoch."""
        self.__init__(self.by, *dataclasses.astuple(progress))  # type: ignore[misc]


@dataclass(frozen=True)
class Iteration:
    """Reads, decodes and gives records, in the order that they are dealt to a process.

    Attributes:
        source: Reads and decodes.
        shares: Deals.
        control: Counts what is skipped.
    """

    source: RecordSource
    shares: Shares
    control: Control

    @property
    def options(self) -> LoadOptions:
        """How records are given."""
        return self.shares.options

    def items(self, position: Position, threads: int, times_set: int) -> Iterator[Any]:
        """What the dataset gives from a position on; moves it with each item.

        Args:
            position: Where to begin.
            threads: How many read and parse; 1 is the calling thread.
            times_set: How often a user had set the epoch when this was asked for.
        """
        # Not before the first item is asked for: StatefulDataLoader's workers all load their states
        # before that, and must find the same.
        self.control.times_seen = times_set
        batches = self.shares.batches(self.source.reader, position.progress, position.by)
        by_length = self.shares.by_length  # such batches are not filled up
        full = 1 if by_length else self.options.batch_size or 1
        feed = Feed(batches, self.source.reader.plan, full)
        together = _MOST_IN_RUN if self.source.is_quick else 1
        lookahead: Lookahead[Loaded] = Lookahead(
            self._load, feed, threads, self.options.prefetch, together
        )
        try:
            while (done := lookahead.next()) is not None:
                job, loaded = done
                if not self._enter(position, job.epoch):
                    return
                if not self.options.in_batches and self._will_raise(loaded.errors):
                    sound = _sound_start(loaded.numbers, job)
                    yield from self._given_samples(loaded, job, position, sound)
                self.handle(loaded.errors, position.by.worker)
                if not self.options.in_batches:
                    yield from self._given_samples(loaded, job, position)
                    continue
                taken = len(job.records)
                if len(loaded.numbers) < taken and not by_length:
                    lookahead.recall()
                    loaded, taken = self._topped_up(loaded, job, feed, position.by.worker)
                position.ahead += taken - len(job.records)
                position.consumed += 1 if by_length else taken
                if self._is_given(len(loaded.numbers)):
                    position.given = True
                    yield self._with_keys(loaded)
            self._finish(position)
        finally:
            lookahead.close()

    def _finish(self, position: Position) -> None:
        """Notes that the epoch is over, where this process speaks for all of its step."""
        known = not isinstance(self.shares.order, StreamedOrder)
        if known and position.by.num_workers == 1 and position.ahead == 0:
            position.begin, position.consumed = self.shares.num_dealt(position.epoch), 0

    def handle(self, errors: list[TorchRecIOError], worker: int) -> None:
        """Raises the first error, or counts and tells each; uses the list up."""
        on_error = self.options.on_error
        while errors:
            error = errors.pop(0)
            # A stale index is no damaged record: it would lose all of them, one by one.
            if on_error == "raise" or isinstance(error, StaleIndexError):
                try:
                    raise error
                finally:
                    # Its traceback leads here; a way back would keep files open until the garbage
                    # collector comes.
                    del error
            self.control.count_skipped(worker)
            if callable(on_error):
                on_error(error)
            else:
                logger.warning("skipped: %s", error)

    def _will_raise(self, errors: Sequence[TorchRecIOError]) -> bool:
        if self.options.on_error == "raise":
            return len(errors) > 0
        return any(isinstance(error, StaleIndexError) for error in errors)

    def _enter(self, position: Position, epoch: int) -> bool:
        """Goes on to the epoch of the next batch; False if it is better to stop."""
        if epoch != position.epoch:
            if position.tried and not position.given and self.options.epochs is None:
                # It would look for a good record for ever.
                reason = f"epoch {position.epoch} gave nothing: all of it was skipped"
                if position.by.num_workers == 1:
                    raise DecodeError(reason)
                logger.warning("worker %d ends: its part of %s", position.by.worker, reason)
                return False
            progress = position.progress
            while progress.epoch != epoch:
                progress = self.shares.next_epoch(progress, position.by)
            position.go_to(progress)
        position.tried = True
        return True

    def _topped_up(self, short: Loaded, job: Job, feed: Feed, worker: int) -> tuple[Loaded, int]:
        """A batch that lost records, with as many of those that come next; and what it took."""
        parts = [short]
        taken = len(job.records)
        missing = taken - len(short.numbers)
        while missing and (records := feed.take(job.epoch, missing)) is not None:
            more = self.source.read(self.source.reader.plan(records), self._random(job))
            self.handle(more.errors, worker)
            parts.append(more)
            taken += len(records)
            missing -= len(more.numbers)
        return self.source.joined(parts, self._random(job)), taken

    def _is_given(self, count: int) -> bool:
        full = self.options.batch_size is not None and count >= self.options.batch_size
        return full or (count > 0 and not self.options.drop_last)

    def _with_keys(self, loaded: Loaded) -> Any:
        items = loaded.items.with_views() if isinstance(loaded.items, Batch) else loaded.items
        return (self.source.reader.keys(loaded.numbers), items) if self.options.with_key else items

    def _given_samples(
        self, loaded: Loaded, job: Job, position: Position, most: int | None = None
    ) -> Iterator[Any]:
        """The samples of a job; with ``most``, those before an error that is to be raised."""
        samples: Any = loaded.samples()
        if self.options.with_key:
            samples = zip(self.source.reader.keys(loaded.numbers), samples, strict=True)
        before = position.consumed
        if most is None:
            position.ahead += len(job.records) - len(loaded.numbers)
        given = zip(_ends(loaded.numbers, job), samples, strict=True)
        for end, sample in itertools.islice(given, most):
            position.consumed = before + end
            position.given = True
            yield sample
        if most is None:
            position.consumed = before + len(job.records)

    def _load(self, jobs: Sequence[Job], following: Job | None) -> list[Outcome]:
        """Reads and decodes some batches, while the system reads the next."""
        behind = [*jobs[1:], *([] if following is None else [following])]
        for job, then in zip(jobs, behind, strict=False):
            if not _reads_on(job.plan, then.plan):
                # What is wrong with a file is told in the turn of the batch that needs it.
                with contextlib.suppress(TorchRecIOError, OSError):
                    self.source.reader.will_need(then.plan)
        planned = [*itertools.takewhile(lambda job: job.error is None, jobs)]
        sound = self.source.read_sound(
            [job.plan for job in planned], [self._random(job) for job in planned]
        )
        outcomes = [Outcome(loaded) for loaded in sound]
        return outcomes + [self._outcome(job) for job in jobs[len(outcomes) :]]

    def _outcome(self, job: Job) -> Outcome:
        if job.error is not None:
            return Outcome(None, job.error)
        try:
            loaded = self.source.read(job.plan, self._random(job))
        except BaseException as error:  # noqa: BLE001  # for who asks for this batch
            return Outcome(None, error)
        # The stored bytes are needed again only to fill a batch up.
        return Outcome(loaded if loaded.errors else loaded._replace(block=None))

    def _random(self, job: Job) -> RecordRandom:
        """What the random numbers of a job's records depend on."""
        return RecordRandom(self.shares.order.seed, job.epoch)


def _ends(numbers: npt.NDArray[Any], job: Job) -> Sequence[int]:
    """For each record that is left of a job: how many of the job's end with it."""
    if len(numbers) == len(job.records):
        return range(1, len(numbers) + 1)
    planned = _numbers_of(job)
    ends = []
    at = 0
    for number in numbers:
        while planned[at] != number:
            at += 1
        at += 1
        ends.append(at)
    return ends


def _sound_start(numbers: npt.NDArray[Any], job: Job) -> int:
    """How many of a job's records are left before the first that is lost."""
    lost = np.flatnonzero(numbers != _numbers_of(job)[: len(numbers)])
    return int(lost[0]) if len(lost) else len(numbers)


def _numbers_of(job: Job) -> npt.NDArray[Any]:
    return job.records.block.numbers if isinstance(job.records, StreamPiece) else job.records


def _reads_on(plan: Any, following: Any) -> bool:
    """Whether a read goes on where another ended; the system then reads ahead by itself."""
    if following is None:  # it cannot be read
        return True
    return isinstance(plan, (ReadPlan, BlockPlan, StepPlan)) and bool(following.continues(plan))
