"""A dataset of records in an order: iterated, shared, saved and gone on with."""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, get_worker_info

from .control import Control
from .errors import DecodeError, StaleIndexError, StateMismatchError, TorchRecIOError
from .features.schema import Schema
from .feed import Feed, Job, Lookahead
from .order.distributed import resolve_rank
from .order.mixed import ENDLESS
from .order.orders import Order, StreamedOrder
from .order.plan import UNEVEN_CHOICES, EpochPlan, Uneven
from .order.progress import Arrangement, Progress, from_state, to_state
from .records.blocks import BlockPlan
from .records.reader import ReadPlan
from .records.streamed import StreamPiece, StreamReader
from .source import Loaded, RecordSource

if TYPE_CHECKING:
    from typing_extensions import Self

ErrorPolicy: TypeAlias = "Literal['raise', 'skip'] | Callable[[TorchRecIOError], Any]"

logger = logging.getLogger("torchrec_io")

# Without a batch size, records are still read and parsed this many at once.
_MOST_AT_ONCE = 256


@dataclass(frozen=True)
class LoadOptions:
    """How records are put into batches, shared and read; see :class:`torchrec_io.TFRecordDataset`.

    Raises:
        ValueError: a value is none of the choices.
    """

    batch_size: int | None = None
    drop_last: bool = False
    epochs: int | None = 1
    rank: int | None = None
    world_size: int | None = None
    uneven: Uneven = "keep"
    on_error: ErrorPolicy = "raise"
    num_threads: int | None = None
    prefetch: int = 2
    with_key: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip") and not callable(self.on_error):
            raise ValueError(
                f"on_error must be 'raise', 'skip' or a function, not {self.on_error!r}"
            )
        if self.uneven not in UNEVEN_CHOICES:
            raise ValueError(f"uneven must be one of {UNEVEN_CHOICES}, not {self.uneven!r}")
        check_least("epochs", self.epochs, 0)
        check_least("batch_size", self.batch_size, 1)
        check_least("num_threads", self.num_threads, 1)
        check_least("prefetch", self.prefetch, 1)
        if self.drop_last and self.batch_size is None:
            raise ValueError("drop_last needs a batch_size")
        resolve_rank(self.rank, self.world_size)

    def replace(self, **options: Any) -> LoadOptions:
        """The same but for some options.

        Raises:
            TypeError: there is no such option.
            ValueError: a value is none of the choices.
        """
        known = [field.name for field in dataclasses.fields(self)]
        for name in options:
            if name not in known:
                raise TypeError(f"{name!r} cannot be replaced; what can is {', '.join(known)}")
        return dataclasses.replace(self, **options)


