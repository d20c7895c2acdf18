"""The state of a dataset in one process: iterating, saving and resuming."""

from __future__ import annotations

import dataclasses
import functools
import gc
import itertools
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.data import get_worker_info

from .._order.continuation import saved_continuation
from .._order.distributed import resolve_rank
from .._order.mesh import find_mesh_problem
from .._order.mixture import MixedOrder
from .._order.progress import Place, Progress, from_state, place_of, read_state, to_state
from .._order.ramp import Ramp
from .._order.selection import Numbers
from .._storage.exit import close_at_exit
from .._tensors.arena import Allocate, allocate_arena
from .._tensors.trainers import ReadDataset, TrainerLoader, make_dicts, makes_dicts, trainer_hooks
from ..checks import check_choice
from ..errors import StateMismatchError
from .absent_features import warn_of_absent_features
from .bad_records import ErrorHandler
from .epoch_clock import worker_iteration
from .epochs import Epochs, NewWeights, first_rank
from .iteration import Iteration
from .lost_items import report_lost_items
from .options import makes_batches
from .partition import EpochPartition, RecordPartition
from .pipeline import Pipeline
from .position import LatestPosition, Position
from .statistics import IterationMeter, LoadingStats, StatsWindow
from .transform import Transform
from .worker_state import Subject

if TYPE_CHECKING:
    from torch.utils.data._utils.worker import WorkerInfo

logger = logging.getLogger("torchrec_io")

_EPOCHS_OF_RANKS = (
    "another epoch starts in DataLoader workers, which run ahead of the training loop: ranks may "
    "get out of step if a loop is left just before its end. Call set_epoch(epoch) before each "
    "epoch, or use tio.make_loader"
)

_NEW_WEIGHTS = (
    ". To continue each dataset of a mixture with other weights or datasets, use "
    'load_state_dict(state, weights="new")'
)


class PickledIn(NamedTuple):
    """The process in which a dataset was pickled.

    Attributes:
        rank: Its rank.
        world_size: Number of ranks.
        pid: Its process identifier.
        loader: The loader of a trainer that was reading it.
        makes_dicts: Whether ``default_collate`` made dicts of its samples.
        mesh_problem: Why the rank is wrong; None if it is right.
    """

    rank: int
    world_size: int
    pid: int
    loader: TrainerLoader | None
    makes_dicts: bool
    mesh_problem: str | None


