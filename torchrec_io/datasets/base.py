"""A dataset of records in an order: iterated, shared, saved and gone on with."""

from __future__ import annotations

import copy
import dataclasses
import logging
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info

from ..order.distributed import resolve_rank
from ..order.length_batches import BatchedOrder
from ..order.mixture import ENDLESS
from ..order.orders import Order, StreamedOrder
from ..order.progress import Arrangement, Progress, from_state, to_state
from ..records.stream_reader import StreamReader
from .dealing import Shares
from .iteration import Iteration, Position
from .options import LoadOptions, check_number
from .record_loader import ParsedSchema, RecordSource
from .worker_state import Control

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("torchrec_io")


class RecordDataset(IterableDataset[Any]):
    """What the datasets of this package share; use :class:`torchrec_io.TFRecordDataset`.

    Args:
        source: Reads and decodes records.
        order: Which record comes when.
        options: How they are given.
    """

    def __init__(
        self,
        source: RecordSource,
        order: Order | StreamedOrder | BatchedOrder,
        options: LoadOptions,
    ) -> None:
        super().__init__()
        self._source = source
        self._given_shares = Shares(order, options)
        # Rank and world size of the process that this was pickled in, and that process.
        self._pickled_in: tuple[int, int, int] | None = None
        self._own_control = Control()
        self._pid = os.getpid()
        # Of the iteration that began last in this process.
        self._position: Position | None = None
        # Where this worker's next iteration begins, if a state was loaded in the worker.
        self._loaded: tuple[Progress, Arrangement] | None = None

    # ---- what users ask ----

    @property
    def num_records(self) -> int:
        """Records of an epoch, for all ranks together.

        Raises:
            TypeError: there is no index to know it from.
        """
        return self._shares.num_records

    @property
    def batch_size(self) -> int | None:
        """Records of a batch, the most if it is made by length; None if that is not limited."""
        return self._shares.options.batch_size

    @property
    def schema(self) -> ParsedSchema | None:
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
        check_number("epoch", epoch, 0)
        self._control.set_epoch(epoch)
        resumed = self._control.peek_resume()
        if resumed is not None and not resumed[0].is_in(epoch):
            self._control.drop_resume()

    def __len__(self) -> int:
        """Batches, or samples without a batch size, that this rank sees in one whole iteration.

        Of batches made by length another epoch may have more or fewer: they are counted of that
        which :meth:`set_epoch` said last.

        Raises:
            TypeError: there is no end, or no index to know it from.
        """
        epochs = self._shares.options.epochs
        if epochs is None or self.num_records == ENDLESS:
            raise TypeError("an endless dataset has no length")
        if not self._shares.by_length:
            return self._length_of(0) * epochs
        first = self._control.epoch
        return sum(self._length_of(epoch) for epoch in range(first, first + epochs))

    def _length_of(self, epoch: int) -> int:
        plan = self._shares.plan(self._shares.arrangement(0, 1), Progress(epoch))
        in_batches = self._shares.options.in_batches
        return plan.num_rank_batches if in_batches else plan.num_rank_records

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
        return to_state(progress, by, self._shares.order.describe(), self._batch_size_dealt)

    @property
    def _batch_size_dealt(self) -> int | None:
        """The batch size if steps of other batches may have the same records."""
        return None if self._shares.by_length else self.batch_size

    def _come_to(self) -> tuple[Progress, Arrangement]:
        if self._position is not None:
            progress = self._position.progress
            # A worker is told of the next epoch while it is in this one.
            if get_worker_info() is not None or not self._wanted_elsewhere(progress):
                return progress, self._position.by
        return self._control.untaken_resume() or self._start(self._shares.arrangement(0, 1))

    def _wanted_elsewhere(self, progress: Progress) -> bool:
        """Whether another epoch was set since an iteration began here."""
        is_set = self._control.times_set != self._control.times_seen
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
        world_size = resolve_rank(self._shares.options.rank, self._shares.options.world_size)[1]
        progress, by = from_state(
            state, self._shares.order.describe(), self._batch_size_dealt, world_size
        )
        self._shares.check_state(progress, by)
        self._position = None
        if self._wanted_elsewhere(progress):
            logger.info("set_epoch named another epoch than the state: its start is next")
            self._control.drop_resume()
            return
        if self._control.times_set == self._control.times_seen:
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
        check_number("epoch", epoch, 0)
        check_number("batches", batches, 0)
        streamed = isinstance(self._shares.order, StreamedOrder)
        if streamed or not self._shares.options.in_batches:
            raise ValueError("resume counts batches: it needs a batch_size and an index")
        by = self._shares.arrangement(0, 1)
        most = self._shares.plan(by, Progress(epoch)).num_rank_batches
        if batches > most:
            raise ValueError(f"an epoch has {most} batches, {batches} cannot have been used")
        dealt = batches * by.world_size * by.batch_size
        begin = min(dealt, self._shares.num_dealt(epoch))
        self._control.epoch = epoch
        self._control.in_workers = False
        self._control.resume_from(Progress(epoch, epoch, begin), by)
        self._position = None

    # ---- sharing ----

    def _copy(
        self,
        source: RecordSource,
        order: Order | StreamedOrder | BatchedOrder,
        options: LoadOptions,
    ) -> Self:
        """The same dataset but for what is given, at its start."""
        other = copy.copy(self)
        RecordDataset.__init__(other, source, order, options)
        return other

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._own_control = self._control.copy()
        return other

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask torch.distributed; the parent can.
        options = self._shares.options
        rank = resolve_rank(options.rank, options.world_size)
        return {
            **self.__dict__,
            "_pickled_in": (*rank, os.getpid()),
            "_own_control": self._control,
            "_position": None,
        }

    @property
    def _shares(self) -> Shares:
        shares = self._given_shares
        if self._pickled_in is None or get_worker_info() is None:
            return shares  # another training process has a rank of its own
        rank, world_size, pid = self._pickled_in
        parent = multiprocessing.parent_process()
        if parent is None or parent.pid != pid:
            return shares
        options = dataclasses.replace(shares.options, rank=rank, world_size=world_size)
        return Shares(shares.order, options)

    @property
    def _control(self) -> Control:
        if self._pid != os.getpid() and get_worker_info() is None:
            # Another training process: it has its own epochs and places.
            self._pid = os.getpid()
            self._own_control = self._own_control.copy()
        return self._own_control

    # ---- iterating ----

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, workers = (0, 0) if worker is None else (worker.id, worker.num_workers)
        self._control.in_workers = worker is not None
        if worker is not None and isinstance(self._source.reader, StreamReader):
            self._source.reader.check_no_pipe()
        by = self._shares.arrangement(number, max(1, workers))
        resumed = self._loaded or self._control.take_resume(number, workers)
        self._loaded = None
        if resumed is not None:
            progress, before = resumed
            self._position = Position.at(self._shares.moved(progress, before, by), by)
        else:
            self._position = Position.at(*self._start(by))
        threads = self._shares.options.num_threads
        if threads is None:
            threads = 2 if worker is None else 1
        return self._iteration.items(self._position, threads, self._control.times_set)

    @property
    def _iteration(self) -> Iteration:
        return Iteration(self._source, self._shares, self._control)

    def _start(self, by: Arrangement) -> tuple[Progress, Arrangement]:
        epoch = self._control.epoch
        return Progress(epoch, epoch), by
