"""Records that cannot be parsed."""

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


def positions_of(failures: Sequence[RecordFailure]) -> Ints:
    """Return the positions of the records that cannot be parsed; int64 ``[n]``."""
    return np.array([failure.position for failure in failures], np.int64)


def valid_positions(failures: Sequence[RecordFailure], count: int) -> Ints:
    """Return the positions of the other records of a block of ``count`` records, ascending."""
    return np.delete(np.arange(count), positions_of(failures))