class RecordDataset(IterableDataset[Any]):
    """What the datasets of this package share; use :class:`torchrec_io.TFRecordDataset`.

    Args:
        source: Reads and decodes records.
        order: Which record comes when.
        options: How they are given.
    """

    def __init__(
        self, source: RecordSource, order: Order | StreamedOrder, options: LoadOptions
    ) -> None:
        super().__init__()
        self._source = source
        self._order = order
        self._options = options
        self._control = Control()
        # Of the iteration that began last in this process.
        self._position: _Position | None = None
        # How often the epoch had been set when an iteration began last in this process.
        self._times_set = 0
        # Where this worker's next iteration begins, if a state was loaded in the worker.
        self._loaded: tuple[Progress, Arrangement] | None = None

    # ---- what users ask ----

    @property
    def num_records(self) -> int:
        """Records of an epoch, for all ranks together.

        Raises:
            TypeError: there is no index to know it from.
        """
        if isinstance(self._order, StreamedOrder):
            raise TypeError("without an index nobody knows how many records there are")
        return len(self._order)

    @property
    def batch_size(self) -> int | None:
        """Records of a batch, or None if samples are given."""
        return self._options.batch_size

    @property
    def schema(self) -> Schema | None:
        """The schema records are parsed by, if there is one."""
        return self._source.schema

    @property
    def skipped(self) -> int:
        """Damages left out so far because of ``on_error``, in this process and in its workers."""
        return self._control.skipped

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch that the next iteration starts with; another one is another shuffle.

        Reaches running workers too (``persistent_workers=True``). A place given by :meth:`resume`
        or :meth:`load_state_dict` is kept if it is in that epoch, and dropped if not.
        """
        check_least("epoch", epoch, 0)
        self._control.set_epoch(epoch)
        resumed = self._control.peek_resume()
        if resumed is not None and not resumed[0].is_in(epoch):
            self._control.drop_resume()

    def __len__(self) -> int:
        """Batches, or samples without a batch size, that this rank sees in one whole iteration.

        Raises:
            TypeError: there is no end, or no index to know it from.
        """
        epochs = self._options.epochs
        if epochs is None or self.num_records == ENDLESS:
            raise TypeError("an endless dataset has no length")
        plan = self._plan(self._arrangement(0, 1), Progress())
        per_epoch = plan.num_rank_records if self.batch_size is None else plan.num_rank_batches
        return per_epoch * epochs

    # ---- saving and resuming ----

    def state_dict(self) -> dict[str, Any]:
        """How far the last iteration has come: plain numbers and strings.

        It counts what was taken from the iterator, not what was read ahead. In DataLoader workers,
        torchdata's ``StatefulDataLoader`` asks for it; with a plain DataLoader and workers, count
        the batches that were used and call :meth:`resume`.

        Raises:
            RuntimeError: DataLoader workers iterate, and only they know.
        """
        if get_worker_info() is None and self._control.in_workers:
            raise RuntimeError(
                "DataLoader workers read this dataset, ahead of what was used: take the state of a "
                "torchdata StatefulDataLoader, or count batches and resume(epoch=..., batches=...)"
            )
        progress, by = self._come_to()
        return to_state(progress, by, self._order.describe(), self.batch_size)

    def _come_to(self) -> tuple[Progress, Arrangement]:
        if self._position is not None:
            progress = self._position.progress
            # A worker is told of the next epoch while it is in this one.
            if get_worker_info() is not None or not self._wanted_elsewhere(progress):
                return progress, self._position.by
        return self._control.peek_resume() or self._start(self._arrangement(0, 1))

    def _wanted_elsewhere(self, progress: Progress) -> bool:
        """Whether another epoch was set since an iteration began here."""
        is_set = self._control.times_set != self._times_set
        return is_set and not progress.is_in(self._control.epoch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next iteration go on where a state was taken; reads nothing of what came before.

        It goes through what was left of all the epochs of the interrupted iteration. Another
        ``world_size`` goes on in the same order of all records; so does another number of workers
        if the state is not of a DataLoader worker.

        If :meth:`set_epoch` named another epoch since the last iteration, that is where the next
        one begins, and the state is passed over: ``StatefulDataLoader`` loads it only then.

        Raises:
            StateMismatchError: the state is of other files, another split, shuffle, seed or batch
                size; it says which. Another batch size will do if that times ``world_size`` is the
                same. If only the arrangement of processes does not fit, iterating raises it.
        """
        world_size = resolve_rank(self._options.rank, self._options.world_size)[1]
        progress, by = from_state(state, self._order.describe(), self.batch_size, world_size)
        self._position = None
        if self._wanted_elsewhere(progress):
            self._control.drop_resume()
            return
        if self._control.times_set == self._times_set:
            self._control.epoch = progress.first_epoch
        if get_worker_info() is not None:
            self._loaded = (progress, by)
        else:
            self._control.in_workers = False
            self._control.resume_from(progress, by)

    def resume(self, *, epoch: int, batches: int) -> None:
        """Has the next iteration begin after so many batches of an epoch.

        For a plain DataLoader, whose workers run ahead of what was used. Reads nothing of what came
        before. With ``on_error="skip"`` batches were filled up from what came next, so as many
        records as were lost come again.

        Args:
            epoch: The epoch that was interrupted. With ``epochs`` beyond 1 the iteration goes on
                for so many from that one on.
            batches: Batches of that epoch that this rank has used.

        Raises:
            ValueError: the epoch has fewer batches; or there is no ``batch_size`` or no index, so
                that batches cannot be counted.
        """
        check_least("epoch", epoch, 0)
        check_least("batches", batches, 0)
        if self.batch_size is None or isinstance(self._order, StreamedOrder):
            raise ValueError("resume counts batches: it needs a batch_size and an index")
        by = self._arrangement(0, 1)
        most = self._plan(by, Progress()).num_rank_batches
        if batches > most:
            raise ValueError(f"an epoch has {most} batches, {batches} cannot have been used")
        begin = min(batches * by.world_size * self.batch_size, self.num_records)
        self._control.epoch = epoch
        self._control.in_workers = False
        self._control.resume_from(Progress(epoch, epoch, begin), by)
        self._position = None

    # ---- sharing ----

    def _copy(
        self, source: RecordSource, order: Order | StreamedOrder, options: LoadOptions
    ) -> Self:
        """The same dataset but for what is given, at its start."""
        other = copy.copy(self)
        RecordDataset.__init__(other, source, order, options)
        return other

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask torch.distributed; the parent can.
        rank, world_size = resolve_rank(self._options.rank, self._options.world_size)
        options = dataclasses.replace(self._options, rank=rank, world_size=world_size)
        return {**self.__dict__, "_options": options, "_position": None}

    def _arrangement(self, worker: int, num_workers: int) -> Arrangement:
        rank, world_size = resolve_rank(self._options.rank, self._options.world_size)
        batch_size = self.batch_size
        if batch_size is None:
            streamed = isinstance(self._order, StreamedOrder)
            batch_size = _chunk_size(
                ENDLESS if streamed else self.num_records, world_size * num_workers
            )
        return Arrangement(rank, world_size, worker, num_workers, batch_size)

    def _plan(self, by: Arrangement, progress: Progress) -> EpochPlan:
        return EpochPlan(
            num_records=self.num_records,
            batch_size=by.batch_size,
            begin=progress.begin,
            rank=by.rank,
            world_size=by.world_size,
            # Whose turn it is goes on from epoch to epoch.
            worker=(by.worker - progress.dealt) % by.num_workers,
            num_workers=by.num_workers,
            drop_last=self._options.drop_last,
            uneven=self._options.uneven,
        )

    # ---- iterating ----

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, workers = (0, 0) if worker is None else (worker.id, worker.num_workers)
        self._control.in_workers = worker is not None
        self._times_set = self._control.times_set
        if worker is not None and isinstance(self._source.reader, StreamReader):
            self._source.reader.check_no_pipe()
        by = self._arrangement(number, max(1, workers))
        resumed = self._loaded or self._control.take_resume(number, workers)
        self._loaded = None
        if resumed is not None:
            progress, before = resumed
            self._position = _Position.at(self._moved(progress, before, by), by)
        else:
            self._position = _Position.at(*self._start(by))
        threads = self._options.num_threads
        if threads is None:
            threads = 2 if worker is None else 1
        return self._iterate(self._position, threads)

    def _start(self, by: Arrangement) -> tuple[Progress, Arrangement]:
        epoch = self._control.epoch
        return Progress(epoch, epoch), by

    def _moved(self, progress: Progress, before: Arrangement, now: Arrangement) -> Progress:
        if isinstance(self._order, StreamedOrder):
            if before != now and progress.consumed:
                raise StateMismatchError(
                    "without an index only the same rank and worker of as many can go on"
                )
            return progress
        return progress.moved(
            before,
            now,
            num_records=self.num_records,
            share=self._plan(before, progress).num_worker_records,
        )

    def _batches(self, progress: Progress, by: Arrangement) -> Iterator[tuple[int, Any]]:
        """Epoch and records of each batch that is left of an iteration."""
        epochs = self._options.epochs
        while epochs is None or progress.epoch < progress.first_epoch + epochs:
            self._source.reader.begin_epoch()
            came = progress.consumed > 0
            for records in self._epoch_batches(progress, by):
                came = came or len(records) > 0
                yield progress.epoch, records
            if not came and not self._may_come_later(by):
                return
            progress = self._next_epoch(progress, by)

    def _epoch_batches(self, progress: Progress, by: Arrangement) -> Iterator[Any]:
        if isinstance(self._order, StreamedOrder):
            assert isinstance(self._source.reader, StreamReader)
            return self._source.reader.pieces(
                by.worker * by.world_size + by.rank,
                by.world_size * by.num_workers,
                size=by.batch_size,
                window=max(1, int(self._order.shuffle)),
                seed=self._order.seed,
                epoch=progress.epoch,
                skip=progress.consumed,
            )
        order = self._order
        positions = self._plan(by, progress).batches(progress.consumed)
        return (order.at(some, progress.epoch) for some in positions)

    def _may_come_later(self, by: Arrangement) -> bool:
        """Whether a worker that got nothing in an epoch may get something in the next."""
        streamed = isinstance(self._order, StreamedOrder)
        return not streamed and self._plan(by, Progress()).num_rank_batches > 0

    def _next_epoch(self, progress: Progress, by: Arrangement) -> Progress:
        dealt = 0
        if not isinstance(self._order, StreamedOrder):
            dealt = progress.dealt + self._plan(by, progress).num_rank_batches
        return Progress(progress.epoch + 1, progress.first_epoch, dealt=dealt)

    def _iterate(self, position: _Position, threads: int) -> Iterator[Any]:
        batches = self._batches(position.progress, position.by)
        feed = Feed(batches, self._source.reader.plan, self.batch_size or 1)
        lookahead = Lookahead(self._load, feed, threads, self._options.prefetch)
        try:
            while (done := lookahead.next()) is not None:
                job, loaded = done
                self._handle(loaded.errors, position.by.worker)
                self._enter(position, job.epoch)
                if self.batch_size is None:
                    yield from self._given_samples(loaded, job, position)
                    continue
                taken = len(job.records)
                if len(loaded.numbers) < taken:
                    lookahead.recall()
                    loaded, taken = self._topped_up(loaded, job, feed, position.by.worker)
                position.ahead += taken - len(job.records)
                position.consumed += taken
                if self._is_given(len(loaded.numbers)):
                    position.given = True
                    yield self._with_keys(loaded)
        finally:
            lookahead.close()

    def _enter(self, position: _Position, epoch: int) -> None:
        """Goes on to the epoch of the next batch."""
        if epoch != position.epoch:
            if position.tried and not position.given and self._options.epochs is None:
                # It would look for a good record for ever.
                raise DecodeError(f"epoch {position.epoch} gave nothing: all of it was skipped")
            progress = position.progress
            while progress.epoch != epoch:
                progress = self._next_epoch(progress, position.by)
            position.go_to(progress)
        position.tried = True

    def _topped_up(self, short: Loaded, job: Job, feed: Feed, worker: int) -> tuple[Loaded, int]:
        """A batch that lost records, with as many of those that come next; and what it took."""
        parts = [short]
        taken = len(job.records)
        missing = taken - len(short.numbers)
        while missing and (records := feed.take(job.epoch, missing)) is not None:
            more = self._source.read(self._source.reader.plan(records))
            self._handle(more.errors, worker)
            parts.append(more)
            taken += len(records)
            missing -= len(more.numbers)
        return self._source.joined(parts), taken

    def _is_given(self, count: int) -> bool:
        full = self.batch_size is not None and count >= self.batch_size
        return full or (count > 0 and not self._options.drop_last)

    def _with_keys(self, loaded: Loaded) -> Any:
        if not self._options.with_key:
            return loaded.items
        return self._source.reader.keys(loaded.numbers), loaded.items

    def _given_samples(self, loaded: Loaded, job: Job, position: _Position) -> Iterator[Any]:
        samples: Any = loaded.samples()
        if self._options.with_key:
            samples = zip(self._source.reader.keys(loaded.numbers), samples, strict=True)
        before = position.consumed
        position.ahead += len(job.records) - len(loaded.numbers)
        for end, sample in zip(_ends(loaded.numbers, job), samples, strict=True):
            position.consumed = before + end
            position.given = True
            yield sample
        position.consumed = before + len(job.records)

    def _load(self, job: Job, following: Job | None) -> Loaded:
        """Reads and decodes one batch, while the system reads the next."""
        if following is not None and not _reads_on(job.plan, following.plan):
            self._source.reader.will_need(following.plan)
        loaded = self._source.read(job.plan)
        # The stored bytes are needed again only to fill a batch up.
        return loaded if loaded.errors else loaded._replace(block=None)

    def _handle(self, errors: list[TorchRecIOError], worker: int) -> None:
        """Raises the first error, or counts and tells each; uses the list up."""
        on_error = self._options.on_error
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
            self._control.count_skipped(worker)
            if callable(on_error):
                on_error(error)
            else:
                logger.warning("skipped: %s", error)


