"""One iteration of one process: its batches or samples, its position and its errors."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from torch.utils.data import get_worker_info

from .._order.progress import Place, ProcessLayout, Progress
from .._tensors.batch import Batch, KeyedBatch
from .._tensors.batch_rows import RecentBlocks
from ..errors import DecodeError, TransformError
from .bad_records import ErrorHandler
from .epochs import Times
from .job_queue import JobQueue, LoadJob
from .lost_records import FilledBatches, LostRecords, ReadyBatch
from .partition import EpochPartition, RecordPartition
from .prefetch import Prefetcher, Result
from .record_loader import Loaded, RecordLoader
from .replacement import ReplacedRecords
from .statistics import IterationMeter, LoadingCounters
from .transform import Transform

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

    The end of an iteration is where its consumer has taken the last item. A DataLoader worker runs
    ahead of the consumer, so its end is where it is asked for more than its last item.

    Attributes:
        partition: Assigns records to the process of the iteration.
        layout: Process layout of the iteration.
        times: How often epochs were set and positions loaded before it was created.
        move_epoch: Called at the end, unless the iteration is endless, with the epoch after its
            last one.
        is_in_worker: Whether the iteration runs in a worker.
        was_tried: Whether a batch of this epoch was loaded.
        has_yielded: Whether anything of this epoch was yielded.
        has_ended: Whether the iteration has reached its end.
        last: Number of units consumed with the last item, if this process knows it.
        walk: Samples that are being yielded. Those taken are not in ``consumed`` yet.
        recent: Samples that were yielded and are still in use.
    """

    partition: RecordPartition
    layout: ProcessLayout
    times: Times
    move_epoch: Callable[[int], None]
    is_in_worker: bool
    epoch: int
    first_epoch: int
    begin: int
    consumed: int
    ahead: int
    assigned: int
    was_tried: bool = False
    has_yielded: bool = False
    has_ended: bool = False
    last: int | None = None
    walk: _Walk | None = None
    recent: RecentBlocks = dataclasses.field(default_factory=RecentBlocks)

    @classmethod
    def at(
        cls,
        place: Place,
        partition: RecordPartition,
        times: Times,
        move_epoch: Callable[[int], None],
    ) -> Position:
        """Return the position of an iteration of this process that starts at a place."""
        progress, layout = place
        in_worker = get_worker_info() is not None
        position = cls(
            partition, layout, times, move_epoch, in_worker, *dataclasses.astuple(progress)
        )
        position.has_yielded = progress.begin > 0 or progress.consumed > 0
        return position

    @property
    def progress(self) -> Progress:
        consumed = self.consumed + (0 if self.walk is None else self.walk.consumed)
        return Progress(
            self.epoch, self.first_epoch, self.begin, consumed, self.ahead, self.assigned
        )

    @property
    def place(self) -> Place:
        return self.progress, self.layout

    @property
    def next_epoch(self) -> int | None:
        """Epoch after the last one of the iteration; None if it is endless."""
        is_endless = self.partition.options["epochs"] is None
        return None if is_endless else self.partition.epoch_after(self.progress)

    def copy(self) -> Position:
        """Return a position that does not move with this one."""
        consumed = self.progress.consumed
        return dataclasses.replace(self, consumed=consumed, walk=None, recent=RecentBlocks())

    def move_to(self, progress: Progress) -> None:
        """Move within the epoch."""
        for field in dataclasses.fields(progress):
            setattr(self, field.name, getattr(progress, field.name))

    def start(self) -> None:
        """Find the last item, at the start of an iteration or an epoch."""
        progress = self.progress
        is_last = not self.is_in_worker and self.partition.is_last_epoch(progress)
        self.last = self.partition.num_units(progress, self.layout) if is_last else None

    def enter(self, progress: Progress) -> None:
        """Move to the start of another epoch."""
        self.move_to(progress)
        self.was_tried = self.has_yielded = False

    def take(self) -> None:
        """Count the item at this position, which the consumer takes."""
        if self.last is not None and self.consumed >= self.last:
            self.end()

    def end(self) -> None:
        """Move to the next epoch, unless the iteration is endless."""
        next_epoch = self.next_epoch
        if next_epoch is not None and not self.has_ended:
            self.has_ended = True
            self.move_epoch(next_epoch)


