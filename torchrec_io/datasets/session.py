"""The state of a dataset in one process: iterating, saving and resuming."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import get_worker_info

from ..checks import check_integer
from ..order.progress import ProcessLayout, Progress, from_state, to_state
from .bad_records import ErrorHandler
from .dealing import Dealer
from .iteration import Iteration, Position
from .options import resolved_rank
from .pipeline import Pipeline
from .worker_state import WorkerState

logger = logging.getLogger("torchrec_io")


class Session:
    """The state of a dataset: its epoch, its last position and the position to resume from.

    A session is copied with its dataset into DataLoader workers, which share its
    :class:`WorkerState`, and into other training processes, which do not.

    Args:
        pipeline: The parts of the dataset.
        dealer: Class that assigns records to processes.

    Attributes:
        pipeline: The parts of the dataset.
    """

    def __init__(self, pipeline: Pipeline, dealer: type[Dealer]) -> None:
        self.pipeline = pipeline
        self._dealer_class = dealer
        self._own_state = WorkerState()
        self._pid = os.getpid()
        # Rank and world size of the process in which this was pickled, and that process.
        self._pickled_in: tuple[int, int, int] | None = None
        # Position of the last iteration in this process.
        self._position: Position | None = None
        # Where this worker's next iteration starts, if a state was loaded in the worker.
        self._loaded: tuple[Progress, ProcessLayout] | None = None
        errors = ErrorHandler(pipeline.options["on_error"], self.state)
        errors.handle([*pipeline.errors])
        errors.report()

    def copy(self) -> Session:
        """Return an independent session with the same state."""
        other = Session(dataclasses.replace(self.pipeline, errors=()), self._dealer_class)
        other._own_state = self.state.copy()
        other._position = copy.copy(self._position)
        return other

    def share(self, other: Session) -> None:
        """Share the state of another session: ``set_epoch`` of either reaches both."""
        self._own_state = other.state

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask torch.distributed for its rank; this process can.
        rank, world_size = resolved_rank(self.pipeline.options)
        return {
            **self.__dict__,
            "_pickled_in": (rank, world_size, os.getpid()),
            "_own_state": self.state,
            "_position": None,
        }

    # ---- parts ----

    @property
    def dealer(self) -> Dealer:
        """Assigns records to this process, by its rank."""
        pipeline = self.pipeline
        rank, world_size = self._rank()
        return self._dealer_class(pipeline.order, pipeline.options, rank, world_size)

    def _rank(self) -> tuple[int, int]:
        if self._pickled_in is not None and get_worker_info() is not None:
            rank, world_size, pid = self._pickled_in
            parent = multiprocessing.parent_process()
            if parent is not None and parent.pid == pid:
                return rank, world_size
        # Another training process has a rank of its own.
        return resolved_rank(self.pipeline.options)

    @property
    def state(self) -> WorkerState:
        """State shared with the copies in DataLoader workers."""
        if self._pid != os.getpid() and get_worker_info() is None:
            # Another training process has its own epochs and positions.
            self._pid = os.getpid()
            self._own_state = self._own_state.copy()
        return self._own_state

    # ---- iterating ----

    def iterate(self) -> Iterator[Any]:
        """Start an iteration of this process and return its items."""
        worker = get_worker_info()
        number, workers = (0, 0) if worker is None else (worker.id, worker.num_workers)
        self.state.is_in_workers = worker is not None
        dealer = self.dealer
        if worker is not None:
            dealer.check_in_worker(self.pipeline.loader.reader)
            _share_memory_with_parent()
        layout = dealer.layout(number, max(1, workers))
        resumed = self._loaded or self.state.take_resume(number, workers)
        self._loaded = None
        if resumed is not None:
            progress, before = resumed
            self._position = Position.at(dealer.moved(progress, before, layout), layout)
        else:
            self._position = Position.at(*self.start(layout))
        threads = self.pipeline.options["num_threads"]
        if threads is None:
            threads = 2 if worker is None else 1
        iteration = Iteration(self.pipeline.loader, dealer, self.state)
        return iteration.items(self._position, threads, self.state.times_set)

    def start(self, layout: ProcessLayout) -> tuple[Progress, ProcessLayout]:
        """Return the start of the next epoch."""
        epoch = self.state.epoch
        return Progress(epoch, epoch), layout

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        check_integer("epoch", epoch)
        self.state.set_epoch(epoch)
        resumed = self.state.peek_resume()
        if resumed is not None and not resumed[0].is_in(epoch):
            self.state.drop_resume()

    # ---- saving and resuming ----

    def save(self) -> dict[str, Any]:
        """Return the position of the last iteration as a state.

        Raises:
            RuntimeError: If DataLoader workers iterate.
        """
        if get_worker_info() is None and self.state.is_in_workers:
            raise RuntimeError(
                "DataLoader workers read this dataset ahead of what was used. Save the state of "
                "a torchdata StatefulDataLoader, or count batches and call "
                "resume(epoch=..., batches=...)"
            )
        return self.to_state(*self._reached())

    def to_state(self, progress: Progress, layout: ProcessLayout) -> dict[str, Any]:
        """Return a progress as a state."""
        return to_state(progress, layout, self.pipeline.order.describe(), self._state_batch_size)

    @property
    def _state_batch_size(self) -> int | None:
        """The batch size, if steps of another batch size may hold the same records."""
        size: int | None = self.pipeline.options["batch_size"]
        return size if not self.dealer.deals_batches else None

    def _reached(self) -> tuple[Progress, ProcessLayout]:
        if self._position is not None:
            progress = self._position.progress
            # A worker learns of the next epoch while it is in this one.
            if get_worker_info() is not None or not self.is_sent_elsewhere(progress):
                return progress, self._position.layout
        return self.state.untaken_resume() or self.start(self.dealer.layout())

    def is_sent_elsewhere(self, progress: Progress) -> bool:
        """Return whether another epoch was set since an iteration started."""
        is_set = self.state.times_set != self.state.times_seen
        return is_set and not progress.is_in(self.state.epoch)

    def load(self, state: Mapping[str, Any]) -> None:
        """Start the next iteration at a state.

        Raises:
            StateMismatchError: If the state belongs to another order.
        """
        dealer = self.dealer
        progress, layout = from_state(
            state, self.pipeline.order.describe(), self._state_batch_size, dealer.world_size
        )
        dealer.check_state(progress, layout)
        self._position = None
        if self.is_sent_elsewhere(progress):
            logger.info("set_epoch was called for another epoch than the state's: it comes next")
            self.state.drop_resume()
            return
        if self.state.times_set == self.state.times_seen:
            self.state.epoch = progress.first_epoch
        if get_worker_info() is not None:
            self._loaded = (progress, layout)
        else:
            self.resume(progress, layout)

    def resume(self, progress: Progress, layout: ProcessLayout) -> None:
        """Start the next iteration at a progress."""
        self._position = None
        self.state.is_in_workers = False
        self.state.resume_from(progress, layout)


@functools.cache  # persistent workers start several iterations
def _share_memory_with_parent() -> None:
    """Exclude the objects that a worker starts with from garbage collection.

    A collection would visit all objects of PyTorch and so copy the memory that is shared with the
    parent. It takes 0.1 s and would delay the first batch of each worker.
    """
    gc.freeze()
