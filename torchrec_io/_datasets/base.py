"""The base class of iterable datasets: epochs, iterating, saving and resuming."""

from __future__ import annotations

import copy
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from torch.utils.data import IterableDataset

from .._order.ramp import Ramp
from .description import describe, describe_in_html
from .missing_methods import MissingMethods
from .partition import RecordPartition
from .pipeline import Pipeline
from .session import Session
from .statistics import LoadingStats

# What a dataset yields: a Batch, a Sample, or the result of a transform.
if TYPE_CHECKING:  # Python has defaults of type variables from 3.13
    from typing_extensions import TypeVar

    Item_co = TypeVar("Item_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Item_co = TypeVar("Item_co", covariant=True)


class _DatasetType(ABCMeta):
    """Type of the classes of datasets: completion and ``help()`` show only names of datasets."""

    def __dir__(cls) -> list[str]:
        """Return the names that datasets define; PyTorch and Python define more."""
        own = [kind for kind in cls.__mro__ if kind not in IterableDataset.__mro__]
        members = [member for kind in own for member in vars(kind).items()]
        return sorted({name for name, value in members if callable(value) or name[:2] != "__"})


class RecordDataset(MissingMethods, IterableDataset[Item_co], metaclass=_DatasetType):
    """Base of the iterable datasets of this package.

    Args:
        pipeline: The parts of the dataset.
    """

    _partition_class: ClassVar[type[RecordPartition]] = RecordPartition
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
    def batch_size(self) -> int | Ramp | None:
        """Number of records in a batch, or its maximum for batches by length; None if unlimited."""
        size: int | Ramp | None = self._session.pipeline.options["batch_size"]
        return size

    @property
    def schema(self) -> Any:
        """The schema of the columns; None if records are not parsed into columns."""
        return self._session.pipeline.loader.parser.schema

    @property
    def skipped(self) -> int:
        """Number of errors skipped so far, also in workers. See docs/bad-input.md."""
        return self._session.state.counters["skipped"]

    @property
    def repeated(self) -> int:
        """Number of records repeated so far in place of lost ones. See docs/bad-input.md."""
        return self._session.state.counters["repeated"]

    def stats(self) -> LoadingStats:
        """Return statistics of loading since the previous call. See docs/statistics.md."""
        return self._session.stats()

    def _counted(self) -> list[int]:
        """Internal interface for loaders: the numbers of a :class:`StatsWindow` so far."""
        return self._session.counted()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, each with its own shuffle. See docs/order.md."""
        self._session.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the last iteration as plain data. See docs/resuming.md."""
        return self._session.save()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start the next iteration at a saved position. See docs/resuming.md."""
        self._session.load(state)

    def __iter__(self) -> Iterator[Item_co]:
        return self._session.iterate()

    def __getitem__(self, number: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} has no records by number, as it yields them in its order: use "
            "tio.TFRecordMapDataset(paths, schema)[number] for TFRecord files"
        )

    def __repr__(self) -> str:
        return describe(type(self).__name__, self._session)

    def _repr_html_(self) -> str:
        return describe_in_html(repr(self), self.schema)

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
