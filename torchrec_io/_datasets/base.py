"""The base class of iterable datasets: epochs, iterating, saving and resuming."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from torch.utils.data import IterableDataset
from typing_extensions import TypeVar

from .description import describe
from .missing_methods import MissingMethods
from .partition import RecordPartition
from .pipeline import Pipeline
from .session import Session
from .statistics import LoadingStats

if TYPE_CHECKING:
    from typing_extensions import Self


# What a dataset yields: a Batch, a Sample, or the result of a transform.
Item_co = TypeVar("Item_co", covariant=True, default=Any)


class RecordDataset(MissingMethods, IterableDataset[Item_co]):
    """Base of the iterable datasets of this package.

    Args:
        pipeline: The parts of the dataset.
    """

    _partition_class: ClassVar[type[RecordPartition]]
    """Class that assigns records to processes."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        # Of loaders, too: the state of the dataset in this process.
        self._session = Session(pipeline, self._partition_class)

    @property
    def paths(self) -> list[str]:
        """The data files."""
        return list(self._session.pipeline.paths)

    @property
    def batch_size(self) -> int | None:
        """Number of records in a batch, or its maximum for batches by length; None if unlimited."""
        size: int | None = self._session.pipeline.options["batch_size"]
        return size

    @property
    def schema(self) -> Any:
        """The schema of the columns; None if records are not parsed into columns."""
        return self._session.pipeline.loader.parser.schema

    @property
    def skipped(self) -> int:
        """Number of errors skipped so far, in this process and its workers; see ``on_error``."""
        return self._session.state.skipped

    @property
    def repeated(self) -> int:
        """Number of records repeated so far in place of lost ones, in this process and its workers.

        See ``on_error``. Records that ``uneven="pad"`` repeats are not counted.
        """
        return self._session.state.repeated

    def stats(self) -> LoadingStats:
        """Return statistics of loading since the previous call.

        The first call counts from the start. Workers of a DataLoader are included: what they have
        made counts, even if the training loop has not received it yet. With such workers only
        :func:`make_loader` knows how long the training loop waits, so call its ``stats`` instead.
        """
        return self._session.stats()

    def _counted(self) -> list[int]:
        """Internal interface for loaders: the numbers of a :class:`StatsWindow` so far."""
        return self._session.counted()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration. Each epoch has its own shuffle.

        Epochs advance by themselves: an iteration that reaches its end is followed by the next
        epoch, and one that is left early by the same epoch. Workers of a plain DataLoader run ahead
        of the loop, so only they know the end; see docs/order.md.

        Running workers follow it, too (``persistent_workers=True``). A position that was set by
        :meth:`resume` or :meth:`load_state_dict` is kept if it is in that epoch, else dropped.

        Args:
            epoch: Number of the epoch, from 0.
        """
        self._session.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the last iteration as plain numbers and strings.

        The position counts items taken from the iterator, not prefetched ones. In DataLoader
        workers, torchdata's ``StatefulDataLoader`` calls this. With a plain DataLoader and workers,
        count the batches that were used and call :meth:`resume`.

        Raises:
            RuntimeError: If DataLoader workers iterate: only they know their positions.
        """
        return self._session.save()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start the next iteration at a saved position, without reading what came before.

        The iteration continues with the rest of all the epochs of the interrupted one. The state
        may come from a run with another ``world_size``, or another number of workers if it is not
        the state of a DataLoader worker: the order of all records is the same.

        After a state at the end of an epoch, the next epoch follows. If :meth:`set_epoch` was
        called for the epoch of the state, nothing is left of that.

        If :meth:`set_epoch` was called for another epoch since the last iteration, that epoch comes
        next and the state is ignored, because ``StatefulDataLoader`` loads states only then.

        Raises:
            StateMismatchError: If the state belongs to other files or another split, shuffle, seed
                or batch size; the message names the difference. Another batch size is accepted if
                its product with ``world_size`` is the same. A process layout that does not match
                raises when the iteration starts.
        """
        self._session.load(state)

    def __iter__(self) -> Iterator[Item_co]:
        return self._session.iterate()

    def __repr__(self) -> str:
        return describe(type(self).__name__, self._session)

    def __copy__(self) -> Self:
        # The copy has epochs and positions of its own.
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._session = self._session.copy()  # of this class
        return other

    def _derive(self, pipeline: Pipeline) -> Self:
        """Return a dataset of the same class and attributes with other parts, at its start."""
        other = copy.copy(self)
        other._session = Session(pipeline, self._partition_class)  # noqa: SLF001  # of this class
        return other
