"""Orders of an epoch: which record comes at which position."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .selection import Selection
from .shuffle import ShuffleChoice, check_shuffle, checked_seed, records_at

_Numbers = npt.NDArray[np.int64]


class Order(Protocol):
    """The records of an epoch in their order, as a function of the position."""

    @property
    def seed(self) -> int:
        """Of all that is random in an epoch, with the epoch."""

    def __len__(self) -> int:
        """Records of an epoch."""

    def at(self, positions: _Numbers, epoch: int) -> _Numbers:
        """Record numbers at positions of an epoch's order; int64 ``[n]`` to int64 ``[n]``."""

    def describe(self) -> dict[str, Any]:
        """All that the order depends on, as JSON has it; orders that differ, differ here."""


@dataclass(frozen=True)
class RecordOrder:
    """Selected records of one dataset, shuffled or as stored.

    Attributes:
        selection: The records.
        shuffle: See :data:`torchrec_io.order.shuffle.ShuffleChoice`.
        seed: Of the shuffle.
        files: What tells the files of the dataset from others; see :func:`files_fingerprint`.

    Raises:
        ValueError: ``shuffle`` is none of the choices.
    """

    selection: Selection
    shuffle: ShuffleChoice = False
    seed: int = 0
    files: str = ""

    def __post_init__(self) -> None:
        check_shuffle(self.shuffle)
        object.__setattr__(self, "seed", checked_seed(self.seed))

    def __len__(self) -> int:
        return len(self.selection)

    @property
    def records(self) -> Selection:
        """The records that what is ordered is of: themselves."""
        return self.selection

    def with_records(self, records: Selection) -> RecordOrder:
        """The same order of other records."""
        return dataclasses.replace(self, selection=records)

    def at(self, positions: _Numbers, epoch: int) -> _Numbers:
        size = len(self.selection)
        return self.selection.numbers_at(
            records_at(positions, size, self.shuffle, self.seed, epoch)
        )

    def describe(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "records": len(self),
            "split": self.selection.fingerprint(),
            "shuffle": str(self.shuffle),
            "seed": self.seed,
        }


@dataclass(frozen=True)
class StreamedOrder:
    """The order of records that are read from front to back, without an index.

    Attributes:
        files: What tells the files from others: their names.
        shuffle: Records of the shuffle buffer, or False.
        seed: Of the shuffle.
    """

    files: str
    shuffle: bool | int
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", checked_seed(self.seed))

    def describe(self) -> dict[str, Any]:
        """As :meth:`Order.describe`."""
        return {
            "files": self.files,
            "index": None,
            "shuffle": str(self.shuffle),
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Blocks:
    """Blocks of selected records that follow each other, which a block shuffle keeps together.

    Attributes:
        selection: The records.
        size: Records of a block.
    """

    selection: Selection
    size: int

    def of(self, numbers: _Numbers) -> _Numbers:
        """The block of each record."""
        return self.selection.positions_of(numbers) // self.size

    def numbers(self, block: int) -> _Numbers:
        """The records of a block, in ascending order."""
        begin = block * self.size
        end = min(begin + self.size, len(self.selection))
        return self.selection.numbers_at(np.arange(begin, end, dtype=np.int64))


def files_fingerprint(files: Sequence[tuple[int, int, int]]) -> str:
    """A short name of some files in their order: (records, bytes, content fingerprint) of each.

    It does not depend on where the files are, so a run can be resumed on another machine.
    """
    text = ";".join(f"{records},{size},{content}" for records, size, content in files)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
