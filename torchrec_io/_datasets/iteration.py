"""One iteration of one process: its batches or samples, its position and its errors."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from .._order.selection import Numbers
from .._parsing.record_random import RecordRandom
from .._tensors.batch import Batch, KeyedBatch
from .._tensors.loaded import Loaded
from .._tensors.recent_blocks import RecentBlocks
from ..errors import DecodeError, TransformError
from .bad_records import ErrorHandler
from .job_queue import JobQueue
from .lost_records import FilledBatches, LostRecords
from .position import LatestPosition, Position, Walk
from .prefetch import Prefetcher, Result
from .record_loader import LoadJob, RecordLoader
from .replacement import ReplacedRecords
from .statistics import IterationMeter
from .transform import Transform

logger = logging.getLogger("torchrec_io")

# Number of small batches that are read and parsed together if native code does all the work.
_MOST_IN_RUN = 32
# Runs are loaded ahead for each thread, and at least this many.
_LEAST_RUNS_AHEAD = 2


class Iteration:
    """Loads the records of a process in their order.

    Args:
        loader: Reads and parses records.
        position: Position of the first item.
        latest: Position of the iteration of this process that yielded last.
        meter: Measures what is yielded and the time that it takes; counts skipped errors.
        transform: Calls the user's function.
    """

    def __init__(
        self,
        loader: RecordLoader,
        position: Position,
        latest: LatestPosition,
        meter: IterationMeter,
        *,
        transform: Transform | None = None,
    ) -> None:
        self._loader = loader
        self._partition = partition = position.partition
        self._position = position
        self._latest = latest
        self._is_beside = False  # another one
        self._meter = meter
        self._transform = transform
        self._options = partition.options
        self._in_batches = partition.in_batches
        # Samples that were yielded and are still in use.
        self._recent = None if self._in_batches else RecentBlocks()
        self._errors = ErrorHandler(self._options["on_error"], meter.counters)
        self._lost = self._lost_records()

    def _lost_records(self) -> LostRecords:
        partition, loader = self._partition, self._loader
        if partition.replaces_lost:
            return ReplacedRecords(loader, self._position, self._errors)
        if self._in_batches and partition.fills_up:
            return FilledBatches(loader, self._position.size_at)
        return LostRecords(loader)

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
        batches = partition.batches(reader, position.progress, position.layout)
        prefetcher = Prefetcher(
            self._load,
            JobQueue(batches, self._loader, partition.order.seed),
            in_background,
            max(_LEAST_RUNS_AHEAD, threads),
            _MOST_IN_RUN if self._loader.is_native else 1,
            in_thread=self._meter.in_thread,
        )
        self._meter.begin()
        self._is_beside = self._latest.run(position)
        try:
            yield from self._items_of(prefetcher)
            position.reached = partition.end_of(position.progress, position.layout)
            position.end()
            if self._is_beside:
                self._latest.note(position)
        finally:
            if not self._is_beside:
                self._latest.end()
            self._meter.end()
            prefetcher.close()
            self._errors.report()

    def _items_of(self, jobs: Iterable[tuple[LoadJob, Result]]) -> Iterator[Any]:
        """Yield the items of the jobs of all epochs."""
        position, errors, lost = self._position, self._errors, self._lost
        errors.begin_epoch(position.reached.epoch)
        for job, loaded in jobs:
            if isinstance(loaded, BaseException):
                if not len(job.units):  # an error after all batches
                    yield from self._yielded(lost.rest())
                try:
                    raise loaded
                finally:
                    del job, loaded  # its traceback refers to this frame
            if job.epoch != position.reached.epoch:
                yield from self._yielded(lost.rest())
                if not self._enter(job.epoch):
                    return
                errors.begin_epoch(job.epoch)
            position.was_tried = True
            if self._in_batches:
                if loaded.has_lost:
                    errors.handle_loaded(loaded, self._loader)
                self._meter.stored_bytes += job.plan.stored_bytes(0, len(job.plan.numbers))
                yield from self._yielded(lost.batches(job, loaded))
            else:
                yield from self._samples(job, loaded)
        yield from self._yielded(lost.rest())

    def _enter(self, epoch: int) -> bool:
        """Move to the start of a later epoch; return False if the iteration must end."""
        position = self._position
        if position.was_tried and not position.has_yielded and self._options["epochs"] is None:
            # It would search for a good record forever.
            reason = (
                f"epoch {position.reached.epoch} yielded nothing: all of its records were skipped"
            )
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

    def _yielded(self, batches: Iterable[Loaded]) -> Iterator[Any]:
        """Yield batches, and move the position with each of them."""
        position, options = self._position, self._options
        for loaded in batches:
            taken = loaded.num_planned
            batch_size = position.size_at()
            ahead = max(0, taken - batch_size) if self._partition.fills_up else 0
            position.move(1 if self._partition.has_batches else taken, ahead)
            count = len(loaded.numbers)
            is_full = batch_size is not None and count >= batch_size
            if is_full or (count > 0 and not options["drop_last"]):
                position.has_yielded = True
                items = self._with_keys(loaded)
                position.take()
                if self._is_beside:
                    self._latest.note(position)
                self._meter.pause(count, 1)
                self._meter.count_sources(loaded.numbers)
                yield items
                self._meter.resume()

    def _with_keys(self, loaded: Loaded) -> Any:
        items = loaded.items
        if self._transform is not None:
            random = RecordRandom(self._partition.order.seed, self._position.reached.epoch)
            found = loaded.transformed or self._transform.of_batch(loaded, random)
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
            loaded = self._lost.completed(job, loaded)
        end = position.reached.consumed + len(job.units)
        position.move(0, len(job.units) - len(loaded.numbers))
        yield from self._each(job, loaded)
        position.move(end - position.reached.consumed)

    def _each(self, job: LoadJob, loaded: Loaded, most: int | None = None) -> Iterator[Any]:
        samples = loaded.made
        if samples is None:
            samples = loaded.samples(job.random, schema=self._loader.parser.stored_by)
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
            yield from self._taken(items, loaded.numbers, _ends(job, loaded))
            del items
            if self._recent is not None:
                self._recent.add(samples)
        if error is not None:
            _raise(error)

    def _taken(self, items: list[Any], numbers: Numbers, ends: Sequence[int]) -> Iterator[Any]:
        """Yield samples in parts, and move the position with each sample."""
        position = self._position
        position.has_yielded = True
        count = len(items)
        with self._meter.samples(items, numbers) as rest:
            del items
            position.walk = Walk(rest, count, ends)
            if self._is_beside:
                for _ in range(count - 1):
                    self._latest.note(position)
                    yield itertools.islice(rest, 1)
                self._latest.note(position)
            else:
                yield itertools.islice(rest, count - 1)
            last = [next(rest)]
            position.walk = None
            position.move(ends[count - 1])
            position.take()
            yield last

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
        planned: list[LoadJob] = []
        for job in jobs:
            if job.error is not None:
                break
            planned.append(job)
        try:
            run = self._loader.load_jobs(planned) if planned else []
        except OSError as error:
            return [error] * len(jobs)
        return [self._transformed(job, each) for job, each in zip(jobs, run, strict=False)]

    def _load_alone(self, job: LoadJob) -> Result:
        if job.error is not None:
            return job.error
        try:
            loaded = self._loader.load_job(job)
        except BaseException as error:  # noqa: BLE001  # raised when this batch is asked for
            return error
        return self._transformed(job, loaded)

    def _transformed(self, job: LoadJob, loaded: Loaded) -> Loaded:
        """Transform loaded records, unless others are put into their batch.

        Stored records that are not needed any more are released.
        """
        loaded = loaded._replace(block=None)
        if self._transform is None or loaded.has_lost or not len(loaded.numbers):
            return loaded
        if not self._in_batches:
            samples = loaded.samples(job.random, schema=self._loader.parser.stored_by)
            transformed = self._transform.of_samples(loaded, samples)
            return loaded._replace(made=samples, transformed=transformed)
        if self._lost.is_filling:
            return loaded
        return loaded._replace(transformed=self._transform.of_batch(loaded, job.random))


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