class Session(Epochs):
    """The state of a dataset: its parts, its epoch, and the positions of its iterations.

    A session is copied with its dataset into DataLoader workers, which share its
    :class:`WorkerState`, and into other training processes, which do not.

    Args:
        pipeline: The parts of the dataset.
        partition: Class that assigns records to processes.

    Attributes:
        pipeline: The parts of the dataset.
        is_own_share: Whether a loader of this package reads the share of this process, in a program
            in which a trainer would split the whole.
        starts: Positions at which a loader of this package starts its iterations, which move no
            epoch: int64 ``[processes, PLACE_NUMBERS]`` in shared memory. None without such a
            loader.
        allocate: Function that allocates the arenas of iterations that start now.
        newest: Position of the iteration of this process that started last.
    """

    def __init__(self, pipeline: Pipeline, partition: type[RecordPartition]) -> None:
        order = pipeline.order
        self._source_of: Callable[[Numbers], Numbers] | None = None
        if isinstance(order, MixedOrder):
            super().__init__(len(order.bases), len(order.source_bases))
            self._source_of = order.source_of
        else:
            super().__init__()
        self.pipeline = pipeline
        self._continued: MixedOrder | None = None
        self.is_own_share = False
        self._partition_class = partition
        # The process in which this was pickled.
        self._pickled_in: PickledIn | None = None
        self._latest = LatestPosition()  # of the iterations in this process
        # Where this worker's next iteration starts, if a state was loaded in the worker.
        self._loaded: Place | None = None
        self.starts: torch.Tensor | None = None
        self.allocate: Allocate = allocate_arena
        self.newest: Position | None = None
        # Number of iterations that this process began as a worker.
        self._times_begun = 0
        self._is_mesh_checked = False
        self._meter: IterationMeter | None = None  # of the last iteration in this process
        self._window = StatsWindow()
        errors = ErrorHandler(pipeline.options["on_error"], self.state.counters)
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
                *self._rank(),
                os.getpid(),
                self._trainer_loader,
                makes_dicts(),
                self._find_mesh_problem(),
            ),
            "_own_state": self.state,
            "_latest": LatestPosition(),
            "newest": None,
            "_meter": None,
            "_continued": None,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["_pickled_in"].pid == os.getpid():
            self._pickled_in = None  # a copy in the same process

    # ---- parts ----

    @property
    def order(self) -> Any:
        """Order of the units; in a mixture, parts may continue where a run with others was."""
        order = self.pipeline.order
        continuation = self.state.continuation
        if continuation is None:
            return order
        if self._continued is None or self._continued.continuation != continuation:
            self._continued = order.continued(continuation)
        return self._continued

    @property
    def partition(self) -> RecordPartition:
        """Assigns records to this process, by its rank."""
        return self._partition_of(self.order)

    def _partition_of(self, order: Any) -> RecordPartition:
        loader = self._trainer_loader
        at_once = None if loader is None else loader.samples_at_once
        return self._partition_class(order, self.pipeline.options, *self._rank(), at_once)

    def _rank(self) -> tuple[int, int]:
        parent = self._pickled_in_parent()
        if parent is not None:
            return parent.rank, parent.world_size
        options = self.pipeline.options
        if options["rank"] is None and self._trainer_loader is not None:
            return 0, 1  # the trainer divides what the dataset yields
        # Another training process has a rank of its own.
        return resolve_rank(options["rank"], options["world_size"])

    def _find_mesh_problem(self) -> str | None:
        """Return why the rank is not that of a share of the records; None if it is."""
        parent = self._pickled_in_parent()
        if parent is not None:
            return parent.mesh_problem
        if self.pipeline.options["rank"] is not None or self._trainer_loader is not None:
            return None
        return find_mesh_problem()

    def _check_mesh(self) -> None:
        """Raise ValueError if the rank is not that of a share of the records."""
        if self._is_mesh_checked:  # once: objects of the whole process are searched
            return
        problem = self._find_mesh_problem()
        if problem is not None:
            raise ValueError(problem)
        self._is_mesh_checked = True

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
        return self.pipeline.loader.other_columns()

    # ---- iterating ----

    def iterate(self) -> Iterator[Any]:
        """Start an iteration of this process and return its items."""
        self._check_mesh()
        worker = get_worker_info()
        self.state.is_in_workers = int(worker is not None)
        partition = self.partition
        if worker is not None:
            self._begin_in_worker(worker)
        position, begin = self._start(worker, partition)
        threads = self.pipeline.options["num_threads"]
        if threads is None:
            threads = 2 if worker is None else 1
        self._meter = IterationMeter(self.state.counters, threads, self._source_of)
        latest = self._latest.get()
        if latest is not None and latest.times.loaded != position.times.loaded:
            self._latest = LatestPosition()  # older iterations that still run no longer count
        self._latest.start(position)
        self.newest = position
        iteration = Iteration(
            self.pipeline.loader.allocating(self.allocate),
            position,
            self._latest,
            self._meter,
            transform=Transform.of(partition.options, self.pipeline.loader.reader),
        )

        def begin_first() -> None:
            self._check_trainer()
            if position.layout.rank == position.layout.worker == 0:
                warn_of_absent_features(self.pipeline, self.state)
            begin()

        items = iteration.items(threads, begin_first)
        close_at_exit(items)
        return items if partition.in_batches else itertools.chain.from_iterable(items)

    def _begin_in_worker(self, worker: WorkerInfo) -> None:
        """Prepare this DataLoader worker for an iteration."""
        warning = trainer_hooks().position_warning()
        if worker.id == 0 and self.starts is None and warning is not None:
            self.state.warn_once(logger, Subject.positions, warning)
        _share_memory_with_parent()
        self._latest = LatestPosition()  # an iteration of the parent does not run here
        report_lost_items()
        parent = self._pickled_in_parent()
        if parent is not None and parent.makes_dicts:
            make_dicts()

    def _start(
        self, worker: WorkerInfo | None, partition: RecordPartition
    ) -> tuple[Position, Callable[[], None]]:
        """Return the position of a new iteration, and a function for its first request."""
        if self.starts is not None:
            place = place_of(self.starts[0 if worker is None else worker.id].tolist())
            return Position.at(place, partition, self.times, _do_nothing), _do_nothing
        times, state = self.times, self.state

        def see_epochs() -> None:
            # Not before the first item is requested: the workers of a StatefulDataLoader all load
            # their states before that, and must see the same number.
            state.times_seen = times.set

        if worker is not None:
            return self._start_in_worker(worker, partition, see_epochs)
        layout = partition.layout()
        place = partition.moved(*self.next_start(), layout), layout
        state.drop_resume()
        return Position.at(place, partition, times, self.begin()), see_epochs

    def _start_in_worker(
        self, worker: WorkerInfo, partition: RecordPartition, see_epochs: Callable[[], None]
    ) -> tuple[Position, Callable[[], None]]:
        """Return the position of a new iteration in a worker; see :meth:`_start`."""
        clock, times = self.state.clock, self.times
        layout = partition.layout(worker.id, worker.num_workers)
        iteration = worker_iteration(worker.seed, worker.id, self._times_begun)
        self._times_begun += 1
        end = functools.partial(clock.end, iteration, worker.num_workers)
        resumed = self.current(self.state.take_resume(iteration, worker.num_workers))
        loaded, self._loaded = self._loaded, None
        start = loaded or resumed
        progress = None if start is None else partition.moved(*start, layout)
        if loaded is None or progress is None or self.is_epoch_set:
            epoch, follows = clock.begin(iteration)
            if progress is None and follows and layout.world_size > 1:
                self.state.warn_once(logger, Subject.epochs, _EPOCHS_OF_RANKS)
            place = progress or Progress(epoch, epoch), layout
            return Position.at(place, partition, times, end), see_epochs
        position = Position.at((progress, layout), partition, times, end)
        is_at_end = partition.is_done(*loaded) and partition.is_done(progress, layout)
        clock.restart(iteration, progress.first_epoch, is_at_end=is_at_end)
        if is_at_end:
            position.end()

        def begin() -> None:
            see_epochs()
            # All workers have loaded their states before the first item is requested.
            if is_at_end and clock.has_passed(iteration, progress.epoch):
                clock.begin(iteration)
                following = partition.next_epoch(progress, layout)
                position.enter(dataclasses.replace(following, first_epoch=following.epoch))
                position.has_ended = False

        return position, begin

    # ---- statistics ----

    def counted(self) -> list[int]:
        """Return the numbers of the statistics so far; see :class:`StatsWindow`."""
        records, *others = self.state.counters.snapshot()
        if self._meter is not None:
            records += self._meter.samples_taken
        return [records, *others]

    def stats(self) -> LoadingStats:
        """Return the statistics since the last call."""
        return self._window.take(self.counted(), self.state.counters.began)

    # ---- positions ----

    def set_epoch(self, epoch: int) -> None:
        loader = self._trainer_loader
        if loader is not None and loader.is_iterating:  # it starts an iteration
            self._check_trainer()
        super().set_epoch(epoch)

    def place(self) -> Place:
        """Return the position of the iteration that yielded last."""
        position = self._latest.get()
        # A worker learns of the next epoch while it is in this one.
        if position is not None and (
            get_worker_info() is not None or not self.is_replaced(position.progress, position.times)
        ):
            return position.place
        return self.next_start()

    def repeat_epoch(self) -> None:
        """Start the last iteration of this process again: its last items were not used."""
        position = self._latest.get()
        if position is not None and position.has_ended and position.next_epoch is not None:
            self.repeat(position.reached.first_epoch, position.next_epoch)

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
        return self.to_state(self.place())

    def load(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> None:
        if get_worker_info() is None:
            super().load(state, weights)
            return
        place = self.from_state(state, weights)
        self._latest = LatestPosition()
        if not self.is_dropped(place[0]):
            self._loaded = place

    def to_state(self, place: Place) -> dict[str, Any]:
        progress, layout = place
        partition = self.partition
        order: Any = partition.order
        if self.leaves_nothing(place, first_rank(layout)):
            progress = partition.end_of(progress, layout)
        described = partition.describe_order(progress, layout)
        state = to_state(progress, layout, described, self._state_batch_size)
        if isinstance(self.order, MixedOrder) and isinstance(partition, EpochPartition):
            position = partition.position_of(progress, layout)
            if position is not None:
                state.update(order.describe_position(position, progress.epoch))
        return state

    def from_state(self, state: Mapping[str, Any], weights: NewWeights | None = None) -> Place:
        if weights is not None:
            return self._continue(state, weights)
        order = self.pipeline.order
        advice, continuation = "", None
        if isinstance(order, MixedOrder):
            advice, continuation = _NEW_WEIGHTS, saved_continuation(state, len(order.bases))
            order = order.continued(continuation)
        partition = self._partition_of(order)
        progress, layout, _ = read_state(state)
        described, world_size = partition.describe_order(progress, layout), partition.world_size
        place = from_state(state, described, self._state_batch_size, world_size, advice)
        partition.check_state(*place)
        self.state.continuation = continuation
        return place

    def _continue(self, state: Mapping[str, Any], weights: NewWeights) -> Place:
        """Continue the datasets of a mixture after a state of one that was mixed otherwise."""
        check_choice("weights", weights, ("new",))
        order = self.pipeline.order
        if not isinstance(order, MixedOrder):
            raise TypeError(
                "weights='new' needs a mixture that tio.mix made, without pack in mix(): other "
                "datasets have no weights"
            )
        progress, _, described = read_state(state)
        continuation = order.continued_after(state)
        partition = self._partition_of(order.continued(continuation))
        new: Any = partition.order
        sizes = [each.get("records_per_epoch") for each in (described, new.describe())]
        if sizes[0] != sizes[1]:
            raise StateMismatchError(
                "weights='new' needs the steps_per_epoch of the state: its epochs have "
                f"{sizes[0] or 'all'} records, not {sizes[1] or 'all'}"
            )
        begin = new.start_in(progress.epoch)
        place = Progress(progress.epoch, progress.first_epoch, begin), partition.layout()
        partition.check_state(*place)
        self.state.continuation = continuation
        return place

    @property
    def _state_batch_size(self) -> int | Ramp | None:
        """The batch size, if steps of another batch size may hold the same records."""
        size: int | Ramp | None = self.pipeline.options["batch_size"]
        return size if not self.partition.has_batches else None


def _do_nothing(*_: Any) -> None:
    """Take the place of a function of iterations that move epochs."""


@functools.cache  # persistent workers start several iterations
def _share_memory_with_parent() -> None:
    """Exclude the objects that a worker starts with from garbage collection.

    A collection would visit all objects of PyTorch and so copy the memory that is shared with the
    parent. It takes 0.1 s and would delay the first batch of each worker.
    """
    gc.freeze()
