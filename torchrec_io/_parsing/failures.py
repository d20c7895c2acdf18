"""Records that cannot be parsed: where they are, and details that are made on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class RecordFailure(NamedTuple):
    """A record that cannot be parsed with the schema.

    Attributes:
        position: Position of the record in the block.
        feature: Flat name of the feature; None if the record as a whole is not valid.
        offset: Offset of the fault in the record, in bytes; None if it is not in one place.
        reason: Reason, as part of an error message.
        cause: Exception that was raised, if there is one.
        hint: Function that describes the record, to end the message; it may return "".
    """

    position: int
    feature: str | None
    offset: int | None
    reason: str
    cause: Exception | None = None
    hint: Callable[[], str] | None = None

    def message(self, *, with_offset: bool = False) -> str:
        """Return the reason, with the hint at the end."""
        reason = self.reason
        if with_offset and self.offset is not None:
            reason = f"{reason}, at byte {self.offset} of the record"
        return reason if self.hint is None else reason + self.hint()


class Failures:
    """Records of a block that cannot be parsed.

    There may be many of them, and most readers only count them. So the details of each are made
    when they are asked for.

    Args:
        positions: Positions of the records in the block; int64 ``[n]``, ascending.
        failure_of: Function that returns the failure of one of them; its position may be of
            another block.

    Attributes:
        positions: Positions of the records in the block; int64 ``[n]``, ascending.
    """

    def __init__(self, positions: Ints, failure_of: Callable[[int], RecordFailure]) -> None:
        self.positions = positions
        self._failure_of = failure_of

    @classmethod
    def of(cls, failures: Sequence[RecordFailure]) -> Failures:
        """Return failures that are known, in ascending order of their positions."""
        positions = np.array([failure.position for failure in failures], np.int64)
        return cls(positions, failures.__getitem__)

    @classmethod
    def joined(cls, parts: Sequence[Failures]) -> Failures:
        """Return the failures of all parts. The first one of a record is its failure."""
        if len(parts) < 2:
            return parts[0] if parts else NO_FAILURES
        ends = np.cumsum([len(part) for part in parts])
        records = np.concatenate([part.positions for part in parts])
        positions, firsts = np.unique(records, return_index=True)

        def failure_of(index: int) -> RecordFailure:
            number = int(np.searchsorted(ends, firsts[index], side="right"))
            begin = int(ends[number]) - len(parts[number])
            return parts[number][int(firsts[index]) - begin]

        return cls(positions, failure_of)

    def moved(self, to: Ints) -> Failures:
        """Return the failures by other positions.

        Args:
            to: New position of each record of the block, ascending.
        """
        return Failures(to[self.positions], self._failure_of)

    def listed(self) -> list[RecordFailure]:
        """Return all failures, with their details."""
        return [self[index] for index in range(len(self))]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> RecordFailure:
        return self._failure_of(index)._replace(position=int(self.positions[index]))


NO_FAILURES = Failures.of(())


def complement(positions: Ints, count: int) -> Ints:
    """Return the positions from 0 to ``count - 1`` that are not among the given ones."""
    is_other = np.ones(count, bool)
    is_other[positions] = False
    return np.flatnonzero(is_other)
