"""One iteration of one process: its batches or samples, its position and its errors."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy.typing as npt

from .._order.progress import ProcessLayout, Progress
from .._parsing.record_random import RecordRandom
from .._tensors.batch import Batch, KeyedBatch
from .._tensors.batch_rows import RecentBlocks
from ..errors import DecodeError, TransformError
from .bad_records import ErrorHandler
from .feature_watch import FeatureWatch
from .filling import BatchFiller
from .iteration_clock import IterationClock
from .job_queue import JobQueue, LoadJob
from .partition import EpochPartition, RecordPartition
from .prefetch import Outcome, Prefetcher
from .record_loader import Loaded, RecordLoader
from .replacement import LostRecordReplacer
from .statistics import IterationMeter
from .transform import Transform
from .worker_state import WorkerState

if TYPE_CHECKING:
    from .packing import RowAssembler

logger = logging.getLogger("torchrec_io")

# Number of small batches that are read and parsed together if native code does all the work.
_MOST_IN_RUN = 32
# Runs are loaded ahead for each thread, and at least this many.
_LEAST_RUNS_AHEAD = 2


class _Walk(NamedTuple):
    """Samples of a list that are being yielded.

    The consumer's place is looked up when it is needed, as samples are many.

    Attributes:
        rest: Iterator over the list.
        total: Number of samples in the list.
        ends: Number of planned records that end with each of them.
    """

    rest: Iterator[Any]
    total: int
    ends: Sequence[int]

    @property
    def taken(self) -> int:
        """Number of samples that were yielded."""
        return self.total - operator.length_hint(self.rest)

    @property
    def consumed(self) -> int:
        """Number of planned records up to the last sample that was yielded."""
        taken = self.taken
        return self.ends[taken - 1] if taken > 0 else 0


@dataclass
class Position:
    """Position of an iteration, as seen by its consumer.

    The fields of :class:`Progress` can be assigned here.

    Attributes:
        layout: Process layout of the iteration.
        clock: Clock of the iteration, which moves that of the epochs at its end.
        was_tried: Whether a batch of this epoch was loaded.
        has_yielded: Whether anything of this epoch was yielded.
        walk: Samples that are being yielded. Those taken are not in ``consumed`` yet.
        numbers: Numbers of the records of the last batch, or of the list of samples, if known.
        recent: Samples that were yielded and are still in use.
    """

    layout: ProcessLayout
    clock: IterationClock
    epoch: int
    first_epoch: int
    begin: int
    consumed: int
    ahead: int
    assigned: int
    was_tried: bool = False
    has_yielded: bool = False
    walk: _Walk | None = None
    numbers: Sequence[Any] | npt.NDArray[Any] = ()
    recent: RecentBlocks = dataclasses.field(default_factory=RecentBlocks)

    @classmethod
    def at(cls, progress: Progress, layout: ProcessLayout, clock: IterationClock) -> Position:
        """Return the position of a progress."""
        position = cls(layout, clock, *dataclasses.astuple(progress))
        position.has_yielded = progress.begin > 0 or progress.consumed > 0
        return position

    @property
    def progress(self) -> Progress:
        consumed = self.consumed + (0 if self.walk is None else self.walk.consumed)
        return Progress(
            self.epoch, self.first_epoch, self.begin, consumed, self.ahead, self.assigned
        )

    def begin_batch(self, numbers: Sequence[Any] | npt.NDArray[Any]) -> None:
        """Remember the records of a batch that is yielded."""
        self.has_yielded = True
        self.numbers = numbers

    @property
    def latest(self) -> Any:
        """Number of the last sample's record, or of the first of the last batch; None before it."""
        if not len(self.numbers):
            return None
        return self.numbers[0 if self.walk is None else self.walk.taken - 1]

    def copy(self) -> Position:
        """Return a position that does not move with this one."""
        consumed = self.progress.consumed
        return dataclasses.replace(self, consumed=consumed, walk=None, recent=RecentBlocks())

    def move_to(self, progress: Progress) -> None:
        """Move within the epoch."""
        for field in dataclasses.fields(progress):
            setattr(self, field.name, getattr(progress, field.name))

    def enter(self, progress: Progress) -> None:
        """Move to the start of another epoch."""
        self.move_to(progress)
        self.was_tried = self.has_yielded = False