class Iteration:
    """Loads the records of a process in their order.

    Args:
        loader: Reads and parses records.
        position: Position of the first item.
        counters: Counts the errors that are skipped.
        meter: Measures what is yielded and the time that it takes.
        transform: Calls the user's function.
        assembler: Loads rows, if the dataset packs records.
    """

    def __init__(
        self,
        loader: RecordLoader,
        position: Position,
        counters: LoadingCounters,
        meter: IterationMeter,
        *,
        transform: Transform | None = None,
        assembler: RowAssembler | None = None,
    ) -> None:
        self._loader = loader
        self._partition = partition = position.partition
        self._position = position
        self._meter = meter
        self._transform = transform
        self._assembler = assembler
        self._options = partition.options
        self._in_batches = partition.in_batches
        on_error = self._options["on_error"]
        # Stored records may be needed to join parts of batches: where records are lost, and where
        # the first batch begins inside a planned one, because records were lost before.
        begins_inside = position.consumed % position.layout.batch_size > 0
        self._keeps_blocks = on_error != "raise" or begins_inside
        self._errors = ErrorHandler(on_error, counters)
        self._lost = self._lost_records()

    def _lost_records(self) -> LostRecords:
        partition, loader = self._partition, self._loader
        if partition.replaces_lost:
            assert isinstance(partition, EpochPartition)
            return ReplacedRecords(loader, partition, self._position.layout, self._errors)
        if self._in_batches and partition.fills_up:
            return FilledBatches(loader, partition.order.seed, self._options["batch_size"])
        return LostRecords(loader, partition.order.seed)

    # ---- yielding ----

    def items(self, threads: int, begin: Callable[[], None]) -> Generator[Any, None, None]:
        """Yield batches from the position on, and move it with each of them.

        Without batches, yield iterables over samples, each of which must be used up before the
        next. Passing each sample through these generators would cost as much as making it.

        Args:
            threads: Number of threads that read and parse; 1 is the calling thread.
            begin: Called when the first item is requested; raises an error if that is wrong.
        """
        begin()
        position, partition = self._position, self._partition
        position.start()
        reader = self._loader.reader
        # The consuming thread may have about as much to do as those that load.
        in_background = 0 if threads == 1 else threads - self._is_consumer_busy()
        plan = None if self._assembler is None else self._assembler.plan
        batches = partition.batches(reader, position.progress, position.layout)
        prefetcher = Prefetcher(
            self._load,
            JobQueue(batches, reader, plan),
            in_background,
            max(_LEAST_RUNS_AHEAD, threads),
            _MOST_IN_RUN if self._loader.is_native else 1,
            in_thread=self._meter.in_thread,
        )
        self._meter.begin()
        try:
            yield from self._items_of(prefetcher)
            position.move_to(partition.end_of(position.progress, position.layout))
            position.end()
        finally:
            self._meter.end()
            prefetcher.close()
            self._errors.report()

    def _items_of(self, jobs: Iterable[tuple[LoadJob, Result]]) -> Iterator[Any]:
        """Yield the items of the jobs of all epochs."""
        position, errors, lost = self._position, self._errors, self._lost
        errors.begin_epoch(position.epoch)
        for job, loaded in jobs:
            if isinstance(loaded, BaseException):
                if not len(job.units):  # an error after all batches
                    yield from self._yielded(lost.rest(position.epoch))
                try:
                    raise loaded
                finally:
                    del job, loaded  # its traceback refers to this frame
            if job.epoch != position.epoch:
                yield from self._yielded(lost.rest(position.epoch))
                if not self._enter(job.epoch):
                    return
                errors.begin_epoch(job.epoch)
            position.was_tried = True
            if self._in_batches:
                if loaded.has_lost:
                    errors.handle_loaded(loaded, self._loader)
                self._meter.stored_bytes += job.plan.stored_bytes(0, len(job.plan.numbers))
                yield from self._yielded(lost.batches(job, loaded, position.progress))
            else:
                yield from self._samples(job, loaded)
        yield from self._yielded(lost.rest(position.epoch))

    def _enter(self, epoch: int) -> bool:
        """Move to the start of a later epoch; return False if the iteration must end."""
        position = self._position
        if position.was_tried and not position.has_yielded and self._options["epochs"] is None:
            # It would search for a good record forever.
            reason = f"epoch {position.epoch} yielded nothing: all of its records were skipped"
            if position.layout.num_workers == 1:
                raise DecodeError(reason)
            logger.warning("worker %d ends: its part of %s", position.layout.worker, reason)
            return False
        progress = position.progress
        while progress.epoch != epoch:
            progress = self._partition.next_epoch(progress, position.layout)
        position.enter(progress)
        position.start()
        return True

    def _yielded(self, batches: Iterable[ReadyBatch]) -> Iterator[Any]:
        """Yield batches, and move the position with each of them."""
        position, options = self._position, self._options
        batch_size = options["batch_size"]
        for loaded, taken in batches:
            if self._partition.fills_up:
                position.ahead += max(0, taken - batch_size)
            position.consumed += 1 if self._partition.has_batches else taken
            count = len(loaded.numbers)
            is_full = batch_size is not None and count >= batch_size
            if is_full or (count > 0 and not options["drop_last"]):
                position.has_yielded = True
                items = self._with_keys(loaded)
                position.take()
                self._meter.pause(count, 1)
                yield items
                self._meter.resume()

    def _with_keys(self, loaded: Loaded) -> Any:
        items = loaded.items
        if self._transform is not None:
            found = loaded.transformed or self._transform.of_batch(
                loaded, self._lost.random(self._position.epoch)
            )
            if found.error is not None:
                _raise(found.error)
            [items] = found.results
        if isinstance(items, Batch):
            items = items.with_views()
        if not self._options["with_key"]:
            return items
        keys = [each.key for each in self._loader.reader.locate(loaded.numbers)]
        return KeyedBatch(keys, items) if isinstance(items, Batch) else (keys, items)

    def _samples(self, job: LoadJob, loaded: Loaded) -> Iterator[Any]:
        """Yield the samples of a job in parts; if an error is raised, those before it."""
        position = self._position
        self._meter.stored_bytes += job.plan.stored_bytes(0, len(job.plan.numbers))
        if self._errors.will_raise(loaded):
            yield from self._each(job, loaded, loaded.count_valid(job.plan.numbers))
        self._errors.handle_loaded(loaded, self._loader)
        if self._partition.replaces_lost and len(loaded.numbers) < len(job.units):
            loaded = self._lost.completed(job, loaded, position.progress)
        before = position.consumed
        position.ahead += len(job.units) - len(loaded.numbers)
        yield from self._each(job, loaded)
        position.consumed = before + len(job.units)

    def _each(self, job: LoadJob, loaded: Loaded, most: int | None = None) -> Iterator[Any]:
        samples = self._samples_of(job, loaded) if loaded.made is None else loaded.made
        items, error = samples, None
        if self._transform is not None:
            items, error = loaded.transformed or self._transform.of_samples(loaded, samples)
        if most is not None:
            error = error if len(items) < most else None
            items = items[:most]
        if items:
            if self._options["with_key"]:
                places = self._loader.reader.locate(loaded.numbers[: len(items)])
                items = [(place.key, item) for place, item in zip(places, items, strict=True)]
            yield from self._taken(items, _ends(job, loaded))
            del items
            self._position.recent.add(samples)
        if error is not None:
            _raise(error)

    def _taken(self, items: list[Any], ends: Sequence[int]) -> Iterator[Any]:
        """Yield samples in parts, and move the position with each sample."""
        position = self._position
        position.has_yielded = True
        count = len(items)
        with self._meter.samples(items) as rest:
            del items
            position.walk = _Walk(rest, count, ends)
            yield itertools.islice(rest, count - 1)
            last = [next(rest)]
            position.walk = None
            position.consumed += ends[count - 1]
            position.take()
            yield last

    def _samples_of(self, job: LoadJob, loaded: Loaded) -> list[Any]:
        schema = self._loader.parser.stored_by
        return loaded.samples(self._lost.random(job.epoch), schema=schema)

    # ---- loading, in any thread ----

    def _is_consumer_busy(self) -> bool:
        """Return whether the consuming thread has about as much to do as those that load.

        It makes samples, or joins batches of which a range refuses records.
        """
        if not self._loader.is_native or self._transform is not None:
            return False
        selects = self._loader.has_ranges and self._options["on_error"] != "raise"
        return selects or not self._in_batches

    def _load(self, jobs: Sequence[LoadJob]) -> list[Result]:
        """Read and parse batches."""
        results: list[Result] = []
        together: list[Result] = []
        try:
            while together := self._load_together(jobs[len(results) :]):
                results += together
            while len(results) < len(jobs):
                # A request that fails takes long, and the iteration ends anyway.
                has_failed = len(results) > 0 and isinstance(results[-1], OSError)
                job = jobs[len(results)]
                results.append(results[-1] if has_failed else self._load_alone(job))
            return results
        finally:
            del results, together  # the traceback of an error refers to this frame

    def _load_together(self, jobs: Sequence[LoadJob]) -> list[Result]:
        """Load batches that can be loaded together: those before one with an error, or fewer."""
        planned = [*itertools.takewhile(lambda job: job.error is None, jobs)]
        try:
            run = self._load_run(planned) if planned else []
        except OSError as error:
            return [error] * len(jobs)
        return [self._transformed(job, each) for job, each in zip(jobs, run, strict=False)]

    def _load_run(self, jobs: Sequence[LoadJob]) -> list[Loaded]:
        """Read and parse batches together, up to the first one with an error, or none.

        Raises:
            OSError: If the first batch cannot be read.
        """
        plans, randoms = [job.plan for job in jobs], [self._lost.random(job.epoch) for job in jobs]
        if self._assembler is not None:
            return self._assembler.load_run([job.units for job in jobs], plans, randoms)
        return self._loader.load_run(plans, randoms)

    def _load_alone(self, job: LoadJob) -> Result:
        if job.error is not None:
            return job.error
        random = self._lost.random(job.epoch)
        try:
            if self._assembler is not None:
                loaded = self._assembler.load(job.units, job.plan, random)
            else:
                loaded = self._loader.load(job.plan, random)
        except BaseException as error:  # noqa: BLE001  # raised when this batch is asked for
            return error
        return self._transformed(job, loaded)

    def _transformed(self, job: LoadJob, loaded: Loaded) -> Loaded:
        """Return what the consuming thread needs of loaded records.

        They are transformed, unless others are put into their batch.
        """
        if not self._keeps_blocks:
            loaded = loaded._replace(block=None)
        if self._transform is None or loaded.has_lost or not len(loaded.numbers):
            return loaded
        if not self._in_batches:
            samples = self._samples_of(job, loaded)
            transformed = self._transform.of_samples(loaded, samples)
            return loaded._replace(made=samples, transformed=transformed)
        if self._lost.is_filling:
            return loaded
        random = self._lost.random(job.epoch)
        return loaded._replace(transformed=self._transform.of_batch(loaded, random))


def _raise(error: TransformError) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _ends(job: LoadJob, loaded: Loaded) -> Sequence[int]:
    """Return the number of planned records of a job up to each loaded record, inclusive."""
    if len(loaded.numbers) == len(job.units):
        return range(1, len(job.units) + 1)
    ends: list[int] = (loaded.positions_in(job.plan.numbers) + 1).tolist()
    return ends