@dataclass
class _Position:
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
    def at(cls, progress: Progress, by: Arrangement) -> _Position:
        return cls(by, *dataclasses.astuple(progress))

    @property
    def progress(self) -> Progress:
        return Progress(
            self.epoch, self.first_epoch, self.begin, self.consumed, self.ahead, self.dealt
        )

    def go_to(self, progress: Progress) -> None:
        """Another epoch."""
        self.__init__(self.by, *dataclasses.astuple(progress))  # type: ignore[misc]


def _ends(numbers: npt.NDArray[Any], job: Job) -> Sequence[int]:
    """For each record that is left of a job: how many of the job's end with it."""
    if len(numbers) == len(job.records):
        return range(1, len(numbers) + 1)
    planned = job.records.block.numbers if isinstance(job.records, StreamPiece) else job.records
    ends = []
    at = 0
    for number in numbers:
        while planned[at] != number:
            at += 1
        at += 1
        ends.append(at)
    return ends


def _reads_on(plan: Any, following: Any) -> bool:
    """Whether a read goes on where another ended; the system then reads ahead by itself."""
    return isinstance(plan, (ReadPlan, BlockPlan)) and bool(following.continues(plan))


def check_least(name: str, value: int | None, least: int) -> None:
    """Raises ValueError unless a value is None or a whole number of at least ``least``."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _chunk_size(num_records: int, readers: int) -> int:
    """Records that are dealt to a worker at once where there is no batch size.

    A power of two, so that DataLoader's batches of the usual sizes are all full but the last; small
    enough that every worker gets some.
    """
    chunk = _MOST_AT_ONCE
    while chunk > 1 and chunk * readers * 2 > num_records:
        chunk //= 2
    return chunk