@dataclass(frozen=True)
class Iteration:
    """Loads the records of a process in their order.

    Attributes:
        loader: Reads and parses records.
        partition: Assigns records to this process.
        state: Counts the errors that are skipped.
        meter: Measures what is yielded and the time that it takes.
        transform: Calls the user's function.
        assembler: Loads rows, if the dataset packs records.
        watch: Looks for features that records may lack.
    """

    loader: RecordLoader
    partition: RecordPartition
    state: WorkerState
    meter: IterationMeter
    transform: Transform | None = None
    assembler: RowAssembler | None = None
    watch: FeatureWatch | None = None

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the dataset."""
        return self.partition.options

    @property
    def _is_watching(self) -> bool:
        return self.watch is not None and self.watch.is_open

    def items(
        self, position: Position, threads: int, check: Callable[[], None]
    ) -> Generator[Any, None, None]:
        """Yield batches from a position on, and move it with each of them.

        Without batches, yield iterables over samples, each of which must be used up before the
        next. Passing each sample through these generators would cost as much as making it.

        Args:
            position: Position of the first item.
            threads: Number of threads that read and parse; 1 is the calling thread.
            check: Called when the first item is requested; raises an error if that is wrong.
        """
        check()
        clock = position.clock
        # Not before the first item is requested: the workers of a StatefulDataLoader all load their
        # states before that, and must see the same number.
        self.state.times_seen = clock.times_set
        if clock.starts_after(position):
            progress = self.partition.next_epoch(position.progress, position.layout)
            position.enter(dataclasses.replace(progress, first_epoch=progress.epoch))
        clock.expect(self.partition, position)
        errors = ErrorHandler(self.options["on_error"], self.state, position.layout.worker)
        batch_size = self.options["batch_size"] or 1
        queue = JobQueue(
            self.partition.batches(self.loader.reader, position.progress, position.layout),
            self.loader.reader,
            batch_size if self.partition.fills_up else 1,
        )
        prefetcher: Prefetcher[Loaded] = Prefetcher(
            self._load,
            queue,
            threads,
            max(_LEAST_RUNS_AHEAD, threads),
            _MOST_IN_RUN if self.loader.is_native else 1,
            in_thread=self.meter.in_thread,
            is_consumer_busy=self._is_consumer_busy(),
        )
        filler = BatchFiller(self.loader, prefetcher, queue, batch_size, errors)
        replacer = self._replacer(position)
        self.meter.begin()
        try:
            while (piece := filler.next()) is not None:
                job, loaded = piece.job, piece.loaded
                if self.watch is not None and piece.begin == 0:  # the assembler examines its own
                    self.watch.examine(loaded.block)
                errors.begin_epoch(job.epoch)
                if not self._enter(position, job.epoch):
                    return
                if not self.partition.in_batches:
                    yield from self._samples(loaded, job, position, errors, replacer)
                    continue
                taken = len(job.chunk)
                if self.partition.fills_up:
                    loaded, taken = filler.complete(piece, self._random(job))
                    self.meter.stored_bytes += filler.stored_bytes
                    position.ahead += max(0, taken - batch_size)
                else:
                    self.meter.stored_bytes += job.stored_bytes
                    errors.handle_loaded(loaded, self.loader)
                    loaded = self._as_planned(loaded, job, position, errors, replacer)
                position.consumed += 1 if self.partition.has_batches else taken
                count = len(loaded.numbers)
                if self._is_yielded(count):
                    position.begin_batch(loaded.numbers)
                    items = self._with_keys(loaded, job)
                    clock.take(position)
                    self.meter.pause(count, 1)
                    yield items
                    self.meter.resume()
            self._finish(position)
            clock.end()
        finally:
            self.meter.end()
            prefetcher.close()
            errors.report()

    def _is_consumer_busy(self) -> bool:
        """Return whether the consuming thread has about as much to do as those that load.

        It makes samples, or joins batches of which a range refuses records.
        """
        if not self.loader.is_native or self.transform is not None:
            return False
        selects = self.loader.has_ranges and self.options["on_error"] != "raise"
        return selects or not self.partition.in_batches

    def _replacer(self, position: Position) -> LostRecordReplacer | None:
        """Return the replacer of lost records; None if the number of steps may change."""
        if not self.partition.replaces_lost:
            return None
        assert isinstance(self.partition, EpochPartition)
        return LostRecordReplacer(self.loader, self.partition, position.layout)

    def _as_planned(
        self,
        loaded: Loaded,
        job: LoadJob,
        position: Position,
        errors: ErrorHandler,
        replacer: LostRecordReplacer | None,
    ) -> Loaded:
        """Return the loaded records of a job, and those that replace lost ones."""
        if replacer is None:
            return self.loader.join([loaded], self._random(job)) if len(loaded.numbers) else loaded
        loaded, repeated = replacer.complete(loaded, job.chunk.numbers, position.progress)
        errors.count_repeated(repeated)
        return loaded

    def _finish(self, position: Position) -> None:
        """Move to the end of the epoch, if its position is known to this process."""
        if self.watch is not None:
            self.watch.end()
        position.move_to(self.partition.end_of(position.progress, position.layout))

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
                progress = self.partition.next_epoch(progress, position.layout)
            position.enter(progress)
            position.clock.expect(self.partition, position)
        position.was_tried = True
        return True

    def _is_yielded(self, count: int) -> bool:
        batch_size = self.options["batch_size"]
        is_full = batch_size is not None and count >= batch_size
        return is_full or (count > 0 and not self.options["drop_last"])

    def _with_keys(self, loaded: Loaded, job: LoadJob) -> Any:
        items = loaded.items
        if self.transform is not None:
            found = loaded.transformed or self.transform.of_batch(loaded, self._random(job))
            if found.error is not None:
                _raise(found.error)
            [items] = found.results
        if isinstance(items, Batch):
            items = items.with_views()
        if not self.options["with_key"]:
            return items
        keys = [each.key for each in self.loader.reader.locate(loaded.numbers)]
        return KeyedBatch(keys, items) if isinstance(items, Batch) else (keys, items)

    def _samples(
        self,
        loaded: Loaded,
        job: LoadJob,
        position: Position,
        errors: ErrorHandler,
        replacer: LostRecordReplacer | None,
    ) -> Iterator[Any]:
        """Yield the samples of a job in parts; if an error is raised, those before it."""
        self.meter.stored_bytes += job.stored_bytes
        if errors.will_raise(loaded):
            valid = loaded.count_valid(job.chunk.numbers)
            yield from self._each(loaded, job, position, valid)
        errors.handle_loaded(loaded, self.loader)
        if replacer is not None:
            loaded = self._as_planned(loaded, job, position, errors, replacer)
        before = position.consumed
        position.ahead += len(job.chunk) - len(loaded.numbers)
        yield from self._each(loaded, job, position)
        position.consumed = before + len(job.chunk)

    def _each(
        self,
        loaded: Loaded,
        job: LoadJob,
        position: Position,
        most: int | None = None,
    ) -> Iterator[Any]:
        samples = self._samples_of(loaded, job) if loaded.made is None else loaded.made
        items, error = samples, None
        if self.transform is not None:
            items, error = loaded.transformed or self.transform.of_samples(loaded, samples)
        if most is not None:
            error = error if len(items) < most else None
            items = items[:most]
        if items:
            if self.options["with_key"]:
                places = self.loader.reader.locate(loaded.numbers[: len(items)])
                items = [(place.key, item) for place, item in zip(places, items, strict=True)]
            position.numbers = loaded.numbers[: len(items)]
            yield from self._taken(items, _ends(loaded, job), position)
            del items
            position.recent.add(samples)
        if error is not None:
            _raise(error)

    def _taken(self, items: list[Any], ends: Sequence[int], position: Position) -> Iterator[Any]:
        """Yield samples in parts, and move the position with each sample."""
        position.has_yielded = True
        count = len(items)
        with self.meter.samples(items) as rest:
            del items
            position.walk = _Walk(rest, count, ends)
            yield itertools.islice(rest, count - 1)
            last = [next(rest)]
            position.walk = None
            position.numbers = position.numbers[-1:]
            position.consumed += ends[count - 1]
            if position.consumed == position.clock.last:
                position.clock.take(position)
            yield last

    def _samples_of(self, loaded: Loaded, job: LoadJob) -> list[Any]:
        schema = self.loader.parser.stored_by
        return loaded.samples(self._random(job), schema=schema)

    def _load(self, jobs: Sequence[LoadJob]) -> list[Outcome]:
        """Read and parse batches."""
        outcomes: list[Outcome] = []
        while together := self._load_together(jobs[len(outcomes) :]):
            outcomes += together
        for job in jobs[len(outcomes) :]:
            last = outcomes[-1].error if outcomes else None
            # A request that fails takes long, and the iteration ends anyway.
            outcomes.append(
                Outcome(None, last) if isinstance(last, OSError) else self._outcome(job)
            )
        return outcomes

    def _load_together(self, jobs: Sequence[LoadJob]) -> list[Outcome]:
        """Load batches that can be loaded together: those before one with an error, or fewer."""
        planned = [*itertools.takewhile(lambda job: job.error is None, jobs)]
        try:
            run = self._load_run(planned) if planned else []
        except OSError as error:
            return [Outcome(None, error)] * len(jobs)
        return [Outcome(self._transformed(each, job)) for each, job in zip(run, jobs, strict=False)]

    def _load_run(self, jobs: Sequence[LoadJob]) -> list[Loaded]:
        """Read and parse batches together, up to the first one with an error, or none.

        Raises:
            OSError: If the first batch cannot be read.
        """
        plans, randoms = [job.plan for job in jobs], [self._random(job) for job in jobs]
        if self._is_watching and (self.assembler is not None or self.loader.parser.reuses_buffers):
            return []
        if self.assembler is not None:
            return self.assembler.load_run([job.chunk for job in jobs], plans, randoms)
        return [self._kept(loaded) for loaded in self.loader.load_run(plans, randoms)]

    def _outcome(self, job: LoadJob) -> Outcome:
        if job.error is not None:
            return Outcome(None, job.error)
        try:
            if self.assembler is not None:
                loaded = self.assembler.load(job.chunk, job.plan, self._random(job))
            else:
                loaded = self._kept(self.loader.load(job.plan, self._random(job)))
        except BaseException as error:  # noqa: BLE001  # raised when this batch is asked for
            return Outcome(None, error)
        return Outcome(self._transformed(loaded, job))

    def _kept(self, loaded: Loaded) -> Loaded:
        """Return loaded records with their stored bytes if they may be needed.

        A batch may be filled with them, or they are examined.
        """
        is_needed = self.options["on_error"] != "raise" or self._is_watching
        return loaded if is_needed else loaded._replace(block=None)

    def _transformed(self, loaded: Loaded, job: LoadJob) -> Loaded:
        """Return loaded records, transformed if none is to be replaced first."""
        if self.transform is None or loaded.has_lost or not len(loaded.numbers):
            return loaded
        if self.partition.in_batches:
            return loaded._replace(transformed=self.transform.of_batch(loaded, self._random(job)))
        samples = self._samples_of(loaded, job)
        transformed = self.transform.of_samples(loaded, samples)
        return loaded._replace(made=samples, transformed=transformed)

    def _random(self, job: LoadJob) -> RecordRandom:
        """Return the source of the random numbers of a job's records."""
        return RecordRandom(self.partition.order.seed, job.epoch)


def _raise(error: TransformError) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _ends(loaded: Loaded, job: LoadJob) -> Sequence[int]:
    """Return the number of planned records of a job up to each loaded record, inclusive."""
    if len(loaded.numbers) == len(job.chunk):
        return range(1, len(job.chunk) + 1)
    ends: list[int] = (loaded.positions_in(job.chunk.numbers) + 1).tolist()
    return ends
