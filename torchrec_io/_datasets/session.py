"""The state of a dataset in one process: iterating, saving and resuming."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from torch.utils.data import get_worker_info

from .._order.progress import ProcessLayout, Progress, from_state, to_state
from .._storage.exit import close_at_exit
from .._tensors.trainers import ReadDataset, TrainerLoader, make_dicts, makes_dicts, trainer_hooks
from ..checks import check_integer
from ..errors import StateMismatchError
from .absent_features import warn_of_absent_features
from .bad_records import ErrorHandler
from .epoch_clock import worker_iteration
from .iteration import Iteration, Position
from .iteration_clock import IterationClock
from .latest_position import LatestPosition
from .lost_items import report_lost_items
from .options import makes_batches, resolved_rank
from .partition import RecordPartition
from .pipeline import Pipeline
from .statistics import IterationMeter, LoadingStats, StatsWindow
from .transform import Transform
from .worker_state import Subject, WorkerState

if TYPE_CHECKING:
    from torch.utils.data._utils.worker import WorkerInfo

    from .packing import RowAssembler

logger = logging.getLogger("torchrec_io")

# A position: how far a process is, and which one it is.
Place: TypeAlias = "tuple[Progress, ProcessLayout]"

_EPOCHS_OF_RANKS = (
    "another epoch starts in DataLoader workers, which run ahead of the training loop: ranks may "
    "get out of step if a loop is left just before its end. Call set_epoch(epoch) before each "
    "epoch, or use tio.make_loader"
)


class PickledIn(NamedTuple):
    """The process in which a dataset was pickled.

    Attributes:
        rank: Its rank.
        world_size: Number of ranks.
        pid: Its process identifier.
        loader: The loader of a trainer that was reading it.
        makes_dicts: Whether ``default_collate`` made dicts of its samples.
    """

    rank: int
    world_size: int
    pid: int
    loader: TrainerLoader | None
    makes_dicts: bool


class Session:
    """The state of a dataset: its epoch, its last position and the position to resume from.

    A session is copied with its dataset into DataLoader workers, which share its
    :class:`WorkerState`, and into other training processes, which do not.

    Args:
        pipeline: The parts of the dataset.
        partition: Class that assigns records to processes.

    Attributes:
        pipeline: The parts of the dataset.
        is_own_share: Whether a loader of this package reads the share of this process, in a program
            in which a trainer would split the whole.
        follows_loader: Whether new iterations take their epoch from a loader of this package, which
            moves the clock. Its workers may start late.
        places: Where the first iterations of the workers of such a loader start, if its state was
            loaded. They take the numbers of the workers there, of which the first one comes next.
    """

    def __init__(self, pipeline: Pipeline, partition: type[RecordPartition]) -> None:
        self.pipeline = pipeline
        self.is_own_share = False
        self._partition_class = partition
        self._own_state = WorkerState()
        self._pid = os.getpid()
        # The process in which this was pickled.
        self._pickled_in: PickledIn | None = None
        self._latest = LatestPosition()  # of the iterations in this process
        # Where this worker's next iteration starts, if a state was loaded in the worker.
        self._loaded: Place | None = None
        self.follows_loader = False
        self.places: list[Place] | None = None
        # Number of iterations that this process began as a worker.
        self._times_begun = 0
        self._meter: IterationMeter | None = None  # of the last iteration in this process
        self._window = StatsWindow()
        errors = ErrorHandler(pipeline.options["on_error"], self.state)
        errors.handle([*pipeline.errors])
        errors.report()

    def copy(self) -> Session:
        """Return an independent session with the same state."""
        other = Session(dataclasses.replace(self.pipeline, errors=()), self._partition_class)
        other._own_state = self.state.copy()
        position = self._latest.get()
        if position is not None:
            other._latest.start(position.copy())
        other._window = StatsWindow(other.counted())
        return other

    def share(self, other: Session) -> None:
        """Share the state of another session: ``set_epoch`` of either reaches both."""
        self._own_state = other.state

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask torch.distributed for its rank; this process can.
        return {
            **self.__dict__,
            "_pickled_in": PickledIn(
                *self._rank(), os.getpid(), self._trainer_loader, makes_dicts()
            ),
            "_own_state": self.state,
            "_latest": LatestPosition(),
            "_meter": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["_pickled_in"].pid == os.getpid():
            self._pickled_in = None  # a copy in the same process

    # ---- parts ----

    @property
    def partition(self) -> RecordPartition:
        """Assigns records to this process, by its rank."""
        pipeline = self.pipeline
        loader = self._trainer_loader
        at_once = None if loader is None else loader.samples_at_once
        return self._partition_class(pipeline.order, pipeline.options, *self._rank(), at_once)

    def _rank(self) -> tuple[int, int]:
        parent = self._pickled_in_parent()
        if parent is not None:
            return parent.rank, parent.world_size
        if self.pipeline.options["rank"] is None and self._trainer_loader is not None:
            return 0, 1  # the trainer divides what the dataset yields
        # Another training process has a rank of its own.
        return resolved_rank(self.pipeline.options)

    def _pickled_in_parent(self) -> PickledIn | None:
        """Return the process that started this worker, if the dataset was pickled for it."""
        if self._pickled_in is None or get_worker_info() is None:
            return None
        parent = multiprocessing.parent_process()
        is_parent = parent is not None and parent.pid == self._pickled_in.pid
        return self._pickled_in if is_parent else None

    # ---- trainers ----

    @property
    def _trainer_loader(self) -> TrainerLoader | None:
        """The loader of a trainer that divides the items of the dataset."""
        parent = self._pickled_in_parent()
        options = self.pipeline.options
        dataset = ReadDataset(
            self,
            self.is_own_share or parent is not None or options["rank"] is not None,
            options["world_size"],
            makes_batches(options),
            self._other_columns,
        )
        loader = trainer_hooks().find_loader(dataset)
        return parent.loader if loader is None and parent is not None else loader

    def _check_trainer(self) -> None:
        """Raise ValueError if the loader that is being iterated cannot read the dataset."""
        loader = self._trainer_loader
        if loader is None:
            return
        if loader.warning is not None:
            self.state.warn_once(logger, Subject.cost, loader.warning)
        if loader.problem is not None:
            raise ValueError(loader.problem)

    def _other_columns(self) -> list[str]:
        """Return the names of the columns that are no Tensors, where that is known."""
        if self.pipeline.options["transform"] is not None:
            return []
        loader = self.pipeline.loader
        assembler = self._assembler()
        if assembler is None:
            return loader.other_columns()
        return assembler.other_columns([*loader.empty_items().columns.flat()])

    def _assembler(self) -> RowAssembler | None:
        """Return the assembler of packed rows; None if the dataset does not pack records."""
        pipeline = self.pipeline
        if pipeline.options.get("pack") is None:
            return None
        from .packing import RowAssembler  # noqa: PLC0415  # rarely needed

        return RowAssembler.of(pipeline.options, pipeline.loader)

    @property
    def state(self) -> WorkerState:
        """State shared with the copies in DataLoader workers."""
        if self._pid != os.getpid() and get_worker_info() is None:
            # Another training process has its own epochs and positions.
            self._pid = os.getpid()
            self._own_state = self._own_state.copy()
        return self._own_state

    @property
    def epoch(self) -> int:
        """Epoch with which the next iteration of this process starts."""
        return self.state.loader_epoch if self.follows_loader else self.state.clock.epoch

    # ---- iterating ----

    def iterate(self) -> Iterator[Any]:
        """Start an iteration of this process and return its items."""
        worker = get_worker_info()
        number, workers = (0, 0) if worker is None else (worker.id, worker.num_workers)
        self.state.is_in_workers = worker is not None
        partition = self.partition
        if worker is not None:
            partition.check_in_worker(self.pipeline.loader.reader)
            warning = trainer_hooks().position_warning()
            if number == 0 and not self.follows_loader and warning is not None:
                self.state.warn_once(logger, Subject.positions, warning)
            _share_memory_with_parent()
            if self.places is not None:
                self._loaded, self.places = self.places[number], None
                number = self._loaded[1].worker
            self._latest = LatestPosition()  # an iteration of the parent does not run here
            report_lost_items()
            parent = self._pickled_in_parent()
            if parent is not None and parent.makes_dicts:
                make_dicts()
        layout = partition.layout(number, max(1, workers))
        clock = self._new_clock(worker)
        position = self._start_of(clock, partition, layout, workers)
        threads = self.pipeline.options["num_threads"]
        if threads is None:
            threads = 2 if worker is None else 1
        self._meter = IterationMeter(self.state.counters, threads)
        iteration = Iteration(
            self.pipeline.loader,
            partition,
            position,
            self.state,
            self._meter,
            transform=Transform.of(partition.options, self.pipeline.loader.reader),
            assembler=self._assembler(),
        )

        def check() -> None:
            self._check_trainer()
            if layout.rank == layout.worker == 0:
                warn_of_absent_features(self.pipeline, self.state)

        items = iteration.items(threads, check)
        followed = self._latest.followed(items, position, in_batches=partition.in_batches)
        close_at_exit(followed)
        return followed if partition.in_batches else itertools.chain.from_iterable(followed)

    def _new_clock(self, worker: WorkerInfo | None) -> IterationClock:
        """Return the clock of a new iteration of this process."""
        clock, times_set = self.state.clock, self.state.times_set
        if worker is None:
            return IterationClock(clock, clock.new_iteration(), 0, times_set)
        number = worker_iteration(worker.seed, worker.id, self._times_begun)
        self._times_begun += 1
        return IterationClock(clock, number, worker.num_workers, times_set)

    def _start_of(
        self, clock: IterationClock, partition: RecordPartition, layout: ProcessLayout, workers: int
    ) -> Position:
        """Return the position at which an iteration starts."""
        loaded, self._loaded = self._loaded, None
        resumed = loaded or self._current(self.state.take_resume(layout.worker, workers))
        if resumed is None and self.follows_loader:
            return Position.at(Progress(self.epoch, self.epoch), layout, clock)
        if resumed is None:
            epoch, follows = clock.begin()
            if follows and workers > 0 and layout.world_size > 1:
                self.state.warn_once(logger, Subject.epochs, _EPOCHS_OF_RANKS)
            return Position.at(Progress(epoch, epoch), layout, clock)
        position = Position.at(partition.moved(*resumed, layout), layout, clock)
        if self.follows_loader:
            return position
        if loaded is None or self.is_epoch_set:
            clock.begin()
        else:
            clock.begin_at(position.first_epoch)
            is_at_end = partition.is_done(*loaded) and partition.is_done(position.progress, layout)
            clock.resume(partition, position, is_at_end=is_at_end)
        return position

    def _current(self, resumed: Place | None) -> Place | None:
        """Return a resumed position if it is in the next epoch, else None."""
        is_current = resumed is not None and resumed[0].is_in(self.epoch)
        return resumed if is_current else None

    # ---- statistics ----

    def counted(self) -> list[int]:
        """Return the numbers of the statistics so far; see :class:`StatsWindow`."""
        records, *others = self.state.counters.snapshot()
        if self._meter is not None:
            records += self._meter.samples_taken
        return [records, *others, self.state.skipped, self.state.repeated]

    def stats(self) -> LoadingStats:
        """Return the statistics since the last call."""
        return self._window.take(self.counted(), self.state.counters.began)

    # ---- the end of an iteration ----

    def is_at_end(self) -> bool:
        """Return whether the iteration of this process that yielded last is at its end."""
        position = self._latest.get()
        return position is not None and position.clock.has_ended

    def repeat_epoch(self) -> None:
        """Start the last iteration of this process again: its last items were not used."""
        position = self._latest.get()
        if position is not None:
            position.clock.repeat_epoch(position.first_epoch)

    def next_start(self) -> Place:
        """Return the position at which the next iteration of this rank starts."""
        resumed = self._current(self.state.untaken_resume())
        return resumed or self.start(self.partition.layout())

    def start(self, layout: ProcessLayout) -> Place:
        """Return the start of the next epoch."""
        epoch = self.state.clock.epoch
        return Progress(epoch, epoch), layout

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        check_integer("epoch", epoch)
        loader = self._trainer_loader
        if loader is not None and loader.is_iterating:  # it starts an iteration
            self._check_trainer()
        self.state.set_epoch(epoch)
        resumed = self.state.peek_resume()
        if resumed is not None and not resumed[0].is_in(epoch):
            self.state.drop_resume()

    # ---- saving and resuming ----

    def save(self) -> dict[str, Any]:
        """Return the position of the iteration that yielded last as a state.

        Raises:
            RuntimeError: If DataLoader workers iterate.
        """
        if get_worker_info() is None and self.state.is_in_workers:
            raise RuntimeError(
                "DataLoader workers read this dataset ahead of what was used. Save the state of "
                "a torchdata StatefulDataLoader, or count batches and call "
                "resume(epoch=..., batches=...)"
            )
        return self.to_state(*self.place())

    def to_state(self, progress: Progress, layout: ProcessLayout) -> dict[str, Any]:
        """Return a progress as a state."""
        if self._leaves_nothing(progress, layout, _first_rank(layout)):
            progress = self.partition.end_of(progress, layout)
        return to_state(progress, layout, self.pipeline.order.describe(), self._state_batch_size)

    @property
    def _state_batch_size(self) -> int | None:
        """The batch size, if steps of another batch size may hold the same records."""
        size: int | None = self.pipeline.options["batch_size"]
        return size if not self.partition.has_batches else None

    def place(self) -> Place:
        """Return the position of the iteration that yielded last."""
        position = self._latest.get()
        if position is not None:
            progress = position.progress
            # A worker learns of the next epoch while it is in this one.
            is_in_worker = get_worker_info() is not None
            if is_in_worker or not self.is_sent_elsewhere(progress, position.clock.times_set):
                return progress, position.layout
        return self.next_start()

    @property
    def is_epoch_set(self) -> bool:
        """True if an epoch was set since an iteration started."""
        return self.state.times_set != self.state.times_seen

    def is_sent_elsewhere(self, progress: Progress, times_set: int) -> bool:
        """Return whether another epoch than that of a progress was set.

        Args:
            progress: The progress.
            times_set: Number of calls of ``set_epoch`` before its iteration was created.
        """
        return times_set != self.state.times_set and not progress.is_in(self.epoch)

    def load(self, state: Mapping[str, Any]) -> None:
        """Start the next iteration at a state.

        Raises:
            StateMismatchError: If the state belongs to another order.
        """
        progress, layout = self.from_state(state)
        if get_worker_info() is None:
            if self.enter(progress, is_at_end=self._is_at_end(progress, layout)):
                self.state.resume_from(progress, layout)
        elif not self._is_dropped(progress):
            self._loaded = (progress, layout)

    def from_state(self, state: Mapping[str, Any]) -> Place:
        """Return the position of a state.

        Raises:
            StateMismatchError: If the state belongs to another order.
        """
        partition = self.partition
        progress, layout = from_state(
            state, self.pipeline.order.describe(), self._state_batch_size, partition.world_size
        )
        partition.check_state(progress, layout)
        return progress, layout

    def enter(self, progress: Progress, *, is_at_end: bool) -> bool:
        """Enter the epoch of a position that was loaded, or the next one after its end.

        Returns:
            False if another epoch was set: that comes next, and the position is dropped.
        """
        if self._is_dropped(progress):
            return False
        self._enter(progress, is_at_end=is_at_end)
        return True

    def _is_dropped(self, progress: Progress) -> bool:
        """Return whether a position that is loaded is dropped, as another epoch was set."""
        self._latest.clear()
        is_dropped = self.is_sent_elsewhere(progress, self.state.times_seen)
        if is_dropped:
            logger.info("set_epoch was called for another epoch than the state's: it comes next")
            self.state.drop_resume()
        return is_dropped

    def resume(self, progress: Progress, layout: ProcessLayout) -> None:
        """Start the next iteration at a progress.

        At its end, the next epoch follows. But if its own epoch was set, before or afterwards,
        nothing is left of that.
        """
        self._latest.clear()
        self._enter(progress, is_at_end=self._is_at_end(progress, layout))
        self.state.resume_from(progress, layout)

    def _enter(self, progress: Progress, *, is_at_end: bool) -> None:
        self.state.is_in_workers = False
        self.state.drop_resume()
        if self.is_epoch_set and progress.is_in(self.state.clock.epoch):
            return
        self.state.clock.set(
            self.partition.epoch_after(progress) if is_at_end else progress.first_epoch
        )

    def _is_at_end(self, progress: Progress, layout: ProcessLayout) -> bool:
        """Return whether the next iteration starts with the next epoch after a progress.

        The process of that progress has reached its end, and so has this one: in another layout, it
        must not be ahead of other ranks.
        """
        now = self.partition.layout()
        return self._leaves_nothing(progress, layout, now if now == layout else _first_rank(now))

    def _leaves_nothing(
        self, progress: Progress, before: ProcessLayout, now: ProcessLayout
    ) -> bool:
        """Return whether a process has reached its end, where another one would continue."""
        partition = self.partition
        if not partition.is_done(progress, before):
            return False
        try:
            return partition.is_done(partition.moved(progress, before, now), now)
        except StateMismatchError:  # raised when the iteration starts
            return False


def _first_rank(layout: ProcessLayout) -> ProcessLayout:
    """Return the layout of the first rank: no other rank has more records."""
    return dataclasses.replace(layout, rank=0)


@functools.cache  # persistent workers start several iterations
def _share_memory_with_parent() -> None:
    """Exclude the objects that a worker starts with from garbage collection.

    A collection would visit all objects of PyTorch and so copy the memory that is shared with the
    parent. It takes 0.1 s and would delay the first batch of each worker.
    """
    gc.freeze()
