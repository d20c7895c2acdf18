"""Orders of an epoch: which record comes at which position."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from .._records.block_reader import BlockReader
from .._records.reader import Reader
from .._records.record_reader import RecordReader
from .._records.repetitions import repeated
from .._storage.digest import digest_text
from .continuation import Continuation
from .lanes import Blocks
from .plan import EpochPlan
from .selection import Mask, Numbers, Selection
from .shuffle import (
    Shuffle,
    ShuffleChoice,
    check_seed,
    check_shuffle,
    lanes_of,
    records_at,
)
from .weighted import Draws

# The length of an endless order. Python still accepts it as a length.
ENDLESS = 2**62

# Positions whose records are computed at once, if they belong to several batches: a call takes as
# long for a few as for many.
_POSITIONS_AT_ONCE = 1 << 12

# Returns the plan of an epoch of the given number of units.
PlanOf: TypeAlias = "Callable[[int], EpochPlan]"


class Order(ABC):
    """The records of an epoch in their order, as a function of the position.

    The units of an order are assigned to ranks and workers. They are records, whole batches where
    these are made by length, or rows that are packed with records.
    """

    has_batches: bool = False
    """True if a unit is a whole batch."""

    has_rows: bool = False
    """True if a unit is a row that is packed with records."""

    continuation: Continuation | None = None
    """Where the parts of a mixture continue in one epoch."""

    @property
    @abstractmethod
    def seed(self) -> int:
        """Seed of the random choices in an epoch, together with the epoch's number."""

    @property
    def lanes(self) -> int | None:
        """Number of lanes that units come from in turn and ranks own; None without lanes."""
        return None

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of records of the dataset, selected or not."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records in an epoch."""

    @abstractmethod
    def count(self, epoch: int) -> int:
        """Return the number of units in an epoch."""

    @property
    def has_equal_epochs(self) -> bool:
        """True if all epochs have the same number of units."""
        return not (self.has_batches or self.has_rows)

    def guess_count(self) -> int:
        """Return about the number of units in an epoch, quickly: by default one for each record."""
        return len(self)

    def batches(self, epoch: int, plan_of: PlanOf, consumed: int) -> Iterator[Any]:
        """Yield the units of each batch that a plan assigns to one process; see `plan_units`.

        Args:
            epoch: Number of the epoch.
            plan_of: Returns the process's plan of an epoch of that many units.
            consumed: Number of the process's units to skip.
        """
        for units in plan_of(self.count(epoch)).batches(consumed):
            yield self.plan_units(units, epoch)

    @abstractmethod
    def plan_units(self, units: Numbers, epoch: int) -> Any:
        """Return some units in the form in which they are loaded.

        Args:
            units: Positions of the units in the epoch; int64 ``[n]``, at least one.
            epoch: Number of the epoch.

        Returns:
            Record numbers, int64 ``[n]``; or the ``_core.RowPlan`` of rows.

        Raises:
            IndexError: If the epoch has no such unit.
        """

    @abstractmethod
    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of some units, in their order.

        Args:
            units: Positions of units in the epoch; int64 ``[n]``.
            epoch: Number of the epoch.

        Returns:
            int64, one for each record.
        """

    def limits_before(self, unit: int, epoch: int) -> dict[str, int] | None:
        """Return the limits of the units before one, by the first unit of each.

        They are part of a state, because the records of units depend on the limits before them.
        None if limits do not change in the training.
        """
        del unit, epoch
        return None

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on, as JSON values; it differs for other orders."""

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return the reader that reads this order best: by default the reader of single records.

        Args:
            reader: Reader of single records.
            at_once: Number of records in a batch.
        """
        del at_once
        return reader


class PositionOrder(Order):
    """Base of orders whose units are records, computed from their positions."""

    @property
    def total(self) -> int:
        return len(self)

    @abstractmethod
    def contains(self, numbers: Numbers) -> Mask:
        """Return whether each record may come in an epoch.

        Args:
            numbers: Record numbers without repetitions; int64 ``[n]``.

        Returns:
            bool ``[n]``.
        """

    @abstractmethod
    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Return the record numbers at positions of an epoch's order.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.
            epoch: Number of the epoch.

        Returns:
            int64 ``[n]``. Where a record comes again in the epoch, its numbers have different
            :mod:`~torchrec_io._records.repetitions`.
        """

    def count(self, epoch: int) -> int:
        """Return the number of records in an epoch: by default the same in all."""
        del epoch
        return len(self)

    def batches(self, epoch: int, plan_of: PlanOf, consumed: int) -> Iterator[Numbers]:
        """Yield the record numbers of each batch of a process; see :meth:`Order.batches`."""
        plan = plan_of(self.count(epoch))
        batches = plan.batches(consumed)
        at_once = max(1, _POSITIONS_AT_ONCE // plan.largest_batch)
        while positions := [*itertools.islice(batches, at_once)]:
            numbers = self.at(np.concatenate(positions), epoch)
            ends = np.cumsum([len(batch) for batch in positions])
            yield from np.split(numbers, ends[:-1])

    def plan_units(self, units: Numbers, epoch: int) -> Numbers:
        """Return the record numbers of some units, which are records; see :meth:`at`."""
        return self.at(units, epoch)

    def records_of(self, units: Numbers, epoch: int) -> Numbers:
        return self.at(units, epoch)


@dataclass(frozen=True)
class RecordOrder(PositionOrder):
    """Selected records of a dataset, shuffled or as stored. An :class:`Order`.

    Attributes:
        selection: The records that are read.
        shuffle: See :data:`torchrec_io._order.shuffle.ShuffleChoice`.
        seed: Seed of the shuffle.
        files: Text that identifies the dataset's files; see :func:`files_fingerprint`.

    Raises:
        ValueError: If ``shuffle`` or ``seed`` is invalid.
    """

    selection: Selection
    shuffle: ShuffleChoice = False
    seed: int = 0
    files: str = ""

    can_batch_by_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_shuffle(self.shuffle)
        object.__setattr__(self, "seed", check_seed(self.seed))
        _ = self._draws  # checks the weights

    @functools.cached_property
    def _draws(self) -> Draws | None:
        """Draws of records by weight; None if the shuffle has no weights."""
        shuffle = self.shuffle
        if not isinstance(shuffle, Shuffle) or not shuffle.is_weighted:
            return None
        return Draws(shuffle.weights, self.selection, shuffle.num_samples, shuffle.replacement)

    @property
    def lanes(self) -> int | None:
        return lanes_of(self.shuffle)

    @property
    def records(self) -> Selection:
        """The stored records that the selection comes from."""
        return self.selection

    def contains(self, numbers: Numbers) -> Mask:
        positions = self.selection.positions_of(np.stack((numbers, numbers + 1)).reshape(-1))
        are_selected = positions[: len(numbers)] < positions[len(numbers) :]
        if self._draws is not None:
            begins = positions[: len(numbers)][are_selected]
            are_selected[are_selected] = self._draws.weights[begins] > 0
        return are_selected

    def with_records(self, records: Selection) -> Self:
        """Return the same order of those samples that belong to other stored records."""
        return self.with_selection(records)

    def with_selection(self, selection: Selection) -> Self:
        """Return the same order of other samples."""
        return dataclasses.replace(self, selection=selection)

    @property
    def total(self) -> int:
        return self.selection.total

    def __len__(self) -> int:
        return len(self.selection if self._draws is None else self._draws)

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        if self._draws is not None:
            drawn = self.selection.numbers_at(self._draws.at(positions, self.seed, epoch))
            return repeated(drawn, positions) if self._draws.replacement else drawn
        size = len(self.selection)
        return self.selection.numbers_at(
            records_at(positions, size, self.shuffle, self.seed, epoch)
        )

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on."""
        return {
            "files": self.files,
            "records": len(self),
            "split": self.selection.fingerprint(),
            "shuffle": str(self.shuffle),
            "seed": self.seed,
        }

    def fit_reader(self, reader: RecordReader, at_once: int) -> Reader:
        """Return a reader of whole blocks if the shuffle is by blocks, else of single records."""
        if not isinstance(self.shuffle, Shuffle) or self._draws is not None:
            if self.shuffle is True or self._draws is not None:
                reader.report_decodings()
            return reader
        most = max(1, len(self))
        assert self.shuffle.block is not None
        assert self.shuffle.window is not None
        size = min(self.shuffle.block, most)
        reader.report_decodings(size)
        # Where one window follows another, the records of both are in use.
        in_use = max(min(self.shuffle.window, most), min(at_once, most))
        # A window of a lane may have the rest of its records, too.
        rest = 0 if self.lanes is None else 1
        return self._block_reader(reader, size, 2 * (in_use // size + 2 + rest))

    def _block_reader(self, reader: RecordReader, size: int, keep: int) -> Reader:
        lanes = self.lanes or 1
        blocks = Blocks(self.selection, size, lanes)
        return BlockReader(reader, blocks.block_of, blocks.numbers_of, keep, lanes)


@dataclass(frozen=True)
class StreamOrder:
    """The order of records that are read from front to back, without an index.

    Attributes:
        files: Text that identifies the files: a digest of their names.
        shuffle: Number of records in the shuffle buffer, or False.
        seed: Seed of the shuffle.
    """

    files: str
    shuffle: bool | int
    seed: int

    has_batches: ClassVar[bool] = False
    has_rows: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))

    def describe(self) -> dict[str, Any]:
        """Return all that the order depends on."""
        return {
            "files": self.files,
            "index": None,
            "shuffle": str(self.shuffle),
            "seed": self.seed,
        }


def files_fingerprint(files: Sequence[tuple[int, int, int]]) -> str:
    """Return a short text that identifies files by their contents and order.

    It does not depend on the location of the files, so a run can be resumed on another machine.

    Args:
        files: Number of records, size in bytes and content fingerprint of each file.
    """
    text = ";".join(f"{records},{size},{content}" for records, size, content in files)
    return digest_text(text)
